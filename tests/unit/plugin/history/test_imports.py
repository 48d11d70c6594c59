"""Other tools' results as rows, from the example files of tests/data/imports."""

import io
import json
from datetime import datetime
from hashlib import sha256

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from batchmark.analysis.published import TABLE, published_table
from batchmark.analysis.samples import parameters_json
from batchmark.core.errors import HistoryError
from batchmark.history.imports import file as file_module
from batchmark.history.imports.entry import Entry, LeftOut, OtherUnitError
from batchmark.history.imports.file import detect
from batchmark.history.imports.measurement import Unit
from batchmark.history.series import series_histories
from batchmark_job.result.document import Device
from tests.builders.imported_files import (
    ASV,
    EXAMPLES,
    GITHUB,
    GITHUB_JSON,
    PYTEST,
    by_point,
    edited,
    imported,
)

# Its tool says that smaller is better, of whatever unit.
PERCENT = '{"better":"lower","metric":"value","unit":"Percent"}'


def test_a_files_digest_is_made_once_for_all_its_rows(monkeypatch):
    """A large file has ten thousands of them."""
    made = []
    monkeypatch.setattr(file_module, "sha256", lambda body: made.append(body) or sha256(body))
    assert len(imported(PYTEST).rows()) > len(made) == 1


@pytest.mark.parametrize(("path", "name"), (EXAMPLES | {TABLE: "published-table"}).items())
def test_the_format_of_a_file_is_detected(path, name):
    assert detect(path.read_text(), path.name) == name
    assert detect("\ufeff" + path.read_text(), path.name) == name


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{", "f is not valid JSON: "),
        ("window.BENCHMARK_DATA = function() {}", "f is not valid JSON: "),
        ("{}", r"f is not in a supported format \(pytest-benchmark, github-action-benchmark, asv"),
        ('[{"name": "x", "unit": "s", "value": 1}]', "import its data.js"),
        (ASV.with_name("machine.json").read_text(), "f is not in a supported format"),
    ],
)
def test_a_file_of_no_known_format_is_refused(text, problem):
    with pytest.raises(HistoryError, match=problem):
        detect(text, "f")


def test_pytest_benchmark_with_and_without_samples_machine_and_commit():
    file = imported(PYTEST)
    assert file.parse().left_out.other_units == {}
    rows = by_point(file)
    run_id = "0f3c1a5e9d2b4c6f8a7e1d0c9b8a7f6e5d4c3b2a__2026-10-31T22:14:05Z"
    sort = rows["tests/test_sorting.py::test_sort", '{"kind":"random","size":1000}', run_id]
    join = rows["tests/test_sorting.py::test_join", "{}", run_id]
    for row in (sort, join):
        assert (row["suite"], row["month"], row["status"]) == ("imported", "2026-10", "measured")
        assert row["recorded_at"] == datetime(2026, 10, 31, 22, 14, 5, 250_000)  # noqa: DTZ001
        assert row["cpu_model"] == "AMD EPYC 7763 64-Core Processor"
        assert (row["cpu_threads"], row["python_version"]) == (4, "3.11.9")
        assert row["kernel"] == "Linux 6.8.0-1015-azure"
        assert (row["commit"], row["branch"]) == (run_id.partition("__")[0], "main")
        assert (row["target"], row["raw_key"]) == ("ci", file.key)
        assert row["requested_device"] == row["actual_device"] == "cpu"
    assert (sort["samples"], sort["median_seconds"]) == (8, pytest.approx(5.35e-5))
    assert 5e-5 <= sort["median_low_seconds"] < 5.35e-5 < sort["median_high_seconds"] <= 5.7e-5
    assert (join["samples"], join["median_seconds"], join["p25_seconds"]) == (40, 1e-5, 9.5e-6)
    assert join["relative_spread"] == pytest.approx(0.1)
    assert "median_low_seconds" not in join
    on_gpu = imported(PYTEST, device=Device.CUDA).rows()[0]
    assert (on_gpu["actual_device"], on_gpu["gpu_model"]) == ("cuda", "unknown")

    def edit(document):
        document["machine_info"] = {}
        document["commit_info"] = {"id": "unversioned"}
        document["datetime"] = "2026-10-31T22:14:05.250000"
        document["benchmarks"][1]["stats"]["median"] = 0.0

    sort, join = edited(PYTEST, edit).rows()
    assert sort["run_id"] == "imported__2026-10-31T22:14:05Z"
    assert (sort["cpu_model"], sort["kernel"], sort["commit"]) == ("unknown", None, None)
    assert (join["status"], join["reason"]) == ("failed", "0 s is not a valid time or rate")
    assert "median_seconds" not in join


@pytest.mark.parametrize("path", [GITHUB, GITHUB_JSON])
def test_github_action_benchmark(path):
    file = imported(path)
    assert file.parse().left_out.other_units == {"B/op": 1, "allocs/op": 1}
    rows = by_point(file)
    first, second = f"{'1' * 40}__2026-10-31T10:00:00Z", f"{'2' * 40}__2026-11-01T10:00:00Z"
    seconds = {key: row.get("median_seconds") for key, row in rows.items()}
    assert seconds == {
        ("Rust/fib_10", "{}", first): pytest.approx(135e-9),
        ("Rust/fib_20", "{}", first): pytest.approx(18149e-9),
        ("Rust/fib_10", "{}", second): pytest.approx(140e-9),
        ("Rust/fib_20", "{}", second): None,
        ("Python/tests/bench.py::test_fib", "{}", second): pytest.approx(1 / 41513.27),
        ("Go/BenchmarkFib10", "{}", second): pytest.approx(325e-9),
        ("Queries/lookup", "{}", second): pytest.approx(0.0025),
        ("Queries/cache hits", PERCENT, second): 98,
    }
    zero = rows["Rust/fib_20", "{}", second]
    assert (zero["status"], zero["reason"]) == ("failed", "0 ns/iter is not a valid time or rate")
    assert {row["month"] for row in rows.values()} == {"2026-10", "2026-11"}
    assert {row["cpu_model"] for row in rows.values()} == {"unknown"}


def test_asv_with_and_without_its_benchmarks():
    file = imported(ASV)
    assert file.parse().left_out.other_units == {"bytes": 1, "answers": 1}
    rows = by_point(file)
    assert {run_id for *_, run_id in rows} == {f"{'3' * 40}__2026-10-31T10:00:00Z"}
    found = {
        (name, *[value for key, value in json.loads(point).items() if key != "env"]): row
        for (name, point, _), row in rows.items()
    }
    sort = "sorting.Sort.time_sort"
    assert {key: (row["status"], row.get("median_seconds")) for key, row in found.items()} == {
        (sort, "random", 1000): ("measured", 1.1e-5),
        (sort, "sorted", 1000): ("measured", 2e-5),
        (sort, "random", 10000): ("failed", None),
        (sort, "sorted", 10000): ("measured", 1.3e-4),
        (sort, "random", 100000): ("skipped", None),
        (sort, "sorted", 100000): ("measured", 6e-4),
        ("sorting.time_join",): ("measured", 1.05e-5),
        ("sorting.time_fails",): ("failed", None),
    }
    quartiles = found[sort, "random", 1000]
    assert quartiles["samples"] == 10
    assert (quartiles["p25_seconds"], quartiles["p75_seconds"]) == (1.0e-5, 1.2e-5)
    assert quartiles["relative_spread"] == pytest.approx(2 / 11)
    join = found["sorting.time_join",]
    assert (join["samples"], join["max_seconds"]) == (8, 1.2e-5)
    assert json.loads(join["parameters"]) == {"env": "virtualenv-py3.11-numpy"}
    assert join["cpu_model"] == "AMD EPYC 7763"
    assert (join["cpu_threads"], join["python_version"]) == (4, "3.11")
    # Without its benchmarks it takes units from names.
    file = imported(ASV, benchmarks_text=None)
    (unknown,) = set(file.parse().left_out.other_units) - {"bytes"}
    assert "benchmarks.json is missing" in unknown
    points = [json.loads(row["parameters"]) for row in file.rows()]
    assert points[0] == {"param1": 1000, "param2": "random", "env": "virtualenv-py3.11-numpy"}


@pytest.mark.parametrize(
    ("path", "missing"), [(PYTEST, "benchmarks"), (ASV, "results"), (ASV, "env_name")]
)
def test_a_file_that_lacks_something_is_refused(path, missing):
    problem = f"{path.name} can't be read as .*: {missing} is null or m"
    with pytest.raises(HistoryError, match=problem):
        edited(path, lambda document: document.pop(missing)).parse()


def sample(value, unit):
    return Unit.of(unit).sample(Entry(value, LeftOut()))


@pytest.mark.parametrize(
    ("unit", "seconds"),
    [
        ("ns", 4e-9),
        ("\N{MICRO SIGN}s", 4e-6),
        ("\N{GREEK SMALL LETTER MU}s/op", 4e-6),
        ("msec", 4e-3),
        ("Seconds", 4.0),
        ("min", 240.0),
        ("s / iter", 4.0),
        ("ops/s", 0.25),
        ("ops/ms", 0.25e-3),
        ("Iterations/second", 0.25),
    ],
)
def test_times_and_rates_become_seconds(unit, seconds):
    assert sample(4.0, unit) == pytest.approx(seconds)


@pytest.mark.parametrize("unit", ["bytes", "MB/s", "ns/byte", "ms/s", "op", "", "%"])
def test_nothing_else_becomes_seconds(unit):
    with pytest.raises(OtherUnitError):
        sample(4.0, unit)


@pytest.mark.parametrize("value", [0.0, -1.0, float("nan"), float("inf")])
@pytest.mark.parametrize("unit", ["ns", "ops/s"])
def test_a_time_is_positive_and_finite(value, unit):
    problem = "is not a valid time or rate" if value <= 0 else "not a finite number"
    with pytest.raises(ValueError, match=problem):
        sample(value, unit)


PUBLISHED = imported(TABLE, target="published-table")


def test_a_published_table_has_a_row_for_each_of_its_machines_without_a_figure_for_a_defect():
    rows = PUBLISHED.rows()
    gpu, cpu = (
        [row for row in rows if row["target"] == f"{name}, published by others"]
        for name in ("g5.8xlarge", "r5.4xlarge")
    )
    assert (len(gpu), len(cpu), len(rows)) == (9, 9, 18)
    assert {row["run_id"] for row in rows} == {published_table().run_id}
    assert {(row["requested_device"], row["actual_device"]) for row in gpu} == {("cuda", "cuda")}
    assert {row["gpu_model"] for row in cpu} == {None}
    largest = [row for row in (*gpu, *cpu) if row["parameters"] == '{"size":10000}']
    assert [row["median_seconds"] for row in largest] == [0.09, 2.45]
    defects = [row for row in rows if row["status"] != "measured"]
    assert len(defects) == 4
    for row in defects:
        assert "median_seconds" not in row
        assert "start-up" in row["reason"] or "another row's" in row["reason"]


def test_a_published_table_gives_the_speedups_that_were_published():
    (body,) = PUBLISHED.files().values()
    rows = pq.read_table(io.BytesIO(body))
    rows = rows.append_column("suite", pa.array(["imported"] * rows.num_rows))
    found = {
        (one.key.workload, one.key.parameters): float(*one.values)
        for one in series_histories(rows, "speedup")
    }
    told = {
        (row.workload, parameters_json(row.parameters)): row.speedup
        for row in published_table().judged
    }
    assert found == pytest.approx(told, abs=0.01)
