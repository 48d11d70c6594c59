"""Fairness, starvation and what becomes of replicas, on schedules with known answers."""

import pytest

from batchmark.analysis.sharing.replicas import (
    STARVED_GAP,
    ReplicaFigures,
    ends_of,
    group_fairness,
    jain,
    starved,
)
from batchmark_job.result.sharing import Sharing
from tests.builders.sharing import replica


def shared(*replicas, mode="time_slicing", **fields):
    return Sharing(mode=mode, form="processes", replicas=replicas, **fields)


@pytest.mark.parametrize(
    ("shares", "index"),
    [([7, 7, 7, 7], 1), ([3, 1], 0.8), ([9, 0, 0], 1 / 3), ([5], 1), ([0, 0], None)],
)
def test_jains_index_of_known_schedules(shares, index):
    assert jain(shares) == (pytest.approx(index) if index else None)


def test_the_worst_group_counts_and_of_each_job_the_slowest():
    turns = [replica((300, 100, 100)), replica((100, 100))]
    assert group_fairness(turns) == pytest.approx([0.8, 1.0, 0.5])
    figures = ReplicaFigures.of([shared(*turns)])
    assert figures.fairness_worst == pytest.approx(0.5)
    assert figures.fairness_median == pytest.approx(0.8)
    # The slowest is of each job, and the figure their median.
    jobs = [shared(replica(p50=0.01), replica(p50=slow)) for slow in (0.02, 0.03, 0.07)]
    figures = ReplicaFigures.of(jobs)
    assert figures.slowest.p50 == 0.03
    assert figures.slowest.p95 == pytest.approx(0.045)
    assert figures.typical.p50 == pytest.approx(0.02)


def test_memory_of_a_gpu_is_shared_by_those_that_hold_it_at_once():
    pair = replica(), replica()
    assert ReplicaFigures.of([shared(*pair, device_memory_bytes=8)]).device_memory_bytes == 4
    in_turn = shared(*pair, mode="exclusive", device_memory_bytes=4)
    assert ReplicaFigures.of([in_turn]).device_memory_bytes == 4


def test_one_that_starves_in_one_group_is_named_with_its_share():
    found = starved(shared(replica((300, 300, 300)), replica((300, 100, 300))), "job-1")
    assert found == []  # half of the mean is 100
    (one,) = starved(shared(replica((300, 300)), replica((300, 98))), "job-1")
    assert (one.replica, one.job_id, one.group) == (1, "job-1", 1)
    assert str(one) == "replica 2 made 49 % of the mean number of steps"
    # A step cut by a window's edge starves nobody.
    assert starved(shared(replica((4,)), replica((1,))), "job-1") == []
    (one,) = starved(shared(replica((8,)), replica((1,))), "job-1")
    assert one.share == pytest.approx(2 / 9)
    # So does one that waits too long for a step.
    patient = replica(p50=0.01, longest_gap_seconds=0.01 * STARVED_GAP)
    starving = replica(p50=0.01, longest_gap_seconds=0.25)
    (one,) = starved(shared(patient, starving), "job-1")
    assert str(one) == "replica 2 waited as long as 25 of its median steps for a single one"


def test_an_end_in_any_job_is_what_became_of_a_replica():
    fine, crashed = replica(), replica(outcome="crashed", reason="exit code 139")
    ends = ends_of([shared(fine, fine), shared(fine, crashed)])
    assert [str(end) for end in ends] == [
        "replica 1 completed",
        "replica 2 crashed (exit code 139)",
    ]
