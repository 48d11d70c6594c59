"""Own jobs' rows in the pairs of a GPU and a CPU target."""

import pytest

from batchmark.analysis.comparison import compare
from batchmark.analysis.pairs.answer import find_answer
from batchmark_job.result.document import Device
from tests.builders.own_jobs import CPU, GPU, LARGE, SIZES, SMALL, JobOn, failed, own_run
from tests.builders.pairs import pair_of
from tests.builders.runs import PRICES, build_run


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


def test_a_row_whose_check_failed_on_one_side_is_not_compared():
    bad = GPU.job(LARGE, 6, check=failed())
    pair = pair_of(*GPU.jobs((SMALL,)), *GPU.jobs((LARGE,), 5), bad, *CPU.jobs((SMALL, LARGE)))
    assert [row.parameters["size"] for row in pair.rows] == [SMALL]
    (uncompared,) = pair.uncompared
    assert uncompared.reason == "g5.xlarge: 1 of 6 jobs failed: its check ended with 1"
    assert uncompared.gpu is None


def test_a_gpu_job_that_failed_says_nothing_of_the_device():
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
