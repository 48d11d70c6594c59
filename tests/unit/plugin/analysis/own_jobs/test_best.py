"""Own jobs' sides compared: the best ones at a place and by a deadline, and the pairs' rows."""

import pytest

from batchmark.analysis.comparison import compare
from batchmark.analysis.pairs.answer import find_answer
from batchmark.core.row_values import ToldMetric
from batchmark_job.result.document import Device
from tests.builders.own_jobs import CPU, GPU, LARGE, SIZES, SMALL, JobOn, failed, own_run
from tests.builders.pairs import pair_of
from tests.builders.runs import LAPTOP_ENVIRONMENT, PRICES, build_run
from tests.builders.studies import own_study


def study_of(*sides, sizes=(SMALL, LARGE), repeats=6):
    return own_study(*(job for side in sides for job in side.jobs(sizes, repeats)))


def test_the_fastest_and_the_cheapest_are_ahead_of_every_other_side_and_a_tie_is_not_known():
    dear = JobOn("g6.xlarge", start_up=40.0)
    small, large = study_of(GPU, CPU, dear).best
    assert (small.place.size, small.fastest, small.cheapest) == (SMALL, "c5.2xlarge", "c5.2xlarge")
    assert (large.place.size, large.fastest, large.cheapest) == (LARGE, "g5.xlarge", "g5.xlarge")
    study = study_of(GPU, JobOn("g4dn.xlarge", start_up=12.0, each=0.01), sizes=(SMALL,))
    (best,) = study.best
    assert best.fastest is None
    assert best.cheapest == "g4dn.xlarge"
    assert study.duels[0].better is None


def test_the_cheapest_side_changes_with_the_deadline():
    fast, slow = GPU, JobOn("c5.2xlarge", start_up=20.0, each=0.01, plan={"deadline_seconds": 16})
    study = study_of(slow, fast, sizes=(SMALL,))
    (best,) = study.best
    first, second = best.deadlines
    assert (first.target, second.target) == ("g5.xlarge", "c5.2xlarge")
    assert first.usd_per_job > second.usd_per_job
    assert (first.jobs, first.rivals, second.rivals) == (6, (), ())
    assert study.deadline_seconds == 16
    assert best.within == first
    # A side that is slower and dearer is no step.
    dear = JobOn("g6.xlarge", start_up=300.0)
    (best,) = study_of(GPU, dear, sizes=(SMALL,)).best
    assert [step.target for step in best.deadlines] == ["g5.xlarge"]
    assert best.within is None


def test_a_deadline_is_kept_by_the_interval_and_by_the_longest_job():
    study = study_of(CPU, sizes=(SMALL,), repeats=3)
    figure = study.sides[0].figures[0]
    assert study.best[0].deadlines[0].from_seconds == figure.longest_seconds > figure.seconds.value
    figure = study_of(CPU, sizes=(SMALL,)).sides[0].figures[0]
    for longest, kept in ((1.0, figure.seconds.interval.high), (99.0, 99.0)):
        assert figure.model_copy(update={"longest_seconds": longest}).kept_seconds == kept
    assert figure.model_copy(update={"seconds": None}).kept_seconds is None


def test_two_sides_that_dollars_do_not_tell_apart_are_both_named_by_a_deadline():
    """Of about the same dollars a job, the slower one a little less by its figure alone."""
    same = JobOn("c5.2xlarge", start_up=GPU.seconds(SMALL) * 1.006 / 0.34 * 0.997, each=0.0)
    prices = PRICES.model_copy(update={"on_demand": PRICES.on_demand | {"c5.2xlarge": 0.34}})
    (best,) = own_study(*GPU.jobs(), *same.jobs(), prices=prices).best
    assert (best.fastest, best.cheapest) == ("g5.xlarge", None)
    first, second = best.deadlines
    assert (first.target, first.rivals) == ("g5.xlarge", ())
    assert (second.target, second.rivals) == ("c5.2xlarge", ("g5.xlarge",))
    assert second.from_seconds > first.from_seconds


def test_the_cheapest_is_of_the_sides_with_a_price():
    unpriced = JobOn("c7i.large", start_up=60.0)
    (best,) = study_of(GPU, CPU, unpriced, sizes=(SMALL,)).best
    assert (best.fastest, best.cheapest) == ("c5.2xlarge", "c5.2xlarge")
    assert best.unpriced == ("c7i.large",)
    (best,) = study_of(GPU, unpriced, sizes=(SMALL,)).best
    assert (best.fastest, best.cheapest) == ("g5.xlarge", None)
    assert [step.target for step in best.deadlines] == ["g5.xlarge"]


def test_on_one_machine_nothing_is_known_of_a_gpu_but_of_two_cpu_sides():
    laptop = {"environment": LAPTOP_ENVIRONMENT}
    fell_back = JobOn("g5.xlarge", actual_device=Device.CPU, start_up=30.0, **laptop)
    cpu = JobOn("c5.2xlarge", start_up=4.0, **laptop)
    study = study_of(fell_back, cpu, sizes=(SMALL,))
    (best,) = study.best
    assert (best.fastest, best.cheapest, best.deadlines) == (None, None, ())
    assert "both ran on the same CPU" in study.duels[0].noise.note
    (best,) = study_of(cpu, JobOn("c6i.large", **laptop), sizes=(SMALL,)).best
    assert (best.fastest, best.cheapest) == ("c5.2xlarge", None)


def test_a_name_with_two_units_is_two_metrics():
    speeds = ("speed", "images/s", "higher"), ("speed", "s", "lower")
    jobs = [
        job
        for side, factor in ((GPU, 1.0), (CPU, 2.0))
        for job in side.jobs(told={speeds[0]: (10.0 * factor,), speeds[1]: (3.0 * factor,)})
    ]
    study = own_study(*jobs)
    duels = {duel.told: duel.better for duel in study.duels if duel.metric}
    assert duels == {
        ToldMetric("speed", "images/s", higher_is_better=True): "c5.2xlarge",
        ToldMetric("speed", "s", higher_is_better=False): "g5.xlarge",
    }
    told = [metric.told for metric in study.sides[0].figures[0].metrics]
    assert set(told) == set(duels)


def test_whole_jobs_are_compared_in_the_order_of_their_sizes_and_metrics_are_not():
    pair = pair_of(*own_run().jobs)
    assert [row.parameters for row in pair.rows] == [
        {"size": size, "start": "warm"} for size in SIZES
    ]
    assert pair.rows[0].verdict == "cpu_target_faster"
    assert pair.rows[-1].verdict == "gpu_target_faster"
    assert pair.uncompared == pair.totals == ()
    jobs = [side.job(size) for size in (LARGE, SMALL) for side in (GPU, CPU)]
    assert [row.parameters["size"] for row in pair_of(*jobs).rows] == [SMALL, LARGE]
    # Dollars are of a job, and no call is counted.
    for row in pair.rows:
        assert row.gpu_usd_per_million_calls is row.cpu_usd_per_million_calls is None
        assert row.gpu_usd == row.gpu_usd_per_job
        assert row.gpu_usd.value == pytest.approx(row.gpu.median_seconds.value * 1.006 / 3600)
        assert row.calls_until_gpu_pays is None
    assert find_answer([pair], "dollars").rows("gpu") == 2


def test_sizes_from_which_the_gpu_pays_are_found_for_each_start():
    jobs = [
        job
        for side in (GPU, CPU)
        for start in ("cold", "warm")
        for job in side.jobs(SIZES, 3, start=start)
    ]
    crossovers = pair_of(*jobs).crossovers
    assert [one.parameters for one in crossovers] == [{"start": "cold"}, {"start": "warm"}]
    for crossover in crossovers:
        assert crossover.axis == "size"
        assert SMALL < crossover.warm_seconds.size < 256
        assert crossover.cold_seconds is crossover.cold_usd is crossover.cold_reason is None


def test_a_row_whose_check_failed_is_not_compared_and_says_nothing_of_the_device():
    bad = GPU.job(LARGE, 6, check=failed())
    pair = pair_of(*GPU.jobs((SMALL,)), *GPU.jobs((LARGE,), 5), bad, *CPU.jobs((SMALL, LARGE)))
    assert [row.parameters["size"] for row in pair.rows] == [SMALL]
    (uncompared,) = pair.uncompared
    assert uncompared.reason == "g5.xlarge: 1 of 6 jobs failed: its check ended with 1"
    assert uncompared.gpu is None
    silent = JobOn("g5.xlarge", actual_device=Device.CPU)
    run = build_run(silent.job(LARGE, 1, check=failed()), *GPU.jobs(), *CPU.jobs())
    found = compare(run, PRICES)
    assert found.notices == ()
    assert not found.pairs[0].cpu_fallback


def test_a_queues_first_job_leaves_one_warm_job_less_and_that_is_said():
    jobs = [
        job
        for side in (GPU, CPU)
        for job in (side.job(repeat=1, start="cold"), *[side.job(repeat=n) for n in range(2, 7)])
    ]
    assert pair_of(*jobs).notes == (
        (
            "A target has only 5 jobs to go by: 5 of 6 ran on warm instances. Use more "
            "repeats: with fewer than 6 such jobs, times have no interval, and no target is "
            "judged better."
        ),
    )
    assert pair_of(*jobs, GPU.job(repeat=7), CPU.job(repeat=7)).notes == ()
