"""Noise from job to job: how it is measured and stored."""

import json
import math
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from batchmark.analysis.judging.noise import measure_noise, parse_table
from batchmark.analysis.judging.significance import LEAST_LOG_SD, upper_bound
from batchmark.analysis.samples import RowSamples
from batchmark.core.errors import NoiseError
from batchmark.core.fingerprint import Fingerprint
from batchmark_job.result.document import Device, Implementation, MeasurementStatus
from tests.builders.noise import JOB, SAMPLES, jobs_of, samples_of, target_of
from tests.builders.runs import CPU_ENVIRONMENT, GPU_ENVIRONMENT, build_job, build_lost, build_row
from tests.paths import DATA

STORED = DATA / "noise" / "table-version-1.json"


def table_of(*jobs, lost=()):
    return measure_noise(
        target_of(*jobs, lost=lost), suite="blog", dtype="float32", region="us-east-1", run_id="run"
    )


def test_a_calibration_by_hand():
    table = table_of(*jobs_of([math.exp(x) for x in (-0.03, 0.0, 0.03)]))
    (scatter,) = table.rows
    assert (scatter.row.workload, scatter.row.parameters, scatter.jobs) == (
        "matmul",
        {"size": 1000},
        3,
    )
    assert scatter.implementations == ("torch 2.13.0",)
    assert scatter.median_seconds == pytest.approx(1.0)
    assert scatter.floor == pytest.approx(math.expm1(0.03))
    # 0.1026 is the 5 % point of chi-squared with 2 degrees of freedom.
    assert math.log1p(scatter.floor_upper) == pytest.approx(
        0.03 * math.sqrt(2 / 0.102587), rel=1e-5
    )
    assert (table.target, table.jobs, table.region) == ("c5.2xlarge", 3, "us-east-1")
    assert table.fingerprint == Fingerprint.of(JOB.document)


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
    assert table_of(*jobs).rows[0].floor == pytest.approx(LEAST_LOG_SD, rel=0.01)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"schema_version": 2}, "schema_version: Input should be 1; run noise_calibration again"),
        ({"jobs": 1}, "jobs: Input should be greater than or equal to 2; run noise_calibration"),
        (None, "not a noise table from this release: document: Invalid"),
    ],
)
def test_a_table_of_another_release_or_no_table_is_refused(changes, message):
    text = table_of(*jobs_of([1.0, 1.1])).to_json()
    with pytest.raises(NoiseError, match=message):
        parse_table(json.dumps(json.loads(text) | changes) if changes else "nothing")


def test_one_job_or_jobs_of_different_machines_show_no_noise():
    with pytest.raises(
        NoiseError, match=r"c5.2xlarge has 1 job\(s\) with a result \(exit code 3\)"
    ):
        table_of(*jobs_of([1.0]), lost=[build_lost("c5.2xlarge", "exit code 3")])
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
    assert [one.row.workload for one in table.rows] == ["matmul"]
    assert [one.reason for one in table.left_out] == [
        "c5.2xlarge: failed: relative error 0.3",
        "only one job measured it; the others did not",
    ]


def test_a_calibration_is_found_by_its_row_and_code():
    table = table_of(*jobs_of([1.0, 1.1]))
    assert table.find(samples_of([(1.0,)])) == table.rows[0]
    opencv = Implementation(name="opencv", version="5.0.0")
    for fields in ({"parameters": {"size": 2}}, {"dtype": "tf32"}, {"implementation": opencv}):
        assert table.find(RowSamples(measured=[(JOB, build_row((1.0,), **fields))])) is None


def test_a_fingerprint_says_what_has_changed():
    document = build_job("g5.xlarge", []).document
    then = Fingerprint.of(document)
    assert then.differences(then) == ""
    changed = GPU_ENVIRONMENT.model_copy(
        update={"driver_version": "590.1", "torch_version": "2.14.0+cu130", "image_digest": None}
    )
    now = Fingerprint.of(document.model_copy(update={"environment": changed}))
    assert then.differences(now) == (
        "driver major was 580 and is now 590, torch was 2.13.0+cu130 and is now 2.14.0+cu130"
    )


def test_a_stored_table_stays_readable():
    """Written by the first release; its names are part of the format."""
    table = parse_table(STORED.read_bytes())
    assert table.created_at == datetime(2026, 11, 20, 9, 3, 40, tzinfo=UTC)
    assert table.fingerprint == Fingerprint.of(build_job("g5.xlarge", []).document)
    assert table.rows[0].floor == pytest.approx(math.expm1(0.03))
    assert list(table.rows[0].smallest_detectable_change) == [1, 3, 5, 10, 20]
    assert json.loads(table.to_json()) == json.loads(STORED.read_bytes())


def test_a_table_is_as_old_as_its_last_job():
    jobs = jobs_of([1.0, 1.1, 1.2])
    assert table_of(*reversed(jobs)).created_at == jobs[-1].stopped_at


def table_at(hours, jobs=3, **fields):
    table = table_of(*jobs_of([1.0, 1.01, 0.99, 1.0][:jobs], target="g5.xlarge", **fields))
    return table.model_copy(update={"created_at": table.created_at + timedelta(hours=hours)})


FALLBACK = table_at(5, actual_device=Device.CPU)
CHANGED = GPU_ENVIRONMENT.model_copy(update={"driver_version": "590.1"})


@pytest.mark.parametrize(
    ("stays", "other", "why"),
    [
        (table_at(5), table_at(0), "its jobs ended later, at 2026-11-20 14:03"),
        (table_at(0), table_at(5), None),
        (table_at(0), table_at(0), None),  # the same run, published again
        (table_at(0), FALLBACK, "it was measured on cuda, but these jobs ran on the CPU"),
        (FALLBACK, table_at(6), None),
        (table_at(0), table_at(5, jobs=2), "it has 3 jobs, but the new one has only 2"),
        (table_at(0), table_at(5, jobs=2, environment=CHANGED), None),
        (table_at(0, jobs=2), table_at(5, jobs=2), None),
    ],
)
def test_a_table_outlives_none_but_a_worse_one(stays, other, why):
    assert stays.outlives(other) == why
