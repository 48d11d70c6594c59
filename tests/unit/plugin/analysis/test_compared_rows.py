"""What is compared, what is refused, and whether the intervals keep their promise."""

from __future__ import annotations

from datetime import timedelta

import numpy as np
import pytest
from scipy import stats

from batchmark.comparison import Comparison, compare
from batchmark.estimate import MINIMUM_SAMPLES, Median, ratio
from batchmark.exceptions import ComparisonError
from batchmark.noise import measure_noise
from batchmark.pooling import group_jobs
from batchmark.run import InterruptedAttempt
from batchmark_job.result import Device, Implementation, MeasurementStatus
from tests.unit.run_builders import (
    CPU_ENVIRONMENT,
    GPU_ENVIRONMENT,
    build_job,
    build_lost,
    build_row,
    build_run,
    noisy,
)

GPU_SAMPLES = (0.5, 0.1, 0.2, 0.7, 0.3, 0.6, 0.4)  # median 0.4
CPU_SAMPLES = (1.0, 3.0, 2.0, 9.0, 2.0, 1.5, 2.5, 1.0)  # median 2.0


def pair_of(*jobs, lost=()):
    (pair,) = compare(build_run(*jobs, lost=lost)).pairs
    return pair


def two_jobs(gpu_rows, cpu_rows, **fields):
    return build_job("g5.xlarge", gpu_rows, **fields), build_job("c5.2xlarge", cpu_rows, **fields)


def skipped(reason, **fields):
    return build_row(status=MeasurementStatus.SKIPPED, reason=reason, **fields)


def test_medians_and_speedup_by_hand():
    row = pair_of(*two_jobs([build_row(GPU_SAMPLES)], [build_row(CPU_SAMPLES)])).rows[0]

    assert row.gpu.median_seconds.value == pytest.approx(0.4)
    assert row.cpu.median_seconds.value == pytest.approx(2.0)
    assert row.speedup.value == pytest.approx(5.0)
    assert (row.gpu.samples, row.cpu.samples, row.gpu.jobs) == (7, 8, 1)
    assert row.gpu.cold_seconds == pytest.approx(5.0)
    assert row.gpu.relative_spread == pytest.approx((0.55 - 0.25) / 0.4)
    for estimate in (row.gpu.median_seconds, row.cpu.median_seconds, row.speedup):
        assert estimate.interval.low < estimate.value < estimate.interval.high


def test_each_side_names_its_sources():
    gpu, cpu = two_jobs([build_row(GPU_SAMPLES)], [build_row(CPU_SAMPLES)])
    pair = pair_of(gpu, cpu)
    for side, target, job in ((pair.rows[0].gpu, pair.gpu, gpu), (pair.rows[0].cpu, pair.cpu, cpu)):
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


def test_equal_samples_give_an_interval_without_width():
    row = pair_of(*two_jobs([build_row((0.1,) * 8)], [build_row((0.2,) * 8)])).rows[0]
    assert (row.speedup.interval.low, row.speedup.interval.high) == pytest.approx((2.0, 2.0))
    assert row.warnings == ()


@pytest.mark.parametrize(
    ("gpu_median", "verdict"),
    [(0.1, "gpu_target_faster"), (1.0, "undecided"), (4.0, "cpu_target_faster")],
)
def test_verdict_needs_the_whole_interval_on_one_side_of_one(gpu_median, verdict):
    rows = [build_row(noisy(gpu_median, seed=1))], [build_row(noisy(1.0, seed=2))]
    assert pair_of(*two_jobs(*rows)).rows[0].verdict == verdict


def test_an_interval_beside_one_decides_nothing_that_noise_from_job_to_job_explains():
    row = pair_of(*two_jobs([build_row(noisy(0.5))], [build_row(noisy(1.0))])).rows[0]
    assert row.speedup.interval.low > 1.9
    assert (row.verdict, row.noise.source) == ("undecided", "assumed")
    assert row.noise.note.startswith("undecided: jobs that are equal may differ by")


def calibration(target, **fields):
    jobs = [
        build_job(target, [build_row((median,) * 8, **fields)], repeat=n)
        for n, median in enumerate((0.5, 0.505, 0.495, 0.5), start=1)
    ]
    ((one,),) = group_jobs(build_run(*jobs)).values()
    return measure_noise(one, suite="blog", dtype="float32", region=None, run_id="run")


def test_a_calibration_decides_what_assumed_noise_left_open():
    jobs = two_jobs([build_row(noisy(0.5))], [build_row(noisy(1.0))])
    tables = [calibration("g5.xlarge"), calibration("c5.2xlarge")]
    (pair,) = compare(build_run(*jobs), tables).pairs
    assert (pair.rows[0].verdict, pair.rows[0].noise.source) == ("gpu_target_faster", "calibration")
    assert pair.rows[0].noise.floor == pytest.approx(tables[0].series[0].floor)
    assert pair.calibrations[0].model_dump() == {
        "target": "g5.xlarge",
        "run_id": "run",
        "created_at": tables[0].created_at,
        "jobs": 4,
    }
    assert [one.target for one in pair.calibrations] == ["g5.xlarge", "c5.2xlarge"]
    assert (
        "g5.xlarge: its noise calibration of 2026-11-20 (4 jobs, run run) has all of its rows."
    ) in pair.notes


def test_a_pair_says_what_replaced_a_spot_job_and_what_was_interrupted():
    gpu, cpu = two_jobs([build_row(GPU_SAMPLES)], [build_row(CPU_SAMPLES)])
    attempt = InterruptedAttempt(
        job_id="spot-job",
        job_attempt=2,
        document_uri="s3://results/spot-job.2.json",
        document_url="https://results.example/spot-job.2.json",
        measured_rows=4,
    )
    changes = {"replaced_job_id": "spot-job", "interrupted": (attempt,)}
    notes = pair_of(gpu.model_copy(update=changes), cpu).notes
    assert notes[-2:] == (
        f"g5.xlarge, repeat 1: measured On-Demand by job {gpu.job_id}; Spot job spot-job lost its "
        "host in its last attempt.",
        "g5.xlarge, repeat 1: attempt 2 of job spot-job was interrupted; what it had measured "
        "(4 rows) is kept in s3://results/spot-job.2.json and not part of the figures.",
    )


def test_rows_that_a_calibration_lacks_are_pointed_out():
    rows = [build_row(noisy(1.0)), build_row(noisy(2.0), parameters={"size": 5})]
    tables = [calibration("g5.xlarge"), calibration("c5.2xlarge", parameters={"size": 7})]
    (pair,) = compare(build_run(*two_jobs(rows, rows)), tables).pairs
    assert (
        "g5.xlarge: its noise calibration of 2026-11-20 (4 jobs, run run) lacks 1 of its 2 rows, "
        "or knows them with other code: matmul size 5 float32."
    ) in pair.notes
    assert any("lacks 2 of its 2 rows" in n and "float32 and others" in n for n in pair.notes)


def test_a_calibration_of_another_dtype_is_not_used():
    jobs = two_jobs([build_row(noisy(0.5))], [build_row(noisy(1.0))])
    table = calibration("g5.xlarge").model_copy(update={"dtype": "bfloat16"})
    (pair,) = compare(build_run(*jobs), [table]).pairs
    assert (pair.rows[0].noise.source, pair.calibrations) == ("assumed", ())


def test_a_calibration_from_before_a_change_is_not_used_and_says_why():
    environment = GPU_ENVIRONMENT.model_copy(update={"driver_version": "590.10.01"})
    gpu = build_job("g5.xlarge", [build_row(noisy(0.5))], environment=environment)
    cpu = build_job("c5.2xlarge", [build_row(noisy(1.0))])
    tables = [calibration("g5.xlarge"), calibration("c5.2xlarge")]
    (pair,) = compare(build_run(gpu, cpu), tables).pairs
    assert pair.rows[0].noise.source == "assumed"
    assert [one.target for one in pair.calibrations] == ["c5.2xlarge"]
    assert (
        "g5.xlarge: its noise calibration of 2026-11-20 does not apply, driver major was 580 and "
        "is 590. Run noise_calibration again."
    ) in pair.notes


def test_nothing_is_decided_between_two_targets_on_one_cpu():
    rows = [build_row(noisy(0.1))], [build_row(noisy(9.0))]
    gpu = build_job("g5.xlarge", rows[0], environment=CPU_ENVIRONMENT, actual_device=Device.CPU)
    row = pair_of(gpu, build_job("c5.2xlarge", rows[1])).rows[0]
    assert row.verdict == "undecided"
    assert row.noise.note == (f"undecided: both ran on the same CPU, {CPU_ENVIRONMENT.cpu_model}")


def test_same_samples_give_the_same_comparison_whoever_the_rival():
    cpu = build_job("c5.2xlarge", [build_row(noisy(1.0))])
    g5 = build_job("g5.xlarge", [build_row(noisy(0.1))])
    g6 = build_job("g6.xlarge", [build_row(noisy(0.2))])
    first = compare(build_run(g5, g6, cpu))
    assert compare(build_run(g5, g6, cpu)) == first
    against_g5, against_g6 = first.pairs
    assert against_g5.rows[0].cpu == against_g6.rows[0].cpu


def test_survives_json():
    comparison = compare(build_run(*two_jobs([build_row(GPU_SAMPLES)], [build_row(CPU_SAMPLES)])))
    assert Comparison.model_validate_json(comparison.model_dump_json()) == comparison


@pytest.mark.parametrize("count", [6, 11, 40])
def test_intervals_hold_the_truth_as_often_as_they_say(count):
    """Skewed noise around known medians of 1 and 1/8; 400 cases per count."""
    rng = np.random.default_rng(count)
    hits = ratio_hits = 0
    cases = 400
    for case in range(cases):
        slow = Median([rng.lognormal(0, 0.3, count)], seed=f"slow {case}")
        fast = Median([rng.lognormal(0, 0.3, count) / 8], seed=f"fast {case}")
        median, speedup = slow.estimate().interval, ratio(slow, fast).interval
        hits += median.low <= 1 <= median.high
        ratio_hits += speedup.low <= 8 <= speedup.high
    assert hits / cases >= 0.92
    assert ratio_hits / cases >= 0.92


def test_interval_agrees_with_scipy():
    samples = noisy(1.0, count=50, spread=0.2)
    reference = stats.bootstrap(
        (samples,), np.median, method="percentile", rng=np.random.default_rng(1)
    ).confidence_interval
    interval = Median([samples], seed="one job").estimate().interval
    assert interval.low == pytest.approx(reference.low, rel=0.01)
    assert interval.high == pytest.approx(reference.high, rel=0.01)


def test_many_samples_of_few_jobs_do_not_fake_precision():
    """Three jobs 10 % apart, each with 200 nearly equal samples."""
    jobs = [
        noisy(level, count=200, spread=0.001, seed=n) for n, level in enumerate((0.9, 1.0, 1.1))
    ]
    pooled = Median([[sample for job in jobs for sample in job]], seed="pooled").estimate()
    by_job = Median(jobs, seed="by job").estimate()
    assert by_job.value == pooled.value
    width = by_job.interval.high - by_job.interval.low
    assert width > 0.15
    assert width > 5 * (pooled.interval.high - pooled.interval.low)


def test_jobs_of_unequal_length_are_resampled_to_their_own_length():
    """A padding value or a foreign sample would show as a median outside both jobs."""
    draws = Median([[1.0] * 3, [1.0] * 50, [1.0]], seed="uneven").draws()
    assert set(draws) == {1.0}


@pytest.mark.parametrize(
    ("field", "value", "named"),
    [
        ("cpu_model", "Intel Xeon 8259CL", "CPU model: AMD EPYC 7R32 (job a), Intel Xeon 8259CL"),
        ("gpu_model", "Tesla T4", "GPU model: NVIDIA A10G (job a), Tesla T4 (job b)"),
        ("driver_version", "590.10.01", "driver major: 580 (job a), 590 (job b)"),
        ("torch_version", "2.14.0+cu130", "torch: 2.13.0+cu130 (job a), 2.14.0+cu130 (job b)"),
        ("instance_type", "g5.2xlarge", "instance type: g5.xlarge (job a), g5.2xlarge (job b)"),
        ("image_digest", None, "(job a), none (job b)"),
    ],
)
def test_repeats_from_different_environments_are_not_pooled(field, value, named):
    other = GPU_ENVIRONMENT.model_copy(update={field: value})
    rows = [build_row(GPU_SAMPLES)]
    pair = pair_of(
        build_job("g5.xlarge", rows, repeat=1, job_id="a"),
        build_job("g5.xlarge", rows, repeat=2, job_id="b", environment=other),
        build_job("c5.2xlarge", [build_row(CPU_SAMPLES)]),
    )
    assert named in pair.refused
    assert "Run the benchmark again" in pair.refused
    assert pair.rows == pair.uncompared == pair.totals == ()


def test_repeats_on_different_devices_are_not_pooled():
    rows = [build_row(GPU_SAMPLES)]
    pair = pair_of(
        build_job("g5.xlarge", rows, repeat=1),
        build_job("g5.xlarge", rows, repeat=2, actual_device=Device.CPU),
        build_job("c5.2xlarge", [build_row(CPU_SAMPLES)]),
    )
    assert "device: cuda" in pair.refused
    assert pair.cpu_fallback


def test_a_driver_patch_and_a_kernel_may_differ():
    patched = GPU_ENVIRONMENT.model_copy(update={"driver_version": "580.99.01", "kernel": "6.13"})
    pair = pair_of(
        build_job("g5.xlarge", [build_row(GPU_SAMPLES)], repeat=1),
        build_job("g5.xlarge", [build_row(GPU_SAMPLES)], repeat=2, environment=patched),
        build_job("c5.2xlarge", [build_row(CPU_SAMPLES)]),
    )
    assert pair.refused is None
    assert (pair.rows[0].gpu.samples, pair.rows[0].gpu.jobs) == (14, 2)


def test_a_cpu_target_that_used_a_gpu_is_refused():
    pair = pair_of(
        build_job("g5.xlarge", [build_row(GPU_SAMPLES)]),
        build_job("c5.2xlarge", [build_row(CPU_SAMPLES)], actual_device=Device.CUDA),
    )
    assert pair.refused == "c5.2xlarge is a CPU target, but a job of it ran on cuda"


def test_a_gpu_target_on_the_cpu_is_flagged():
    fallen = build_job("g4dn.xlarge", [build_row(GPU_SAMPLES)], actual_device=Device.CPU)
    real = build_job("g5.xlarge", [build_row(GPU_SAMPLES)])
    cpu = build_job("c5.2xlarge", [build_row(CPU_SAMPLES)])

    comparison = compare(build_run(fallen, cpu))
    assert comparison.pairs[0].cpu_fallback
    assert comparison.pairs[0].label == "g4dn.xlarge (ran on the CPU) against c5.2xlarge"
    assert comparison.notices == (
        "The GPU target g4dn.xlarge ran on the CPU: no CUDA device was found. "
        "No figure here is a GPU's.",
    )
    mixed = compare(build_run(fallen, real, cpu))
    assert [pair.cpu_fallback for pair in mixed.pairs] == [True, False]
    assert mixed.notices[0].endswith("No figure shown for it is a GPU's.")
    assert compare(build_run(real, cpu)).notices == ()


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


def test_a_dtype_is_a_row_of_its_own():
    pair = pair_of(*two_jobs([build_row(GPU_SAMPLES, dtype="bfloat16")], [build_row(CPU_SAMPLES)]))
    assert pair.rows == ()
    assert [row.dtype for row in pair.uncompared] == ["bfloat16", "float32"]


def test_a_row_that_failed_in_one_repeat_says_so():
    failed = build_row(status=MeasurementStatus.FAILED, reason="relative error 0.3")
    pair = pair_of(
        build_job("g5.xlarge", [build_row(GPU_SAMPLES)], repeat=1),
        build_job("g5.xlarge", [failed], repeat=2),
        build_job("c5.2xlarge", [build_row(CPU_SAMPLES)]),
    )
    assert "g5.xlarge: 1 of 2 jobs failed: relative error 0.3" in pair.rows[0].warnings
    assert pair.rows[0].gpu.jobs == 1


def test_different_implementations_are_not_pooled():
    opencv = Implementation(name="opencv", version="5.0.0")
    pair = pair_of(
        build_job("g5.xlarge", [build_row(GPU_SAMPLES)]),
        build_job("c5.2xlarge", [build_row(CPU_SAMPLES)], repeat=1),
        build_job("c5.2xlarge", [build_row(CPU_SAMPLES, implementation=opencv)], repeat=2),
    )
    (row,) = pair.uncompared
    assert row.reason.endswith("different implementations (torch 2.13.0, opencv 5.0.0)")


def test_a_wide_spread_warns():
    steady = build_row(noisy(0.1, spread=0.01))
    wild = build_row(noisy(1.0, spread=0.3))
    row = pair_of(*two_jobs([steady], [wild])).rows[0]
    (warning,) = row.warnings
    assert warning.startswith("c5.2xlarge: wide spread")


def test_whole_jobs_by_hand():
    gpu = [
        build_job("g5.xlarge", [build_row(GPU_SAMPLES)], repeat=n, batch_seconds=b, total_seconds=t)
        for n, (b, t) in enumerate([(50, 30), (60, 40), (70, 90)], start=1)
    ]
    cpu = build_job("c5.2xlarge", [build_row(CPU_SAMPLES)], batch_seconds=180, total_seconds=100)
    process, batch_job = pair_of(*gpu, cpu).totals
    assert process.gpu_seconds.value == 40
    assert process.speedup.value == pytest.approx(2.5)
    assert batch_job.gpu_seconds.value == 60
    assert batch_job.speedup.value == pytest.approx(3.0)
    assert batch_job.speedup.interval is None


def test_whole_jobs_that_did_different_work_are_not_compared():
    extra = build_row(CPU_SAMPLES, workload="fft")
    pair = pair_of(*two_jobs([build_row(GPU_SAMPLES)], [build_row(CPU_SAMPLES), extra]))
    for total in pair.totals:
        assert total.speedup is None
        assert total.reason.startswith("c5.2xlarge measured a row that g5.xlarge did not")


def test_an_interrupted_job_gives_rows_but_no_total():
    stop = {"status": MeasurementStatus.INTERRUPTED, "reason": "SIGTERM", "workload": "fft"}
    pair = pair_of(
        build_job("g5.xlarge", [build_row(GPU_SAMPLES), build_row(**stop)], status="interrupted"),
        build_job("c5.2xlarge", [build_row(CPU_SAMPLES)]),
    )
    assert len(pair.rows) == 1
    assert "interrupted: SIGTERM" in pair.uncompared[0].reason
    assert pair.totals[0].gpu_seconds is None
    assert pair.totals[0].reason == "a target has no job that ran to its end"


def test_a_job_that_took_no_time_gives_no_total():
    gpu, cpu = two_jobs([build_row(GPU_SAMPLES)], [build_row(CPU_SAMPLES)])
    gpu = gpu.model_copy(update={"stopped_at": gpu.started_at})
    assert pair_of(gpu, cpu).totals[1].speedup is None
    gpu = gpu.model_copy(update={"stopped_at": gpu.started_at - timedelta(seconds=1)})
    assert pair_of(gpu, cpu).totals[1].speedup is None


def test_a_target_whose_jobs_were_lost_is_refused_with_the_reason():
    lost = build_lost("c5.2xlarge", "exit code 3")
    comparison = compare(build_run(build_job("g5.xlarge", [build_row(GPU_SAMPLES)]), lost=[lost]))
    assert comparison.pairs[0].refused == "c5.2xlarge has no result: exit code 3"
    assert comparison.lost == (lost,)


def test_a_run_without_a_cpu_target_says_what_is_missing():
    comparison = compare(build_run(build_job("g5.xlarge", [build_row(GPU_SAMPLES)])))
    assert comparison.pairs == ()
    assert "the run has no CPU target" in comparison.notices[0]
    assert "no GPU and no CPU target" in compare(build_run()).notices[0]


def test_suites_are_paired_apart():
    jobs = [
        build_job(target, [build_row(samples)], suite=suite)
        for suite in ("blog", "sam")
        for target, samples in (("g5.xlarge", GPU_SAMPLES), ("c5.2xlarge", CPU_SAMPLES))
    ]
    assert [pair.suite for pair in compare(build_run(*jobs)).pairs] == ["blog", "sam"]


def test_few_repeats_are_pointed_out():
    rows = [build_row(GPU_SAMPLES)], [build_row(CPU_SAMPLES)]
    assert "only one job" in pair_of(*two_jobs(*rows)).notes[0]
    repeats = [job for n in range(1, 7) for job in two_jobs(*rows, repeat=n)]
    assert pair_of(*repeats).notes == ()
    assert "only 5 jobs" in pair_of(*repeats[:10]).notes[0]
    assert "only 3 jobs" in pair_of(*repeats[:6]).notes[0]


def test_a_row_listed_twice_is_an_error():
    twice = build_job("g5.xlarge", [build_row(GPU_SAMPLES), build_row(GPU_SAMPLES)])
    with pytest.raises(ComparisonError, match=r"lists matmul \{'size': 1000\} float32 twice"):
        compare(build_run(twice))


def test_a_row_keeps_each_targets_own_noise():
    jobs = []
    for repeat, factor in enumerate((0.8, 1.0, 1.25), start=1):
        gpu = [build_row([factor * sample for sample in GPU_SAMPLES])]
        jobs += two_jobs(gpu, [build_row(CPU_SAMPLES)], repeat=repeat)
    (row,) = pair_of(*jobs).rows
    assert row.noise.gpu.floor == row.noise.floor > 0.2
    assert row.noise.cpu.floor < 0.01
    assert (row.noise.gpu.source, row.noise.gpu.degrees) == ("repeats", 2)
