"""Files of pyperf, Google Benchmark, hyperfine, NVBench and CSV, from tests/data/imports."""

import json
from pathlib import Path

import pytest

from batchmark.core.errors import HistoryError
from batchmark.history.exports import asv, bencher, pyperf
from batchmark.history.exports.runs import COLUMNS
from batchmark.history.imports.file import FORMATS, detect, is_beside_results
from batchmark.history.series import COLUMNS as SERIES_COLUMNS
from batchmark.history.series import series_histories
from batchmark_job.result.own_job import BETTER, HIGHER, LOWER, METRIC, UNIT
from tests.builders.imported_files import (
    CSV,
    GIVEN,
    GOOGLE,
    HYPERFINE,
    HYPERFINE_2,
    NVBENCH,
    PYPERF,
    by_point,
    edited,
    imported,
)
from tests.paths import DOCS

AT_TEN = "2026-10-31T10:00:00Z"


def found(path, **fields):
    """The rows of an example by workload and parameters, and its file's run."""
    rows = by_point(imported(path, **fields))
    (run_id,) = {run_id for *_, run_id in rows}
    return {key[:2]: row for key, row in rows.items()}, run_id


def test_pyperf_takes_the_values_of_all_runs_and_no_warm_up():
    rows, run_id = found(PYPERF)
    assert run_id == f"{'4' * 40}__{AT_TEN}"
    assert rows.keys() == {("json_loads", "{}"), ("json_dumps", "{}")}
    loads = rows["json_loads", "{}"]
    assert (loads["samples"], loads["median_seconds"]) == (6, pytest.approx(2.6e-5))
    assert (loads["min_seconds"], loads["max_seconds"]) == (2.4e-5, 2.8e-5)
    assert loads["median_low_seconds"] < 2.6e-5 < loads["median_high_seconds"]
    assert loads["cpu_model"] == "Intel(R) Core(TM) i7-8550U CPU @ 1.80GHz"
    assert (loads["cpu_threads"], loads["python_version"]) == (8, "3.12.3 (64-bit)")
    assert imported(PYPERF).parse().left_out.other_units == {"byte": 1}


def test_pyperf_resamples_processes_before_their_values():
    def in_one_process(document):
        _, first, second = document["benchmarks"][0]["runs"]
        first["values"] += second.pop("values")
        second["metadata"]["calibrate_loops"] = 256

    apart, _ = found(PYPERF)
    (together, _) = edited(PYPERF, in_one_process).rows()
    apart = apart["json_loads", "{}"]
    assert together["samples"] == apart["samples"]
    ends = ((row["median_high_seconds"], row["median_low_seconds"]) for row in (apart, together))
    width, narrower = (high - low for high, low in ends)
    assert width > narrower


def test_the_date_of_a_single_pyperf_run_stands_above_it_and_an_older_file_is_refused():
    def edit(document):
        document["benchmarks"] = document["benchmarks"][1:2]
        (run,) = document["benchmarks"][0]["runs"]
        document["metadata"]["date"] = run["metadata"].pop("date")

    (row,) = edited(PYPERF, edit).rows()
    assert row["run_id"] == f"{'4' * 40}__2026-10-31T10:01:00Z"
    with pytest.raises(HistoryError, match=r"results of version 5: `pyperf convert` converts"):
        edited(PYPERF, lambda document: document.update(version=5)).parse()


def figures(rows):
    return {
        row["workload"]: (row["status"], row.get("samples"), row.get("median_seconds"))
        for row in rows
    }


def test_google_benchmark_takes_repetitions_and_else_the_median():
    rows, run_id = found(GOOGLE)
    assert run_id == f"imported__{AT_TEN}"
    assert figures(rows.values()) == {
        "BM_Sort/1024": ("measured", 3, pytest.approx(7.4e-6)),
        "BM_Copy/size:4096/threads:4": ("measured", 1, pytest.approx(2.5e-7)),
        "BM_Find": ("measured", 5, pytest.approx(1.5e-3)),
        "BM_Open": ("failed", None, None),
        "BM_Avx512": ("skipped", None, None),
    }
    assert rows["BM_Open", "{}"]["reason"] == "no such file"
    assert rows["BM_Avx512", "{}"]["reason"] == "needs AVX-512"
    assert rows["BM_Sort/1024", "{}"]["cpu_threads"] == 8
    assert imported(GOOGLE).parse().losses == ["benchmarks[11] 'BM_Open': no such file"]


def test_google_benchmarks_older_releases_had_aggregates_by_name_and_no_unit():
    def old(document):
        for entry in document["benchmarks"]:
            for key in ("run_name", "run_type", "aggregate_name"):
                entry.pop(key, None)

    assert figures(edited(GOOGLE, old).rows()) == figures(imported(GOOGLE).rows())
    # As in the example of its guide.
    document = {
        "context": {"date": "2015/03/17-18:40:25", "num_cpus": 40},
        "benchmarks": [{"name": "BM_SetInsert/1024/1", "iterations": 94877, "real_time": 29275}],
    }
    (row,) = imported(GOOGLE, json.dumps(document)).rows()
    assert row["run_id"] == "imported__2015-03-17T18:40:25Z"
    assert row["median_seconds"] == pytest.approx(29.275e-6)
    for later in ({"time_unit": "us"}, {"run_type": "iteration"}):  # then one is missing
        document["benchmarks"].append({"name": "BM_Other", "real_time": 1} | later)
        losses = imported(GOOGLE, json.dumps(document)).parse().losses
        assert losses[0] == "benchmarks[0] 'BM_SetInsert/1024/1': time_unit is null or missing"
        document["benchmarks"].pop()


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda entries: entries.pop(1), "the file contains only 2 of its 3 repetitions"),
        (lambda entries: entries[1].update(real_time="NaN"), "real_time is 'NaN', not a number"),
        (lambda entries: entries[1].update(error_occurred=True, error_message="gone"), "gone"),
    ],
)
def test_a_benchmark_of_which_a_repetition_is_missing_has_no_figure(change, reason):
    rows = edited(GOOGLE, lambda document: change(document["benchmarks"])).rows()
    (sort,) = [row for row in rows if row["workload"] == "BM_Sort/1024"]
    assert (sort["status"], sort["reason"]) == ("failed", reason)
    assert len(rows) == 5


@pytest.mark.parametrize(
    ("path", "name", "samples", "median", "failed", "reason"),
    [
        (
            *(HYPERFINE, "sort --parallel=1 words.txt", 6, 0.509),
            *("grep -c missing words.txt", "2 of 3 runs failed (exit codes: "),
        ),
        (HYPERFINE_2, "sort with 1 thread", 2, 0.51, "false", "1 of 1 run failed (exit codes: 1)"),
    ],
)
def test_hyperfine(path, name, samples, median, failed, reason):
    rows, run_id = found(path, **GIVEN)
    assert run_id == f"{'6' * 40}__{AT_TEN}"
    sort = rows[name, '{"threads":1}']
    assert (sort["samples"], sort["median_seconds"]) == (samples, pytest.approx(median))
    (failed,) = [row for row in rows.values() if row["workload"] == failed]
    assert failed["status"] == "failed"
    assert failed["reason"].startswith(reason)
    assert "median_seconds" not in failed


def test_hyperfine_may_give_a_summary_a_system_and_an_empty_parameter():
    summary = found(HYPERFINE, **GIVEN)[0]["sort --parallel=4 words.txt", '{"threads":4}']
    assert (summary["samples"], summary["median_seconds"]) == (3, 0.199)
    assert (summary["min_seconds"], summary["max_seconds"]) == (0.195, 0.208)
    assert imported(HYPERFINE_2, **GIVEN).rows()[0]["kernel"] == "Linux"
    for value in ('""', "1"):
        text = HYPERFINE.read_text().replace('{"threads": "1"}', f'{{"threads": {value}}}')
        row, *_ = imported(HYPERFINE, text, **GIVEN).rows()
        assert row["parameters"] == f'{{"threads":{value}}}'


def test_nvbench_takes_the_gpus_time_and_keeps_devices_apart():
    rows, _ = found(NVBENCH, **GIVEN)
    copy = '"Elements":1048576,"T":"F32"'
    first, second = rows["copy", f"{{{copy}}}"], rows["copy", f'{{{copy},"device":1}}']
    assert (first["samples"], first["median_seconds"]) == (499, 4.3e-5)
    assert (first["p25_seconds"], first["max_seconds"]) == (4.25e-5, 5.5e-5)
    assert first["relative_spread"] == pytest.approx(2.2 / 43)
    assert second["median_seconds"] == 4.6e-5  # a mean, where there is no median
    for row in (first, second):
        assert (row["actual_device"], row["gpu_model"]) == ("cuda", "NVIDIA L4")
    skipped, on_cpu = rows["sort", "{}"], rows["hash", "{}"]
    assert (skipped["status"], skipped["reason"]) == ("skipped", "Input does not fit in memory")
    assert (on_cpu["actual_device"], on_cpu["median_seconds"]) == ("cpu", 0.0031)


def test_csv_has_samples_parameters_and_figures_of_any_unit_that_may_be_better_either_way():
    rows, run_id = found(CSV)
    assert run_id == f"{'5' * 40}__{AT_TEN}"
    sort = rows["sort", '{"size":1000}']
    assert (sort["samples"], sort["median_seconds"]) == (3, pytest.approx(1.15e-3))
    assert rows["sort", '{"size":10000}']["samples"] == 1
    told = {name: json.loads(point) for name, point in rows if METRIC in point}
    assert told == {
        "decode": {METRIC: "value", UNIT: "images/s", BETTER: HIGHER, "note": "a, b"},
        "memory": {METRIC: "value", UNIT: "bytes", BETTER: LOWER},
    }
    (decode,) = [row for (name, _), row in rows.items() if name == "decode"]
    assert decode["median_seconds"] == pytest.approx(1 / 250)  # so that less is better
    assert imported(CSV).parse().left_out.other_units == {"MB": 1}
    lines = ["name,value,unit,higher_is_better"]
    lines += ["uptime,9,s,true", "wait,9,s,false", "speed,4,ops/s,true", "waste,4,ops/s,False"]
    rows = imported(CSV, "\n".join(lines), **GIVEN).rows()
    assert {row["workload"] for row in rows if METRIC in row["parameters"]} == {"uptime", "waste"}
    seconds = {row["workload"]: row["median_seconds"] for row in rows}
    assert seconds == pytest.approx({"uptime": 1 / 9, "wait": 9, "speed": 0.25, "waste": 4})


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("name,value\na,1\n", "its header does not contain unit, and it is not JSON either"),
        ("name,value,unit,unit\na,1,s,s\n", "its header contains 'unit' more than once"),
        ('name,value,unit\na,"1"2,s\n', "line 2: "),
        ("", "its header does not contain name, value, unit"),
    ],
)
def test_a_csv_file_without_a_sound_header_is_refused(text, problem):
    with pytest.raises(HistoryError, match=f"f.csv is not valid CSV: {problem}"):
        detect(text, "f.csv")


@pytest.mark.parametrize(
    "text",
    [
        "Name,VALUE,Unit,Size\nsort,1.5,ms,10",
        "name;value;unit;Size\r\nsort;1.5;ms;10\r\n",
        "\n\nname\tvalue\tunit\tSize\n\nsort\t1.5\tms\t10\n\n",
        " name , value , unit , Size \n sort , 1.5 , ms , 10 \n",
        'name,value,unit,Size,,\n"sort",1.5,ms,10,,\n,,,,,\n',
    ],
)
def test_a_spreadsheets_csv_is_read(text):
    parsed = imported(CSV, text, **GIVEN).parse()
    (found,) = parsed.measurements
    assert (found.workload, found.parameters) == ("sort", {"Size": 10})
    assert found.figures["median_seconds"] == pytest.approx(1.5e-3)
    assert parsed.losses == []


def test_a_text_is_a_number_if_no_other_text_is_the_same_one_nor_may_it_be_one_of_thousands():
    numbers = {"1000": 1000, "-2": -2, "1.50": 1.5, "1e3": 1000.0}
    texts = ("007", "1234567890123456789", "1_000", "x")
    lines = [f"a,1,s,{text}" for text in (*numbers, *texts)]
    rows = imported(CSV, "\n".join(["name,value,unit,p", *lines]), **GIVEN).rows()
    points = [json.dumps({"p": one}, separators=(",", ":")) for one in (*numbers.values(), *texts)]
    assert [row["parameters"] for row in rows] == points
    (loss,) = imported(CSV, "\n\nname;value;unit\nsort;1,234;ms\n", **GIVEN).parse().losses
    assert loss == "line 4 'sort': value is '1,234', not a number such as 1234.5"


@pytest.mark.parametrize(
    "path", [PYPERF, GOOGLE, HYPERFINE, NVBENCH, CSV], ids=lambda path: path.stem
)
def test_what_is_imported_makes_series_and_is_exported(bucket, path):
    """Into each form that others read, and out of it again with the same figures."""
    file = imported(path, **GIVEN)
    bucket.history.append_import(file)
    measured = [row for row in file.rows() if row["status"] == "measured"]
    histories = series_histories(bucket.history.read(SERIES_COLUMNS), "time")
    assert len(histories) == len(measured)
    table = bucket.history.read(COLUMNS)
    reported = [report for _, content in bencher.files(table) for report in content.values()]
    assert len(reported) == len(measured)
    times = sorted(row["median_seconds"] for row in measured if METRIC not in row["parameters"])
    benchmarks = json.dumps(dict(asv.files(table))["benchmarks.json"])
    for export, name in ((asv, "asv"), (pyperf, "pyperf")):
        again = []
        for written, content in export.files(table):
            text = json.dumps(content)
            if not is_beside_results(text, written):
                back = imported(Path(written), text, benchmarks_text=benchmarks, **GIVEN)
                assert back.format == name
                again += [row for row in back.rows() if row["status"] == "measured"]
        assert sorted(row["median_seconds"] for row in again) == pytest.approx(times), name


def test_pyperf_gets_a_run_per_job_with_its_date(bucket):
    bucket.history.append_import(imported(GOOGLE))
    (name, content), *others = pyperf.files(bucket.history.read(COLUMNS))
    assert (name, others) == ("ci/imported__2026-10-31T10-00-00Z-" + name[-15:-5] + ".json", [])
    find = [one for one in content["benchmarks"] if "BM_Find" in one["metadata"]["name"]]
    run = {"metadata": {"date": "2026-10-31 10:00:00"}, "values": [0.0015]}
    assert find == [{"metadata": {"name": "imported/BM_Find unknown"}, "runs": [run]}]
    assert content["metadata"] == {"unit": "second", "hostname": "ci"}


def test_each_format_is_documented():
    table = (DOCS / "runbook.md").read_text()
    assert [name for name in FORMATS if f"\n| `{name}` |" not in table] == ["published-table"]
