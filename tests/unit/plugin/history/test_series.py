"""Series of the history's rows."""

from datetime import timedelta

import pyarrow as pa
import pytest

from batchmark.changes.detection import detect_changes
from batchmark.changes.records import SeriesKey
from batchmark.history import series as module
from batchmark.history.columns import SCHEMA
from batchmark.history.parquet import schema_for
from batchmark.history.series import COLUMNS, series_histories, speedups
from tests.builders.history import CPU, GPU, measured

START = measured(1.0, CPU)["recorded_at"]
ON_DEMAND = CPU["price_usd_per_hour"]
AT_1000 = ("c5.2xlarge", '{"size":1000}')  # names the figures of most rows
FALLEN = GPU | {"actual_device": "cpu", "gpu_model": None}


def row(seconds, machine=CPU, *, day=0, **fields):
    run = {"run_id": f"run-{day}", "purpose": "scheduled"}
    return measured(seconds, machine, day=day, **run | fields)


KEY = SeriesKey(**{name: row(1.0)[name] for name in (*module.MACHINE, *module.POINT)})


def table(*rows):
    plain = pa.schema([*(SCHEMA.field(name) for name in COLUMNS), ("suite", "string")])
    wanted = schema_for(COLUMNS)
    found = pa.Table.from_pylist(list(rows), plain.append(pa.field("month", pa.string())))
    return found.select(wanted.names).cast(wanted)


def figures(histories):
    """Return figures by run, for each target and point, or pair of targets."""
    found = {}
    for series in histories:
        name = (series.key.target, series.key.against or series.key.parameters)
        assert name not in found
        found[name] = dict(zip(series.run_ids, series.values.tolist(), strict=True))
    return found


def test_a_figure_is_the_median_over_the_runs_jobs_and_noise_that_of_their_spreads():
    rows = [row(seconds, day=1) for seconds in (3.0, 1.0, 2.0)]
    rows += [row(seconds, day=2) for seconds in (4.0, 8.0)]
    (history,) = series_histories(table(*rows, row(5.0)), "time")
    assert (history.key, history.metric) == (KEY, "time")
    assert figures([history]) == {AT_1000: {"run-0": 5.0, "run-1": 2.0, "run-2": 6.0}}
    # A run is recorded when its last job is.
    late = START + timedelta(hours=5)
    (history,) = series_histories(table(row(1.0), row(1.0, recorded_at=late)), "time")
    assert history.recorded_at.tolist() == [late]
    assert history.recorded_at.dtype == "datetime64[us]"
    rows = [row(1.0, relative_spread=spread) for spread in (0.01, 0.05, 0.02)]
    rows.append(row(1.0, day=1, relative_spread=None))
    (history,) = series_histories(table(*rows), "noise")
    assert (history.run_ids, history.values.tolist()) == (["run-0"], [0.02])


def test_a_change_is_since_its_first_run_began_not_since_it_was_recorded():
    nights = [START.replace(hour=0, minute=30) + timedelta(days=day) for day in range(40)]
    rows = [
        row(1.0 if day < 20 else 2.0, day=day, recorded_at=at, process_seconds=3600.0)
        for day, at in enumerate(nights)
    ]
    (point,) = detect_changes(series_histories(table(*rows), "time"))
    assert point.first_recorded_at.date() == nights[20].date()
    assert point.since.date() == nights[19].date()


@pytest.mark.parametrize(
    "other",
    [
        *({"status": status} for status in ("unsettled", "skipped", "failed", "interrupted")),
        {"purpose": "confirmation"},
    ],
)
def test_only_measured_rows_that_confirm_nothing_count(other):
    rows = table(
        row(1.0),
        row(9.0, **other),
        row(9.0, day=1, **other),
        row(3.0, day=2, purpose="calibration"),
        row(4.0, day=3, purpose=None),  # as an older release wrote it
    )
    found = figures(series_histories(rows, "time"))
    assert found == {AT_1000: {"run-0": 1.0, "run-2": 3.0, "run-3": 4.0}}


def test_fresh_jobs_stand_behind_their_run_in_the_order_they_ended():
    fresh = {"purpose": "confirmation", "day": 1}
    rows = table(
        row(1.0),
        row(2.0, day=1),
        row(4.0, recorded_at=START + timedelta(days=3), **fresh),
        row(3.0, **fresh),
        row(None, status="failed", **fresh),
        row(9.0, GPU, **fresh),  # of a target whose own job failed
    )
    (times,) = series_histories(rows, "time")
    assert times.fresh == {"run-1": [3.0, 4.0]}
    assert [one.fresh for one in series_histories(rows, "noise")] == [{}]


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("suite", "smoke"),
        ("target", "c5n.2xlarge"),
        ("actual_device", "cuda"),
        ("instance_type", None),
        ("cpu_model", "another"),
        ("gpu_model", "NVIDIA T4"),
        ("workload", "fft"),
        ("parameters", '{"size":2000}'),
        ("dtype", "float64"),
    ],
)
def test_each_column_of_the_key_separates_series(column, value):
    rows = table(row(1.0), row(2.0, **{column: value}))
    first, second = series_histories(rows, "time")
    found = {getattr(one.key, column) for one in (first, second)}
    assert found == {getattr(KEY, column), value}


def test_a_price_is_its_targets_own_and_not_changed_by_another_purchase_option():
    rows = table(
        row(1.0),
        row(2.0, parameters='{"size":2000}'),
        row(1.0, GPU),
        row(1.0, day=1, price_usd_per_hour=0.4),
        row(1.0, day=2, price_usd_per_hour=None),
    )
    histories = series_histories(rows, "price")
    assert figures(histories) == {
        ("c5.2xlarge", None): {"run-0": ON_DEMAND, "run-1": 0.4},
        ("g5.xlarge", None): {"run-0": 1.0},
    }
    assert {(series.key.workload, series.key.dtype) for series in histories} == {(None, None)}
    spot = {"purchase_option": "spot", "price_usd_per_hour": 0.12}
    unknown = row(1.0, day=2, purchase_option=None)  # charged as On-Demand
    rows = [row(1.0, day=0), row(1.0, day=1, **spot), unknown]
    found = figures(series_histories(table(*rows), "price"))
    assert [*found.values()] == [{"run-0": ON_DEMAND, "run-2": ON_DEMAND}]
    # Now most of the newest run's jobs ran on Spot.
    rows += [row(1.0, day=3), row(1.0, day=3, **spot), row(1.0, day=3, **spot)]
    found = figures(series_histories(table(*rows), "price"))
    assert [*found.values()] == [{"run-1": 0.12, "run-3": 0.12}]


def test_a_speedup_is_cpu_time_over_gpu_time_run_by_run():
    other = CPU | {"target": "m5.2xlarge", "instance_type": "m5.2xlarge"}
    rows = table(
        *(row(seconds, GPU) for seconds in (0.1, 0.2, 0.4)),
        row(2.0),
        row(6.0, other),
        row(0.5, GPU, day=1),
        row(1.0, day=1),
        row(0.5, GPU, day=2),  # no CPU target ran then
        row(0.5, day=3),
    )
    histories = speedups(rows)
    assert figures(histories) == {
        ("g5.xlarge", "c5.2xlarge"): {"run-0": 10.0, "run-1": 2.0},
        ("g5.xlarge", "m5.2xlarge"): {"run-0": 30.0},
    }
    key = histories[0].key
    assert (key.gpu_model, key.actual_device) == ("NVIDIA A10G", "cuda")
    assert key.parameters == '{"size":1000}'
    assert figures(series_histories(rows, "speedup")) == figures(histories)
    # A CPU target on several machines is one side.
    rows = table(row(0.5, GPU), row(1.0), row(2.0, cpu_model="another"))
    assert figures(speedups(rows)) == {("g5.xlarge", "c5.2xlarge"): {"run-0": 3.0}}


def test_speedups_compare_the_same_point_of_a_gpu_and_a_cpu_only():
    rows = table(
        row(1.0, GPU),
        row(1.0, suite="smoke"),
        row(1.0, workload="fft"),
        row(1.0, parameters='{"size":2000}'),
        row(1.0, dtype="float64"),
    )
    assert speedups(rows) == []
    # Nor is a fallback to the CPU on either side.
    assert speedups(table(row(1.0, FALLEN), row(2.0))) == []
    assert speedups(table(row(1.0, GPU), row(2.0, FALLEN))) == []


@pytest.mark.parametrize("metric", ["time", "noise", "price"])
def test_a_fallback_to_the_cpu_is_told_by_its_label(metric):
    found = series_histories(table(row(1.0, FALLEN), row(2.0), row(0.1, GPU, day=1)), metric)
    labels = ["c5.2xlarge", "g5.xlarge", "g5.xlarge (ran on the CPU)"]
    assert sorted(one.target_label for one in found) == labels


@pytest.mark.parametrize("metric", ["time", "noise", "price", "speedup"])
def test_without_rows_there_are_no_series(metric):
    assert series_histories(table(), metric) == []
    assert series_histories(table(row(1.0, status="failed")), metric) == []


def test_strings_are_read_with_and_without_dictionaries():
    rows = table(row(1.0), row(2.0, day=1), row(0.1, GPU))
    is_text = pa.types.is_dictionary
    kinds = [pa.string() if is_text(field.type) else field.type for field in rows.schema]
    plain = rows.cast(pa.schema(zip(rows.column_names, kinds, strict=True)))
    for metric in ("time", "price", "speedup"):
        assert figures(series_histories(plain, metric)) == figures(series_histories(rows, metric))


def test_more_combinations_than_an_integer_holds_stay_distinct(monkeypatch):
    monkeypatch.setattr(module, "MOST_CODES", 4)
    rows = [
        row(10.0 * size + kind, parameters=f'{{"size":{size}}}', dtype=f"d{kind}")
        for size in range(1, 6)
        for kind in range(4)
    ]
    found = series_histories(table(*rows), "time")
    assert sorted(float(*one.values) for one in found) == [one["median_seconds"] for one in rows]
