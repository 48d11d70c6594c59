"""Rows that several nodes measured, in the history: series by their parameters, and changes."""

import json
from datetime import timedelta

import pyarrow as pa

from batchmark.changes.detection import detect_changes
from batchmark.history.columns import SCHEMA
from batchmark.history.parquet import schema_for
from batchmark.history.rows import history_rows
from batchmark.history.series import COLUMNS, series_histories
from tests.builders.history import NOON, finished, run_of
from tests.builders.runs import PRICES
from tests.builders.scaling_runs import Cluster, scaling_job

GPU = "g5.xlarge"


def run_on_day(day, slower=1.0):
    cluster = Cluster(compute=0.16 * slower)
    rows = [cluster.training(2, seed=day), cluster.training(2, data="files", seed=day)]
    rows += [*cluster.all_reduces(2, (64,), seed=day), cluster.reading(2, "cold", 1e8)]
    job = finished(scaling_job(GPU, 2, rows), NOON + timedelta(days=day))
    return run_of(job, run_id=f"run-{day}")


def table(runs):
    rows = [row for run in runs for row in history_rows(run, PRICES)]
    plain = pa.schema([*SCHEMA, ("suite", pa.string()), ("month", pa.string())])
    wanted = schema_for(COLUMNS)
    return pa.Table.from_pylist(rows, plain).select(wanted.names).cast(wanted)


def test_each_row_has_its_parameters_and_no_ceiling_of_one_device():
    rows = history_rows(run_on_day(0), PRICES)
    assert {row["suite"] for row in rows} == {"scaling"}
    parameters = [json.loads(row["parameters"]) for row in rows]
    assert [one.get("data") for one in parameters] == ["synthetic", "files", None, None]
    assert [one.get("pass") for one in parameters] == [None, None, None, "cold"]
    assert {one["nodes"] for one in parameters} == {2}
    reading = rows[-1]
    assert reading["samples"] == 1
    assert reading["bytes_moved"] == 10**10
    assert reading["memory_ceiling_share"] is None


def test_a_slower_row_is_a_change_of_its_own_series():
    runs = [run_on_day(day, slower=1.2 if day >= 14 else 1.0) for day in range(1, 24)]
    series = series_histories(table(runs), "time")
    assert len(series) == 4
    found = detect_changes(series)
    assert {point.series.workload for point in found} == {"resnet50_data_parallel"}
    assert {(point.kind, point.first_run_id) for point in found} == {("slower", "run-14")}
    assert {json.loads(point.series.parameters)["data"] for point in found} == {
        "synthetic",
        "files",
    }


def test_nodes_alone_have_no_speedup():
    assert series_histories(table([run_on_day(1)]), "speedup") == []
