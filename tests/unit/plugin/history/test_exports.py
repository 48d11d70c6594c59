"""The history in other tools' formats."""

import csv
import math

import pytest

from batchmark.core.names import slug
from batchmark.history.columns import ALL_COLUMNS
from batchmark.history.exports import asv, bencher
from batchmark.history.exports import csv as table_csv
from batchmark.history.exports.runs import COLUMNS
from batchmark.history.overview import overview
from batchmark.history.rows import history_rows
from batchmark.history.series import series_histories
from batchmark_job.result.document import MeasurementStatus
from tests.builders.history import NOON, SIZES, finished, run_of, table, two_targets
from tests.builders.imported_files import PYTEST, imported
from tests.builders.own_jobs import CPU, GPU, SMALL, SUITE, THROUGHPUT
from tests.builders.runs import PRICES, build_job, build_row, build_rows, build_run, noisy

DAYS = [slug(f"scheduled__2026-11-{day}T12:00:00+00:00") for day in (20, 21)]
RUN, C5 = DAYS[0], "c5.2xlarge"


@pytest.fixture
def filled(bucket):
    """Two runs of two targets, and a run with repeats, a skipped row and one of few samples."""
    bucket.append(two_targets())
    bucket.append(two_targets(1))
    skipped = build_row(status=MeasurementStatus.SKIPPED, reason="=1+1\t", parameters={"size": 9})
    few = build_row((1.0, 3.0, 2.0), parameters={"size": 3})
    jobs = [build_job(C5, [*build_rows(SIZES, seed=n), skipped, few], repeat=n) for n in (1, 2, 3)]
    bucket.append(run_of(*(finished(job, NOON) for job in jobs), run_id="manual"))
    return bucket.history


def test_csv_holds_every_column_of_every_row(filled, tmp_path):
    path = tmp_path / "history.csv"
    assert table_csv.write(filled.tables(ALL_COLUMNS, suites=["none"]), path) == 0
    header = path.read_text()
    assert table_csv.write(filled.tables(ALL_COLUMNS), path) == 8 + 12
    assert path.read_text().startswith(header)
    with path.open() as file:
        lines = list(csv.DictReader(file))
    assert list(lines[0]) == list(ALL_COLUMNS)
    expected = history_rows(two_targets(), PRICES)
    found = [line for line in lines if line["run_id"] == expected[0]["run_id"]]
    medians = [row["median_seconds"] for row in expected]
    assert [float(line["median_seconds"]) for line in found] == medians
    assert found[0]["recorded_at"].startswith("2026-11-20 12:00:00")
    assert (found[0]["parameters"], found[0]["suite"]) == ('{"size":1000}', "blog")
    skipped = [line for line in lines if line["status"] == "skipped"]
    # Nor is any text a formula.
    assert {(line["reason"], line["median_seconds"]) for line in skipped} == {("'=1+1␉", "")}


def test_bencher_gets_a_report_per_target_and_run_in_nanoseconds(filled):
    reports = dict(bencher.files(filled.read(COLUMNS)))
    assert set(reports) == {
        f"{target}/{day}.json" for target in ("g5.xlarge", "c5.2xlarge") for day in DAYS
    } | {"c5.2xlarge/manual.json"}
    rows = [row for row in history_rows(two_targets(), PRICES) if row["target"] == "g5.xlarge"]
    assert reports[f"g5.xlarge/{RUN}.json"] == {
        f"blog/matmul size={size} float32": {
            "latency": {
                "value": 1e9 * row["median_seconds"],
                "lower_value": 1e9 * row["median_low_seconds"],
                "upper_value": 1e9 * row["median_high_seconds"],
            }
        }
        for size, row in zip((1000, 5000), rows, strict=True)
    }
    # Medians over its jobs, without the skipped row; few samples have no interval.
    *_, few = reports["c5.2xlarge/manual.json"].items()
    assert len(reports["c5.2xlarge/manual.json"]) == 3
    assert few == ("blog/matmul size=3 float32", {"latency": {"value": 2e9}})


def test_asv_gets_its_folder_of_results(filled):
    files = dict(asv.files(filled.read(COLUMNS)))
    gpu, cpu = "py3.11.14-torch2.13.0-cu130", "py3.11.14-torch2.13.0-cpu"
    assert set(files) == {
        "benchmarks.json",
        "g5.xlarge/machine.json",
        "c5.2xlarge/machine.json",
        *(f"g5.xlarge/{day}-{gpu}.json" for day in DAYS),
        *(f"c5.2xlarge/{day}-{cpu}.json" for day in (*DAYS, "manual")),
    }
    assert files["g5.xlarge/machine.json"] == {
        "arch": "",
        "cpu": "AMD EPYC 7R32",
        "machine": "g5.xlarge",
        "num_cpu": "4",
        "os": "6.12.40-63.114.amzn2023.x86_64",
        "ram": str(16 * 2**30),
        "version": 1,
    }
    about = files["benchmarks.json"]["blog.matmul"]
    assert about["param_names"] == ["dtype", "size"]
    assert about["params"] == [["'float32'"], ["3", "1000", "5000"]]
    results = files[f"g5.xlarge/{DAYS[0]}-{gpu}.json"]
    columns = dict(zip(results["result_columns"], results["results"]["blog.matmul"], strict=True))
    rows = [row for row in history_rows(two_targets(), PRICES) if row["target"] == "g5.xlarge"]
    assert columns["result"][1:] == [row["median_seconds"] for row in rows]
    assert columns["stats_q_25"][1:] == [row["p25_seconds"] for row in rows]
    assert columns["version"] == about["version"]
    assert (results["commit_hash"], results["date"]) == (DAYS[0], 1795176000000)


def test_a_point_that_a_run_lacks_is_nan_for_asv(bucket):
    points = ({"size": 1000}, {"size": 2000}, {"size": 5, "batch": 3})
    one, two, batched = (
        build_row(noisy(seconds), parameters=point) for seconds, point in enumerate(points, 1)
    )
    for day, rows in enumerate(((one, two), (one, batched))):
        bucket.append(run_of(finished(build_job("c5.2xlarge", rows), NOON), run_id=f"run-{day}"))
    table = bucket.history.read(COLUMNS)
    files = dict(asv.files(table))
    about = files["benchmarks.json"]["blog.matmul"]
    assert about["param_names"] == ["batch", "dtype", "size"]
    assert about["params"] == [["3", "None"], ["'float32'"], ["5", "1000", "2000"]]
    found = {
        name.partition("/")[2][:5]: [
            None if math.isnan(value) else round(value)
            for value in content["results"]["blog.matmul"][0]
        ]
        for name, content in files.items()
        if "results" in content
    }
    assert "blog/matmul batch=3 size=5 float32" in dict(bencher.files(table))[f"{C5}/run-1.json"]
    # By batch, then by size.
    assert found == {
        "run-0": [None, None, None, None, 1, 2],
        "run-1": [3, None, None, None, 1, None],
    }


def test_an_imported_commit_is_exported_to_asv_as_a_commit(bucket):
    bucket.history.append_import(imported(PYTEST))
    files = dict(asv.files(bucket.history.read(COLUMNS)))
    (results,) = [content for content in files.values() if "commit_hash" in content]
    assert results["commit_hash"] == "0f3c1a5e9d2b4c6f8a7e1d0c9b8a7f6e5d4c3b2a"
    assert results["env_name"] == "py3.11.9"


def test_metrics_have_no_speedup_stand_in_the_overview_in_their_unit_and_not_in_asvs_format():
    jobs = [finished(side.job(SMALL), NOON) for side in (GPU, CPU)]
    measured = table(history_rows(run_of(*jobs), PRICES))
    assert not any(one.key.is_metric for one in series_histories(measured, "speedup"))
    assert sum(one.key.is_metric for one in series_histories(measured, "time")) == 2
    about = dict(asv.files(measured))["benchmarks.json"]["job-thumbnails.thumbnails"]
    assert set(about["param_names"]) == {"size", "start"}
    text = "\n".join(overview(SUITE, measured))
    assert "thumbnails size 64, start warm, throughput (images/s), g5.xlarge" in text
    assert "images/s" in text.split("throughput (images/s), g5.xlarge")[1].splitlines()[1]
    assert "none" not in text


def test_bencher_gets_a_metric_as_a_measure_of_its_job_and_keeps_those_of_one_name_apart():
    told = {
        ("latency", "ms", "lower"): (3.0,),
        ("latency", "s", "lower"): (0.003,),
        ("speed", "", "higher"): (7.0,),
        ("speed", "", "lower"): (8.0,),
        THROUGHPUT: (9.0,),
    }
    job = GPU.job(told=told)
    _, report = next(iter(bencher.files(table(history_rows(build_run(job), PRICES)))))
    ((name, measures),) = report.items()
    assert name == "job-thumbnails/thumbnails size=64 start=warm"
    assert measures.pop("latency")["value"] == pytest.approx(1e9 * GPU.seconds(SMALL), rel=0.1)
    assert {name: figures["value"] for name, figures in measures.items()} == pytest.approx(
        {
            "latency (ms, lower is better)": 3.0,
            "latency (s, lower is better)": 0.003,
            "speed (higher is better)": 7.0,
            "speed (lower is better)": 8.0,
            "throughput (images/s, higher is better)": 9.0,
        }
    )
