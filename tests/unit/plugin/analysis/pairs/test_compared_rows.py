"""Figures of rows and of whole jobs, and which rows are compared."""

import math
from datetime import timedelta

import pytest

from batchmark.analysis.pairs.compared_rows import cheaper_of_two
from batchmark.core.intervals import MINIMUM_SAMPLES, Estimate, Interval
from batchmark_job.result.document import Device, Implementation, MeasurementStatus
from tests.builders.pairs import (
    CPU_ROWS,
    CPU_SAMPLES,
    GPU_ROWS,
    GPU_SAMPLES,
    pair_of,
    skipped,
    two_jobs,
)
from tests.builders.runs import CPU_ENVIRONMENT, build_job, build_row, noisy


def test_medians_and_speedup_by_hand_with_the_sources_of_each_side():
    gpu, cpu = two_jobs(GPU_ROWS, CPU_ROWS)
    pair = pair_of(gpu, cpu)
    (row,) = pair.rows
    assert row.gpu.median_seconds.value == pytest.approx(0.4)
    assert row.cpu.median_seconds.value == pytest.approx(2.0)
    assert row.speedup.value == pytest.approx(5.0)
    assert (row.gpu.samples, row.cpu.samples, row.gpu.jobs) == (7, 8, 1)
    assert row.gpu.cold_seconds == pytest.approx(5.0)
    assert row.gpu.relative_spread == pytest.approx((0.55 - 0.25) / 0.4)
    for estimate in (row.gpu.median_seconds, row.cpu.median_seconds, row.speedup):
        assert estimate.interval.low < estimate.value < estimate.interval.high
    for side, target, job in ((row.gpu, pair.gpu, gpu), (row.cpu, pair.cpu, cpu)):
        (source,) = side.provenance
        for name in ("job_id", "job_attempt", "log_group", "log_stream", "log_url", "document_uri"):
            assert getattr(source, name) == getattr(job, name)
        assert side.implementation == Implementation(name="torch", version="2.13.0")
        assert target.environment == job.document.environment


@pytest.mark.parametrize("count", [1, 2, MINIMUM_SAMPLES - 1])
def test_too_few_samples_give_no_interval_and_no_verdict(count):
    rows = [build_row((0.1,) * count)], [build_row((9.0,) * count)]
    row = pair_of(*two_jobs(*rows)).rows[0]
    assert row.speedup.value == pytest.approx(90)
    assert row.speedup.interval is None
    assert row.speedup.interval_reason.startswith(f"{count} sample")
    assert "at least 6" in row.gpu.median_seconds.interval_reason
    assert row.verdict == "undecided"


@pytest.mark.parametrize(
    ("value", "low", "high", "cheaper"),
    [(2, 0.9, 4, None), (2, 1.1, 4, "first"), (0.5, 0.2, 1.1, None), (0.5, 0.2, 0.9, "second")],
)
def test_who_is_cheaper_needs_the_whole_interval_on_one_side_of_one(value, low, high, cheaper):
    noise = pair_of(*two_jobs(GPU_ROWS, CPU_ROWS)).rows[0].noise
    noise = noise.model_copy(update={"lead": math.log(value), "critical_change": 0.1})
    weighed = Estimate(value=value, interval=Interval(low=low, high=high))
    assert cheaper_of_two(weighed, noise, weighed) == cheaper


def test_nothing_is_decided_between_two_targets_on_one_cpu():
    rows = [build_row(noisy(0.1))], [build_row(noisy(9.0))]
    gpu = build_job("g5.xlarge", rows[0], environment=CPU_ENVIRONMENT, actual_device=Device.CPU)
    row = pair_of(gpu, build_job("c5.2xlarge", rows[1])).rows[0]
    assert row.verdict == "undecided"
    assert row.noise.note == (
        f"not comparable: both ran on the same CPU, {CPU_ENVIRONMENT.cpu_model}"
    )


def test_rows_of_one_side_are_listed_and_never_compared():
    size = {"parameters": {"size": 40000}}
    gpu_rows = [build_row(GPU_SAMPLES), build_row(GPU_SAMPLES, **size)]
    cpu_rows = [
        build_row(CPU_SAMPLES),
        skipped("needs 19.2 GiB", **size),
        build_row(CPU_SAMPLES, workload="fft"),
    ]
    pair = pair_of(*two_jobs(gpu_rows, cpu_rows))
    assert [row.parameters["size"] for row in pair.rows] == [1000]
    too_large, only_cpu = pair.uncompared
    assert too_large.reason == "c5.2xlarge: skipped: needs 19.2 GiB"
    assert too_large.cpu is None
    assert too_large.gpu.median_seconds.value == pytest.approx(0.4)
    assert [source.job_id for source in too_large.cpu_provenance] == ["c5-2xlarge-blog-1"]
    assert only_cpu.reason == "g5.xlarge: not among its rows"


def test_a_row_that_failed_in_one_repeat_or_spreads_widely_says_so():
    failed = build_row(status=MeasurementStatus.FAILED, reason="relative error 0.3")
    pair = pair_of(
        build_job("g5.xlarge", GPU_ROWS, repeat=1),
        build_job("g5.xlarge", [failed], repeat=2),
        build_job("c5.2xlarge", CPU_ROWS),
    )
    assert "g5.xlarge: 1 of 2 jobs failed: relative error 0.3" in pair.rows[0].warnings
    assert pair.rows[0].gpu.jobs == 1
    steady = build_row(noisy(0.1, spread=0.01))
    wild = build_row(noisy(1.0, spread=0.3))
    row = pair_of(*two_jobs([steady], [wild])).rows[0]
    (warning,) = row.warnings
    assert warning.startswith("c5.2xlarge: wide spread")


def test_a_row_keeps_each_targets_own_noise():
    jobs = []
    for repeat, factor in enumerate((0.9, 0.95, 1.0, 1.0, 1.05, 1.1), start=1):
        gpu = [build_row([factor * sample for sample in GPU_SAMPLES])]
        jobs += two_jobs(gpu, CPU_ROWS, repeat=repeat)
    (row,) = pair_of(*jobs).rows
    assert row.noise.gpu.floor == row.noise.floor > 0.05
    assert row.noise.cpu.floor < 0.01
    assert (row.noise.gpu.source, row.noise.gpu.degrees) == ("repeats", 5)


def test_whole_jobs_by_hand_which_did_the_same_work():
    gpu = [
        build_job("g5.xlarge", GPU_ROWS, repeat=n, batch_seconds=b, total_seconds=t)
        for n, (b, t) in enumerate([(50, 30), (60, 40), (70, 90)], start=1)
    ]
    cpu = build_job("c5.2xlarge", CPU_ROWS, batch_seconds=180, total_seconds=100)
    process, batch_job = pair_of(*gpu, cpu).totals
    assert process.gpu_seconds.value == 40
    assert process.speedup.value == pytest.approx(2.5)
    assert batch_job.gpu_seconds.value == 60
    assert batch_job.speedup.value == pytest.approx(3.0)
    assert batch_job.speedup.interval is None
    extra = build_row(CPU_SAMPLES, workload="fft")
    pair = pair_of(*two_jobs([build_row(GPU_SAMPLES)], [build_row(CPU_SAMPLES), extra]))
    for total in pair.totals:
        assert total.speedup is None
        assert total.reason.startswith("c5.2xlarge measured a row that g5.xlarge did not")


def test_a_job_that_was_interrupted_or_took_no_time_gives_no_total():
    stop = {"status": MeasurementStatus.INTERRUPTED, "reason": "SIGTERM", "workload": "fft"}
    pair = pair_of(
        build_job("g5.xlarge", [build_row(GPU_SAMPLES), build_row(**stop)], status="interrupted"),
        build_job("c5.2xlarge", CPU_ROWS),
    )
    assert len(pair.rows) == 1
    assert "interrupted: SIGTERM" in pair.uncompared[0].reason
    assert pair.totals[0].gpu_seconds is None
    assert pair.totals[0].reason == "a target has no complete job"
    gpu, cpu = two_jobs(GPU_ROWS, CPU_ROWS)
    gpu = gpu.model_copy(update={"stopped_at": gpu.started_at})
    assert pair_of(gpu, cpu).totals[1].speedup is None
    gpu = gpu.model_copy(update={"stopped_at": gpu.started_at - timedelta(seconds=1)})
    assert pair_of(gpu, cpu).totals[1].speedup is None
