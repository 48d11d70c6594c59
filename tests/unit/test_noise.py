"""Noise from job to job: how it is measured and stored, and what verdicts make of it."""

from __future__ import annotations

import io
import json
import math
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console
from scipy import stats

from batchmark.calibration import SelfCheck, calibrate, part, render_calibration, some
from batchmark.exceptions import NoiseError
from batchmark.fingerprint import Fingerprint
from batchmark.noise import measure_noise, parse_table, series_noise
from batchmark.pooling import group_jobs
from batchmark.series import Series
from batchmark.significance import (
    ASSUMED,
    LEAST_LOG_SD,
    JobNoise,
    Resolution,
    log_spread,
    upper_bound,
)
from batchmark.verdict import Contestant, judge
from batchmark_job.result import Device, Implementation, MeasurementStatus
from tests.unit.run_builders import (
    CPU_ENVIRONMENT,
    GPU_ENVIRONMENT,
    build_job,
    build_lost,
    build_row,
    build_run,
)

STORED = Path(__file__).parents[1] / "data" / "noise" / "table-version-1.json"
JOB = build_job("c5.2xlarge", [])
SAMPLES = 8


def jobs_of(medians, *, target="c5.2xlarge", **fields):
    return [
        build_job(target, [build_row((median,) * SAMPLES)], repeat=n, **fields)
        for n, median in enumerate(medians, start=1)
    ]


def target_of(*jobs, lost=()):
    ((target,),) = group_jobs(build_run(*jobs, lost=lost)).values()
    return target


def table_of(*jobs, lost=()):
    return measure_noise(
        target_of(*jobs, lost=lost),
        suite="blog",
        dtype="float32",
        region="us-east-1",
        run_id="run",
    )


def series_of(jobs_samples, seed="series"):
    series = Series(measured=[(JOB, build_row(samples)) for samples in jobs_samples])
    series.pool(seed=seed)
    return series


def contestant(medians, calibration=None, name="c5.2xlarge"):
    return Contestant(name, series_of([(median,) * SAMPLES for median in medians]), calibration)


def calibration_of(*medians):
    return series_noise(series_of([(median,) * SAMPLES for median in medians]))


def gamma_with_stalls(rng, jobs, noise):
    """Samples in seconds: skewed from job to job and within jobs, one in twenty stalled."""
    levels = 1 + noise * rng.gamma(2, 1, (jobs, 1)) / math.sqrt(2)
    samples = levels * (1 + 0.02 * rng.gamma(2, 1, (jobs, SAMPLES)))
    return (samples * np.where(rng.random(samples.shape) < 0.05, 3, 1)).tolist()


def heavy_tails(rng, jobs, noise):
    """Jobs that differ as Student's t with 3 degrees of freedom does."""
    levels = np.exp(noise * rng.standard_t(3, (jobs, 1)))
    return (levels * (1 + 0.02 * rng.gamma(2, 1, (jobs, SAMPLES)))).tolist()


@pytest.mark.parametrize("noise", [gamma_with_stalls, heavy_tails])
@pytest.mark.parametrize(
    ("jobs", "other_jobs", "calibration_jobs"),
    [
        (1, 1, 0),
        (1, 1, 2),
        (1, 1, 5),
        (1, 1, 20),
        (2, 2, 5),
        (3, 3, 0),
        (3, 20, 0),
        (5, 5, 5),
        (20, 20, 0),
    ],
)
def test_equal_jobs_are_rarely_called_different(noise, jobs, other_jobs, calibration_jobs):
    cases = 800
    rng = np.random.default_rng([jobs, other_jobs, calibration_jobs])
    called = 0
    for case in range(cases):
        sides = []
        for name, number in (("a", jobs), ("b", other_jobs)):
            known = None
            if calibration_jobs:
                known = series_noise(series_of(noise(rng, calibration_jobs, 0.02)))
            sides.append(
                Contestant(name, series_of(noise(rng, number, 0.02), f"{name}{case}"), known)
            )
        called += judge(*sides).faster is not None
    assert called / cases <= 0.01


@pytest.mark.parametrize(
    ("jobs", "calibration_jobs", "planted"),
    [(5, 0, 0.10), (3, 10, 0.10), (3, 0, None), (5, 10, None), (1, 20, None), (1, 2, None)],
)
def test_a_planted_difference_is_found_as_often_as_stated(jobs, calibration_jobs, planted):
    """1 % noise from job to job; None plants the smallest detectable change itself."""
    least = 0.95 * 0.95
    log_sd, cases = 0.01, 500
    noise = (
        JobNoise(log_sd, calibration_jobs - 1, "calibration")
        if calibration_jobs
        else JobNoise(log_sd, jobs - 1, "repeats")
    )
    smallest = Resolution(noise, jobs, noise, jobs).smallest_detectable_change
    planted = planted or smallest
    assert smallest <= planted
    rng = np.random.default_rng([jobs, calibration_jobs])
    found = 0
    for _ in range(cases):
        sides = []
        for level in (1.0, 1 + planted):
            logs = rng.normal(0, log_sd, (2, max(jobs, calibration_jobs)))
            known = calibration_of(*np.exp(logs[0])) if calibration_jobs else None
            sides.append(contestant(level * np.exp(logs[1, :jobs]), known))
        found += judge(*sides).faster == "first"
    assert found / cases >= least


def test_the_smallest_detectable_change_with_known_noise_is_that_of_the_normal_distribution():
    known = JobNoise(0.02, math.inf, "assumed")
    resolution = Resolution(known, 4, known, 4)
    error = 0.02 * math.sqrt(2 / 4)
    assert resolution.critical_difference == pytest.approx(2.807034 * error, rel=1e-5)
    assert resolution.smallest_detectable_change == pytest.approx(
        math.expm1((2.807034 + 1.959964) * error), rel=1e-4
    )


@pytest.mark.parametrize("jobs", [3, 5, 20])
def test_the_t_test_alone_misses_half_as_much_as_stated(jobs):
    """Against simulated Welch tests; the interval has the other half."""
    noise = JobNoise(1.0, jobs - 1, "repeats")
    resolution = Resolution(noise, jobs, noise, jobs)
    change = math.log1p(resolution.smallest_detectable_change)
    rng = np.random.default_rng(jobs)
    first, second = rng.normal(0, 1, (2, 20_000, jobs))
    a, b = first.var(1, ddof=1), second.var(1, ddof=1)
    welch = np.minimum((a + b) ** 2 / (a**2 + b**2) * (jobs - 1), 2 * (jobs - 1))
    lead = change + second.mean(1) - first.mean(1)
    critical = stats.t.isf(0.0025, welch) * np.sqrt((a + b) / jobs)
    assert np.mean(lead > critical) == pytest.approx(0.975, abs=0.005)


def test_more_jobs_find_smaller_changes():
    (series,) = table_of(*jobs_of([1.0, 1.01, 0.99, 1.02, 0.98])).series
    changes = list(series.smallest_detectable_change.values())
    assert list(series.smallest_detectable_change) == [1, 3, 5, 10, 20]
    assert changes == sorted(changes, reverse=True)


def test_three_jobs_that_agree_by_chance_do_not_pass_for_certainty():
    few, many = JobNoise(0.001, 2, "repeats"), JobNoise(0.02, 19, "repeats")
    error = math.sqrt(0.001**2 / 3 + 0.02**2 / 20)
    critical = Resolution(few, 3, many, 20).critical_difference
    assert critical == pytest.approx(stats.t.isf(0.0025, 4) * error)


def test_a_calibration_by_hand():
    table = table_of(*jobs_of([math.exp(x) for x in (-0.03, 0.0, 0.03)]))
    (series,) = table.series
    assert (series.row.workload, series.row.parameters, series.jobs) == (
        "matmul",
        {"size": 1000},
        3,
    )
    assert series.implementations == ("torch 2.13.0",)
    assert series.median_seconds == pytest.approx(1.0)
    assert series.floor == pytest.approx(math.expm1(0.03))
    # 0.1026 is the 5 % point of chi-squared with 2 degrees of freedom.
    assert math.log1p(series.floor_upper) == pytest.approx(0.03 * math.sqrt(2 / 0.102587), rel=1e-5)
    assert (table.target, table.jobs, table.region) == ("c5.2xlarge", 3, "us-east-1")
    assert table.fingerprint == Fingerprint.of(JOB.document)


def test_equal_medians_do_not_prove_silence():
    assert log_spread([1.0, 1.0, 1.0]) == LEAST_LOG_SD


def test_the_upper_bound_holds_as_often_as_it_says():
    rng = np.random.default_rng(1)
    spreads = rng.normal(0, 1, (4_000, 5)).std(axis=1, ddof=1)
    assert np.mean([upper_bound(one, 4) >= 1 for one in spreads]) == pytest.approx(0.95, abs=0.01)


def test_throttled_samples_are_no_noise():
    rows = [
        build_row((1.0,) * SAMPLES),
        build_row((1.0,) * SAMPLES + (9.0,) * 20, throttled_samples=tuple(range(8, 28))),
    ]
    jobs = [build_job("c5.2xlarge", [row], repeat=n) for n, row in enumerate(rows, start=1)]
    assert table_of(*jobs).series[0].floor == pytest.approx(LEAST_LOG_SD, rel=0.01)


def test_a_table_survives_json():
    table = table_of(*jobs_of([1.0, 1.1]))
    assert parse_table(table.to_json()) == table


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"schema_version": 2}, "schema_version: Input should be 1"),
        ({"jobs": 1}, "jobs: Input should be greater than or equal to 2"),
    ],
)
def test_a_table_of_another_release_is_refused(changes, message):
    text = json.dumps(json.loads(table_of(*jobs_of([1.0, 1.1])).to_json()) | changes)
    with pytest.raises(NoiseError, match=f"{message}; run noise_calibration again"):
        parse_table(text)


def test_what_is_not_json_is_refused():
    with pytest.raises(NoiseError, match="not a noise table of this release: document: Invalid"):
        parse_table("nothing")


def test_one_job_shows_no_noise():
    with pytest.raises(
        NoiseError, match=r"c5.2xlarge has 1 job\(s\) with a result \(exit code 3\)"
    ):
        table_of(*jobs_of([1.0]), lost=[build_lost("c5.2xlarge", "exit code 3")])


def test_jobs_of_different_machines_give_no_calibration():
    other = CPU_ENVIRONMENT.model_copy(update={"cpu_model": "Intel Xeon 8259CL"})
    with pytest.raises(NoiseError, match="ran in different environments"):
        table_of(*jobs_of([1.0, 1.0]), build_job("c5.2xlarge", [], repeat=3, environment=other))


def test_rows_with_too_few_figures_are_left_out_with_the_reason():
    failed = build_row(status=MeasurementStatus.FAILED, reason="relative error 0.3", workload="fft")
    other = build_row((1.0,) * 6, parameters={"size": 5})
    table = table_of(
        build_job("c5.2xlarge", [build_row((1.0,) * 6), failed, other], repeat=1),
        build_job("c5.2xlarge", [build_row((1.0,) * 6), failed], repeat=2),
    )
    assert [one.row.workload for one in table.series] == ["matmul"]
    assert [one.reason for one in table.left_out] == [
        "c5.2xlarge: failed: relative error 0.3",
        "only one job has it; the others lack it",
    ]


def test_a_calibration_is_found_by_its_row_and_code():
    table = table_of(*jobs_of([1.0, 1.1]))
    assert table.find(series_of([(1.0,)])) == table.series[0]
    opencv = Implementation(name="opencv", version="5.0.0")
    for fields in ({"parameters": {"size": 2}}, {"dtype": "tf32"}, {"implementation": opencv}):
        assert table.find(Series(measured=[(JOB, build_row((1.0,), **fields))])) is None


def test_a_fingerprint_says_what_has_changed():
    document = build_job("g5.xlarge", []).document
    then = Fingerprint.of(document)
    assert then.differences(then) == ""
    changed = GPU_ENVIRONMENT.model_copy(
        update={"driver_version": "590.1", "torch_version": "2.14.0+cu130", "image_digest": None}
    )
    now = Fingerprint.of(document.model_copy(update={"environment": changed}))
    assert then.differences(now) == (
        "driver major was 580 and is 590, torch was 2.13.0+cu130 and is 2.14.0+cu130"
    )


def test_a_single_job_without_a_calibration_gets_the_assumed_noise():
    noise = judge(contestant([1.0]), contestant([2.0])).noise
    assert noise.source == "assumed"
    assert noise.floor == pytest.approx(math.expm1(ASSUMED.log_sd))
    assert noise.note == "undecided: jobs that are equal may differ by 170 %"
    assert judge(contestant([1.0]), contestant([2.6])).faster is None
    assert judge(contestant([1.0]), contestant([2.8])).faster == "first"


def test_two_jobs_far_apart_are_not_assumed_to_be_close():
    noise = judge(contestant([1.0, 3.0]), contestant([9.0])).noise
    assert noise.floor == pytest.approx(math.expm1(log_spread([1.0, 3.0])))


def test_three_jobs_a_side_tell_their_own_noise():
    judgement = judge(contestant([1.0, 1.01, 0.99]), contestant([1.2, 1.21, 1.19]))
    assert (judgement.faster, judgement.noise.source, judgement.noise.note) == (
        "first",
        "repeats",
        None,
    )


def test_a_calibration_decides_between_single_jobs():
    known = calibration_of(1.0, 1.01, 0.99, 1.005, 0.995)
    judgement = judge(contestant([1.2], known), contestant([1.0], known))
    assert (judgement.faster, judgement.noise.source) == ("second", "calibration")
    assert judgement.noise.floor == pytest.approx(known.floor)
    assert judgement.noise.smallest_detectable_change == known.smallest_detectable_change[1]


def test_the_weaker_source_is_named():
    known = calibration_of(1.0, 1.01, 0.99)
    assert judge(contestant([1.0], known), contestant([9.0])).noise.source == "assumed"
    three = contestant([9.0, 9.1, 9.2])
    assert judge(contestant([1.0], known), three).noise.source == "repeats"


def test_a_calibration_that_the_jobs_belie_is_not_used():
    known = calibration_of(1.0, 1.001, 0.999, 1.0005, 0.9995)
    restless = contestant([1.0, 1.4, 0.7], known, name="g5.xlarge")
    noise = judge(restless, contestant([1.2, 1.2, 1.2], known)).noise
    assert noise.source == "repeats"
    assert "g5.xlarge: its 3 jobs differ by 41 %, more than its calibration allows" in noise.note


def test_a_calibration_of_two_jobs_makes_no_verdict_worse():
    """Known with one degree of freedom, 6 % of noise would explain more than the assumed 28 %."""
    known = calibration_of(1.0, 1.09)
    without = judge(contestant([1.0]), contestant([2.8]))
    judgement = judge(contestant([1.0], known), contestant([2.8], known))
    assert (judgement.faster, judgement.noise.source) == ("first", "assumed")
    assert judgement.noise.critical_change == without.noise.critical_change
    assert judgement.noise.smallest_detectable_change == without.noise.smallest_detectable_change
    assert judgement.noise.note.startswith(
        "c5.2xlarge: held against the assumed noise, as its calibration of 2 jobs (6.3 %) would "
        "decide less"
    )


def test_the_change_stated_for_a_quiet_calibration_of_two_jobs_is_at_most_the_assumed_one():
    known = calibration_of(1.0, 1.014)
    judgement = judge(contestant([1.0], known), contestant([1.3], known))
    assert (judgement.faster, judgement.noise.source) == ("first", "calibration")
    assumed = Resolution(ASSUMED, 1, ASSUMED, 1).smallest_detectable_change
    assert judgement.noise.smallest_detectable_change <= assumed
    assert known.smallest_detectable_change[1] <= assumed


def test_more_noise_than_is_assumed_is_not_argued_away():
    known = calibration_of(1.0, 1.6)
    noise = judge(contestant([1.0], known), contestant([9.0], known)).noise
    assert (noise.source, noise.floor) == ("calibration", pytest.approx(known.floor))
    assert noise.critical_change > math.expm1(3.97 * ASSUMED.log_sd)


def test_more_repeats_than_were_calibrated_tell_their_own_noise():
    known = calibration_of(1.0, 1.01)
    noise = judge(contestant([1.0, 1.01, 0.99], known), contestant([1.2, 1.21, 1.19], known)).noise
    assert noise.source == "repeats"
    assert noise.note.startswith("c5.2xlarge: its 3 jobs tell more of noise than the 2 calibrated")


def test_too_few_samples_decide_nothing_however_quiet_the_jobs():
    known = calibration_of(1.0, 1.001, 0.999)
    sides = (
        Contestant(name, series_of([(median,) * 3], name), known)
        for name, median in (("fast", 1.0), ("slow", 9.0))
    )
    assert judge(*sides).faster is None


def test_a_part_of_a_series_holds_the_repeats_asked_for():
    series = next(iter(target_of(*jobs_of([1.0, 2.0, 3.0])).series.values()))
    chosen = part(series, [1, 3])
    assert [job.planned.repeat for job, _ in chosen.measured] == [1, 3]
    assert chosen.median.value == 2.0


def report_of(*jobs, lost=()):
    return calibrate(build_run(*jobs, lost=lost), region=None)


def rendered(report):
    console = Console(file=io.StringIO(), width=220)
    render_calibration(report, console)
    return console.file.getvalue()


def test_a_calibration_run_reports_each_target():
    steady = jobs_of([1.0, 1.01, 0.99, 1.02, 1.01, 0.98])
    gpu = jobs_of([0.1, 0.11, 0.1, 0.11], target="g5.xlarge")
    report = report_of(*steady, *gpu, lost=[build_lost("g6.xlarge", "exit code 3")])
    assert [one.table.target for one in report.calibrations] == ["c5.2xlarge", "g5.xlarge"]
    assert report.calibrations[0].self_check == SelfCheck(rows=1, different=())
    assert report.calibrations[1].self_check is None, "4 jobs are too few for two halves"
    assert report.refused == (
        "g6.xlarge has 0 job(s) with a result (exit code 3); noise shows from 2 on",
    )
    text = rendered(report)
    assert "c5.2xlarge, suite blog: noise over 6 jobs" in text
    assert "matmul size 1000 float32" in text
    assert text.count("A/A: odd repeats against even ones") == 1
    assert "A/A: odd repeats against even ones, 0 of 1 rows called different\n" in text
    assert "No calibration: g6.xlarge has 0 job(s)" in text


def test_a_calibration_lists_what_it_left_out():
    failed = build_row(status=MeasurementStatus.FAILED, reason="relative [error] 0.3")
    report = report_of(*(build_job("c5.2xlarge", [failed], repeat=n) for n in (1, 2)))
    assert "left out: matmul size 1000 float32: c5.2xlarge: failed: relative [error]" in rendered(
        report
    )


def test_halves_that_differ_are_called_different():
    """Each is steady in itself: noise measured over both would explain any difference."""
    report = report_of(*jobs_of([1.0, 50.0] * 5))
    (calibration,) = report.calibrations
    assert len(calibration.self_check.different) == calibration.self_check.rows == 1
    assert "1 of 1 rows called different (matmul size 1000 float32)" in rendered(report)


def test_of_many_names_three_are_shown():
    assert some(["a", "b", "c"]) == "a, b, c"
    assert some(["a", "b", "c", "d", "e"]) == "a, b, c and 2 more"
    assert some([]) == ""


def test_changes_too_large_to_matter_are_not_spelled_out():
    assert "over 10" in rendered(report_of(*jobs_of([1.0, 9.0])))


def test_a_gpu_target_calibrated_on_the_cpu_says_so():
    report = report_of(*jobs_of([1.0, 1.1], target="g5.xlarge", actual_device=Device.CPU))
    (calibration,) = report.calibrations
    assert calibration.notices == (
        "The GPU target g5.xlarge ran on the CPU: no figure here is a GPU's.",
    )
    assert calibration.table.fingerprint.device is Device.CPU
    assert rendered(report).startswith("The GPU target g5.xlarge ran on the CPU")


def test_a_stored_table_stays_readable():
    """Written by the first release; its names are part of the format."""
    table = parse_table(STORED.read_bytes())
    (series,) = table.series
    assert (table.suite, table.dtype, table.target) == ("blog", "suite", "g5.xlarge")
    assert (table.run_id, table.region) == ("manual__2026-11-20T09:00:00+00:00", "us-east-1")
    assert table.created_at == datetime(2026, 11, 20, 9, 3, 40, tzinfo=UTC)
    assert table.fingerprint == Fingerprint.of(build_job("g5.xlarge", []).document)
    assert (series.row.workload, series.row.parameters) == ("matmul", {"size": 1000})
    assert series.implementations == ("torch 2.13.0",)
    assert (series.jobs, series.median_seconds) == (3, 1.0)
    assert series.floor == pytest.approx(math.expm1(0.03))
    assert list(series.smallest_detectable_change) == [1, 3, 5, 10, 20]
    assert [one.reason for one in table.left_out] == [
        "g5.xlarge: failed: relative error 0.3 exceeds 0.0001"
    ]
    assert parse_table(table.to_json()) == table


def test_a_table_is_as_old_as_its_last_job():
    jobs = jobs_of([1.0, 1.1, 1.2])
    assert table_of(*reversed(jobs)).created_at == jobs[-1].stopped_at


def table_at(hours, jobs=3, **fields):
    table = table_of(*jobs_of([1.0, 1.01, 0.99, 1.0][:jobs], target="g5.xlarge", **fields))
    return table.model_copy(update={"created_at": table.created_at + timedelta(hours=hours)})


def test_a_table_outlives_an_older_one():
    assert (
        table_at(5).outlives(table_at(0)) == "its jobs ended at 2026-11-20 14:03, later than these"
    )
    assert table_at(0).outlives(table_at(5)) is None
    assert table_at(0).outlives(table_at(0)) is None, "the same run, published again"


def test_a_gpus_table_outlives_that_of_a_fallback():
    fallback = table_at(5, actual_device=Device.CPU)
    assert table_at(0).outlives(fallback) == "it is of cuda, and these jobs ran on the CPU"
    assert fallback.outlives(table_at(6)) is None


def test_two_jobs_replace_no_better_table_of_the_same_machine():
    assert table_at(0).outlives(table_at(5, jobs=2)) == "it is of 3 jobs, and these are 2"
    changed = GPU_ENVIRONMENT.model_copy(update={"driver_version": "590.1"})
    assert table_at(0).outlives(table_at(5, jobs=2, environment=changed)) is None
    assert table_at(0, jobs=2).outlives(table_at(5, jobs=2)) is None
