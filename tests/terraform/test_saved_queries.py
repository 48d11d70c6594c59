"""Athena's saved queries, each run by DuckDB over a history with known answers."""

import json
from datetime import datetime

import duckdb
import hcl2
import pytest

from batchmark.core.suites import SUITES
from tests.builders.history import CPU, GPU, measured
from tests.terraform.conftest import SOURCE

MODULE = SOURCE / "modules" / "analytics"
SCHEMA = json.loads((MODULE / "history_columns.json").read_text())
COLUMNS = {column["name"]: column["type"] for column in SCHEMA["columns"]}
PARTITIONS = [key["name"] for key in SCHEMA["partition_keys"]]
QUERIES = sorted(path.stem for path in (MODULE / "queries").glob("*.sql"))
DUCKDB_TYPES = {
    "string": "VARCHAR",
    "int": "INTEGER",
    "bigint": "BIGINT",
    "double": "DOUBLE",
    "boolean": "BOOLEAN",
    "timestamp": "TIMESTAMP",
}
LAPTOP = {
    **GPU,
    "instance_type": None,
    "actual_device": "cpu",
    "cpu_model": "a laptop's",
    "gpu_model": None,
    "price_usd_per_hour": None,
    "purchase_option": None,
}


def sql(query):
    """A query as Terraform renders it."""
    text = (MODULE / "queries" / f"{query}.sql").read_text()
    return text.replace("${series}", ", ".join(SCHEMA["series"]))


class History:
    """A hive-partitioned Parquet data set, as `history/` in the result bucket holds it."""

    def __init__(self, folder):
        self.folder = folder
        self.connection = duckdb.connect()
        columns = ", ".join(f"{name} {DUCKDB_TYPES[kind]}" for name, kind in COLUMNS.items())
        keys = ", ".join(f"{name} VARCHAR" for name in PARTITIONS)
        self.connection.execute(f"CREATE TABLE written ({columns}, {keys})")

    def write(self, rows):
        names = [*COLUMNS, *PARTITIONS]
        unknown = {name for row in rows for name in row} - set(names)
        assert not unknown, f"history_columns.json has no {unknown}"
        if rows:
            self.connection.executemany(
                f"INSERT INTO written VALUES ({', '.join('?' for _ in names)})",  # noqa: S608
                [[row.get(name) for name in names] for row in rows],
            )
        keys = ", ".join(PARTITIONS)
        self.connection.execute(
            f"COPY written TO '{self.folder}' (FORMAT parquet, PARTITION_BY ({keys}),"
            " WRITE_PARTITION_COLUMNS false)"
        )
        # Without a row there is no file, and DuckDB can't read none; Athena can.
        source = (
            f"read_parquet('{self.folder}/suite=*/month=*/*.parquet', hive_partitioning = true,"
            " hive_types = {'suite': VARCHAR, 'month': VARCHAR})"
            if rows
            else "written"
        )
        self.connection.execute(f"CREATE VIEW history AS SELECT * FROM {source}")  # noqa: S608

    def ask(self, query):
        cursor = self.connection.execute(sql(query))
        names = [column[0] for column in cursor.description or []]
        return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


@pytest.fixture
def history(tmp_path):
    history = History(tmp_path / "history")
    yield history
    history.connection.close()


@pytest.mark.parametrize("query", QUERIES)
def test_a_query_says_first_what_it_answers_and_an_empty_history_gives_no_rows(history, query):
    first, second = sql(query).splitlines()[:2]
    assert first.startswith("-- ")
    assert second.startswith(("WITH", "SELECT"))
    history.write([])
    assert history.ask(query) == []


@pytest.mark.parametrize("query", QUERIES)
def test_rows_that_were_not_measured_count_nowhere(history, query):
    rows = [
        measured(day, machine, day=day, status="interrupted", reason="SIGTERM after 3 samples")
        for day in (1, 2, 3)
        for machine in (GPU, CPU)
    ]
    history.write(rows)
    assert history.ask(query) == []


@pytest.mark.parametrize("query", QUERIES)
def test_metrics_of_own_jobs_count_nowhere(history, query):
    """Their samples are no seconds, so they have neither a price nor a slow-down."""
    told = {"size": 1000, "metric": "speed", "unit": "images/s", "better": "higher"}
    own = {"suite": "job-thumbnails", "workload": "thumbnails", "dtype": "none", "flops": None}
    jobs = [
        measured(1.0 + day, machine, day=day, **own) for day in range(3) for machine in (GPU, CPU)
    ]
    history.write([*jobs, *({**job, "parameters": json.dumps(told)} for job in jobs)])
    found = history.ask(query)
    assert found
    assert not any("metric" in str(row) for row in found)


def test_a_planted_regression_comes_first_with_its_size(history):
    steady = [measured(0.040, CPU, day=day) for day in range(6)]
    # 10, 11, 12, 13 and 14 ms in no order, then twice the median of these.
    slower = [
        measured(seconds, GPU, day=day)
        for day, seconds in enumerate([0.012, 0.010, 0.014, 0.011, 0.013, 0.024])
    ]
    # Two repeats a run: medians of an even number of jobs. 15 % slower.
    repeated = [
        measured(seconds, GPU, day=day, size=2000, repeat=repeat)
        for day, pair in enumerate([(0.08, 0.11), (0.09, 0.12), (0.10, 0.13)])
        for repeat, seconds in enumerate(pair, start=1)
    ]
    faster = [measured(0.5, CPU, day=0, size=4000), measured(0.4, CPU, day=5, size=4000)]
    # A run on a laptop is no regression of the GPU's series, whatever its target says.
    elsewhere = [measured(0.01, GPU, size=8000), measured(0.9, LAPTOP, day=1, size=8000)]
    history.write([*steady, *slower, *repeated, *faster, *elsewhere])

    first, second = history.ask("slowest_regressions")

    assert (first["target"], first["parameters"]) == ("g5.xlarge", '{"size":1000}')
    assert first["slowdown"] == pytest.approx(2.0)
    assert first["latest_seconds"] == pytest.approx(0.024)
    assert first["earlier_seconds"] == pytest.approx(0.012)
    assert first["earlier_slowest_seconds"] == pytest.approx(0.014)
    assert (first["latest_jobs"], first["earlier_jobs"]) == (1, 5)
    assert first["latest_run_id"] == "scheduled__005"
    assert first["latest_recorded_at"] == datetime(2026, 11, 4, 6, 0)  # noqa: DTZ001
    assert second["parameters"] == '{"size":2000}'
    assert second["slowdown"] == pytest.approx(0.115 / 0.100)
    assert (second["latest_jobs"], second["earlier_jobs"]) == (2, 4)


def test_price_per_target_ranks_by_the_cost_of_a_call(history):
    history.write(
        [
            measured(0.9, CPU, day=0),  # not the latest run
            measured(0.039, CPU, day=1, repeat=1),
            measured(0.041, CPU, day=1, repeat=2),
            measured(0.002, GPU, day=1),
            measured(0.002, {**GPU, "price_usd_per_hour": 0.4, "purchase_option": "spot"}, day=1),
            measured(0.001, LAPTOP, day=1),
        ]
    )

    rows = history.ask("price_per_target")

    assert [(row["target"], row["purchase_option"]) for row in rows] == [
        ("g5.xlarge", "spot"),
        ("g5.xlarge", "on_demand"),
        ("c5.2xlarge", "on_demand"),
    ]
    spot, on_demand, cpu = rows
    assert spot["usd_per_million_calls"] == pytest.approx(0.002 * 0.4 / 3600 * 1e6)
    assert on_demand["usd_per_million_calls"] == pytest.approx(0.002 * 1.0 / 3600 * 1e6)
    assert cpu["usd_per_million_calls"] == pytest.approx(0.040 * 0.36 / 3600 * 1e6)
    assert [row["times_the_cheapest"] for row in rows] == pytest.approx([1, 2.5, 18])
    assert cpu["job_cost_usd"] == pytest.approx(0.01)
    assert (cpu["jobs"], cpu["seconds_per_call"]) == (2, pytest.approx(0.040))


def test_noise_per_series_tells_within_jobs_from_between(history):
    history.write(
        [
            *(measured(s, CPU, day=d, relative_spread=0.03) for d, s in enumerate((0.9, 1.0, 1.1))),
            *(measured(1.0, GPU, day=d, relative_spread=0.01) for d in range(2)),
            measured(1.0, GPU, size=2000),  # one job tells nothing
        ]
    )

    noisy, quiet = history.ask("noise_per_series")

    assert (noisy["target"], noisy["jobs"], noisy["runs"]) == ("c5.2xlarge", 3, 3)
    assert noisy["spread_between_jobs"] == pytest.approx(0.1)
    assert noisy["spread_within_jobs"] == pytest.approx(0.03)
    assert (noisy["fastest_seconds"], noisy["slowest_seconds"]) == (0.9, 1.1)
    assert (quiet["target"], quiet["spread_between_jobs"]) == ("g5.xlarge", 0)


def test_crossover_names_the_sizes_on_both_sides(history):
    gpu_seconds = {500: 0.003, 1000: 0.004, 2000: 0.006, 10000: 0.4}
    cpu_seconds = {500: 0.001, 1000: 0.005, 2000: 0.060, 8000: 9.0}
    history.write(
        [
            measured(9.0, GPU, day=0, size=500),  # an earlier run
            *(measured(seconds, GPU, day=1, size=size) for size, seconds in gpu_seconds.items()),
            *(measured(seconds, CPU, day=1, size=size) for size, seconds in cpu_seconds.items()),
            measured(1e-6, LAPTOP, day=1, size=500),  # a GPU target that ran on a CPU
        ]
    )

    (row,) = history.ask("crossover")

    assert (row["gpu_target"], row["cpu_target"]) == ("g5.xlarge", "c5.2xlarge")
    assert (row["points_compared"], row["points_gpu_is_faster"]) == (3, 2)
    assert row["smallest_gpu_is_faster"] == '{"size":1000}'
    assert row["largest_cpu_is_faster"] == '{"size":500}'
    assert row["least_speedup"] == pytest.approx(1 / 3)
    assert row["greatest_speedup"] == pytest.approx(10)


def test_columns_fit_glue_and_say_their_unit_and_the_table_covers_every_suite():
    names = [*COLUMNS, *PARTITIONS]
    assert len(names) == len(set(names)) == len(SCHEMA["columns"]) + len(PARTITIONS)
    assert set(SCHEMA["series"]) <= set(names)
    for column in (*SCHEMA["columns"], *SCHEMA["partition_keys"]):
        assert column["type"] in DUCKDB_TYPES, column
        assert 0 < len(column["comment"]) <= 255, column
        for suffix, unit in (("_seconds", "seconds"), ("_usd", "USD"), ("_bytes", "bytes")):
            assert not column["name"].endswith(suffix) or unit in column["comment"], column
    variables = hcl2.loads((MODULE / "variables.tf").read_text())["variable"]
    suites = next(v for one in variables for name, v in one.items() if name.strip('"') == "suites")
    assert sorted(suite.strip('"') for suite in suites["default"]) == sorted(SUITES)
