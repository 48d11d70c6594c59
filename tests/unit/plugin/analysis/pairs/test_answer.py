"""What all pairs of a run come to: each GPU target against the best CPU target, row by row."""

import pytest

from batchmark.analysis.comparison import compare
from batchmark.analysis.pairs.answer import find_answer
from tests.builders.pairs import at_sizes as jobs
from tests.builders.runs import LAPTOP_ENVIRONMENT, PRICES, build_run

G4, G5, C5, C9 = "g4dn.xlarge", "g5.xlarge", "c5.2xlarge", "c5.9xlarge"


def answer_of(*of_targets, measure="time"):
    found = [job for one in of_targets for job in one]
    return find_answer(compare(build_run(*found), PRICES).pairs, measure)


def test_each_gpu_is_held_against_the_best_cpu_target_of_each_row_and_the_best_one_stands_for_all():
    (workload,) = answer_of(jobs(G5, 1.0, 1.0), jobs(C5, 0.5, 9.0), jobs(C9, 2.0, 3.0)).workloads
    (standing,) = workload.standings
    assert [(duel.cpu, duel.winner) for duel in standing.duels] == [(C5, "cpu"), (C9, "gpu")]
    assert [duel.ratio.value for duel in standing.duels] == pytest.approx([0.5, 3.0], rel=0.02)
    assert standing.crossover is None, "its rivals differ, and so would the crossovers"
    (workload,) = answer_of(jobs(G5, 1.0, 1.1, 1.2, 1.3), jobs(C5, 0.3, 0.7, 2, 6)).workloads
    (standing,) = workload.standings
    assert standing.axis == "size"
    assert 200 < standing.crossover.size < 400, "one rival has one"
    answer = answer_of(jobs(G4, 2.0, 2.0), jobs(G5, 1.0, 4.0), jobs(C5, 1.5, 3.0))
    assert answer.gpus == (G4, G5)
    (workload,) = answer.workloads
    assert [(duel.gpu, duel.winner) for duel in workload.best] == [(G5, "gpu"), (G4, "gpu")]
    assert (answer.rows(), answer.rows("gpu"), answer.rows("cpu", "unknown")) == (2, 2, 0)
    assert [standing.rows("cpu") for standing in workload.standings] == [1, 1]


def test_what_noise_explains_is_not_known_and_dollars_may_turn_the_answer_round():
    answer = answer_of(jobs(G5, 1.0, repeats=1), jobs(C5, 1.1, repeats=1))
    assert answer.rows("unknown") == answer.rows() == 1
    targets = jobs(G5, 1.0), jobs(C5, 1.5)  # at about three times the price
    assert answer_of(*targets).rows("gpu") == 1
    assert answer_of(*targets, measure="dollars").rows("cpu") == 1


def test_without_a_gpu_or_prices_there_is_no_answer():
    fell_back = jobs(G5, 1.0, environment=LAPTOP_ENVIRONMENT, actual_device="cpu")
    assert answer_of(fell_back, jobs(C5, 1.5)).workloads == ()
    elsewhere = jobs(C5, 1.5, environment=LAPTOP_ENVIRONMENT)
    assert answer_of(jobs(G5, 1.0), elsewhere).rows("gpu") == 1
    assert answer_of(jobs(G5, 1.0), elsewhere, measure="dollars").workloads == ()
