"""A run's rows in the history have all columns, and a report's figures."""

import json
from datetime import UTC, datetime, timedelta, timezone

import pyarrow as pa
import pytest

from batchmark.analysis.comparison import compare
from batchmark.analysis.cost import job_cost
from batchmark.core.prices import SpotPrice
from batchmark.history.columns import ALL_COLUMNS, PARTITION_KEYS, SCHEMA
from batchmark.history.rows import history_rows, parameters_json
from batchmark.history.series import MACHINE, POINT
from batchmark_job.result.document import Device, MeasurementStatus
from batchmark_job.result.version import GivenVersion
from tests.builders.history import NOON, finished, run_of, two_targets
from tests.builders.runs import (
    GPU_ENVIRONMENT,
    LAPTOP_ENVIRONMENT,
    PRICES,
    build_full_job,
    build_job,
    build_row,
    build_rows,
    build_run,
    noisy,
)
from tests.builders.scaling_runs import Cluster, scaling_job
from tests.paths import ROOT

EXPLAINED = json.loads((ROOT / "terraform/modules/analytics/history_columns.json").read_text())
ATHENA_TYPES = {
    pa.string(): "string",
    pa.int32(): "int",
    pa.int64(): "bigint",
    pa.float64(): "double",
    pa.bool_(): "boolean",
    pa.timestamp("us"): "timestamp",
}


SAME_FIGURES = ("relative_spread", "samples", "cold_seconds", "outlier_samples", "energy_joules")
VERSION = GivenVersion(commit="3f2a91c", branch="main", label="nightly")


def rows(*jobs, prices=PRICES):
    return history_rows(build_run(*jobs), prices)


def row_of(samples, **fields):
    (row,) = rows(build_job("c5.2xlarge", [build_row(samples, **fields)]))
    return row


def test_the_schema_is_documented_in_terraform():
    explained = [(column["name"], column["type"]) for column in EXPLAINED["columns"]]
    assert [(field.name, ATHENA_TYPES[field.type]) for field in SCHEMA] == explained
    assert list(PARTITION_KEYS) == [key["name"] for key in EXPLAINED["partition_keys"]]
    assert {*MACHINE, *POINT} == set(EXPLAINED["series"])


def test_a_row_fills_every_column_that_its_job_knows():
    names = ("availability_zone", "compute_environment", "ami_id", "image", "gpu_daemons")
    texts = dict.fromkeys((*names, "root_volume", "code_version"), "any")
    environment = GPU_ENVIRONMENT.model_copy(update=texts | {"gpu_application_clock_hz": 1.695e9})
    job = build_full_job("g5.xlarge", build_rows({("matmul", "size", 1000): 0.001}, seed=1))
    measured = job.document.measurements[0]
    during = measured.conditions_during.model_copy(update={"cpu_wait_share": 0.01})
    update = {"input_sets": 3, "conditions_during": during, "reason": "few samples"}
    measured = measured.model_copy(update=update)
    update = {"environment": environment, "measurements": (measured,), "version": VERSION}
    document = job.document.model_copy(update=update)
    (row,) = rows(job.model_copy(update={"document": document}))
    assert set(row) == set(ALL_COLUMNS)
    # An implementation on the GPU does not set the number of CPU threads.
    assert [name for name in ALL_COLUMNS if row[name] is None] == ["implementation_threads"]
    assert pa.Table.from_pylist([row], schema=SCHEMA).num_rows == 1


def test_the_plan_says_why_and_before_the_document_does_what_is_measured():
    job = build_job("c5.2xlarge", [build_row([1.0])], repeat=3, version=VERSION)
    update = {"version": GivenVersion(commit="8ab0c11"), "purpose": "confirmation"}
    planned = job.planned.model_copy(update=update)
    (row,) = rows(job.model_copy(update={"planned": planned}))
    assert (row["commit"], row["label"]) == ("8ab0c11", "nightly")
    assert (row["purpose"], row["repeat"]) == ("confirmation", 3)
    assert row["raw_key"] == "raw/run/c5.2xlarge/blog/3/c5-2xlarge-blog-3.1.json"


def test_the_figures_are_those_of_a_report():
    run = two_targets()
    (pair,) = compare(run, PRICES).pairs
    found = {(row["target"], row["parameters"]): row for row in history_rows(run, PRICES)}
    assert len(found) == 4
    for shown in pair.rows:
        for name, side in (("g5.xlarge", shown.gpu), ("c5.2xlarge", shown.cpu)):
            row = found[name, parameters_json(shown.parameters)]
            estimate = side.median_seconds
            assert row["median_seconds"] == estimate.value
            assert row["median_low_seconds"] == estimate.interval.low
            assert row["median_high_seconds"] == estimate.interval.high
            for figure in SAME_FIGURES:
                assert row[figure] == getattr(side, figure), figure
            assert row["compute_ceiling_share"] == side.roofline.compute_share
            assert row["memory_ceiling_share"] == side.roofline.memory_share
            assert row["flops_per_second"] == side.roofline.flops_per_second.value
            assert row["bytes_per_second"] == side.roofline.bytes_per_second.value
            ends = [row[f"{end}_seconds"] for end in ("min", "p25", "p75", "p95", "max")]
            assert ends == sorted(ends)
            assert ends[1] <= row["median_seconds"] <= ends[2]


def test_throttled_samples_are_left_out_and_few_have_neither_interval_nor_spread():
    row = row_of([1.0] * 8 + [9.0] * 4, throttled_samples=(8, 9, 10, 11))
    assert (row["median_seconds"], row["max_seconds"]) == (1.0, 1.0)
    assert (row["samples"], row["throttled_samples"]) == (12, 4)
    row = row_of((2.0, 1.0, 3.0))
    assert row["median_seconds"] == 2.0
    assert row["median_low_seconds"] is row["median_high_seconds"] is row["relative_spread"] is None


@pytest.mark.parametrize("status", [*MeasurementStatus])
def test_only_measured_and_unsettled_rows_have_statistics(status):
    has_figures = status in {MeasurementStatus.MEASURED, MeasurementStatus.UNSETTLED}
    for samples in [noisy(0.01)] if has_figures else [noisy(0.01), ()]:
        found = row_of(samples, status=status, reason="so it was", flops=10**12)
        assert (found["status"], found["reason"]) == (status.value, "so it was")
        assert ("median_seconds" in found) == ("samples" in found) == has_figures
        assert found["flops"] == 10**12
        assert found["cpu_model"] == "Intel(R) Xeon(R) Platinum 8124M CPU @ 3.00GHz"


def test_a_job_costs_what_a_report_says_and_its_price_is_what_it_was_bought_at():
    zones = {"us-east-1a": 0.12, "us-east-1b": 0.15}
    spot = {"c5.2xlarge": SpotPrice(zones=zones, changed_at=NOON)}
    prices = PRICES.model_copy(update={"spot": spot})
    job = build_job("c5.2xlarge", [build_row((1.0,))], purchase_option="spot", earlier_seconds=60)
    zone = job.document.environment.model_copy(update={"availability_zone": "us-east-1b"})
    job = job.model_copy(update={"document": job.document.model_copy(update={"environment": zone})})
    (row,) = rows(job, prices=prices)
    assert (row["purchase_option"], row["price_usd_per_hour"]) == ("spot", 0.15)
    assert row["job_cost_usd"] == job_cost(job, prices).usd == pytest.approx(100 * 0.15 / 3600)
    assert (row["batch_seconds"], row["region"]) == (40.0, "us-east-1")
    (unknown,) = rows(build_job("c5.2xlarge", [build_row((1.0,))]), prices=prices)
    assert (unknown["purchase_option"], unknown["price_usd_per_hour"]) == (None, 0.34)
    # Off EC2 there is neither price nor region.
    job = build_job(
        "g5.xlarge", [build_row((1.0,))], environment=LAPTOP_ENVIRONMENT, actual_device=Device.CPU
    )
    (row,) = rows(job)
    assert row["price_usd_per_hour"] is row["job_cost_usd"] is row["region"] is None
    assert (row["requested_device"], row["actual_device"]) == ("cuda", "cpu")


def test_the_month_is_in_utc_and_parameters_are_in_one_order():
    east = datetime(2026, 12, 1, 0, 30, tzinfo=timezone(timedelta(hours=2)))
    (row,) = rows(*run_of(finished(build_job("c5.2xlarge", [build_row((1.0,))]), east)).jobs)
    assert row["month"] == "2026-11"
    assert row["recorded_at"].replace(tzinfo=UTC) == east
    assert parameters_json({"size": 1, "batch": 2}) == parameters_json({"batch": 2, "size": 1})
    assert parameters_json({"size": 1000, "kind": "größer"}) == '{"kind":"größer","size":1000}'


def test_what_several_nodes_measured_has_its_parameters_and_no_ceiling_of_one_device():
    cluster = Cluster()
    trained = [cluster.training(2, seed=1), cluster.training(2, data="files", seed=1)]
    measured = [*trained, *cluster.all_reduces(2, (64,), seed=1), cluster.reading(2, "cold", 1e8)]
    found = rows(scaling_job("g5.xlarge", 2, measured))
    parameters = [json.loads(row["parameters"]) for row in found]
    assert [one.get("data") for one in parameters] == ["synthetic", "files", None, None]
    assert [one.get("pass") for one in parameters] == [None, None, None, "cold"]
    assert {one["nodes"] for one in parameters} == {2}
    reading = found[-1]
    assert (reading["suite"], reading["samples"], reading["bytes_moved"]) == ("scaling", 1, 10**10)
    assert reading["memory_ceiling_share"] is None
