"""`python -m batchmark.history`: what it prints, and what it writes."""

import gzip
import json
import os
import runpy
import sys

import pytest

from batchmark.analysis.published import TABLE
from batchmark.command_line import main as batchmark
from batchmark.core.names import limited, slug
from batchmark.history import __main__ as command_line
from batchmark_job.result.document import Device
from batchmark_job.result.printable import printable
from tests.builders.history import BUCKET, REGION, two_targets
from tests.builders.hostile import STEERING
from tests.builders.runs import LAPTOP_ENVIRONMENT
from tests.documented import arguments, documented
from tests.unit.plugin.history.test_imports import ASV, EXAMPLES, GITHUB, PYTEST

FIRST = two_targets()
GITHUB_JSON = GITHUB.with_suffix(".json")
GOOGLE = EXAMPLES / "google-benchmark.json"
SORT, JOIN = (f"tests/test_sorting.py::test_{name}" for name in ("sort", "join"))


def run(*arguments, bucket=BUCKET):
    return command_line.main([*map(str, arguments), "--bucket", bucket, "--region", REGION])


def test_a_rebuild_prints_what_it_did_and_what_it_could_not_read(bucket, capsys):
    (key,) = bucket.append(FIRST)
    bucket.history.objects.remove(key)
    stale = "history/suite=blog/month=2026-09/gone.parquet"
    bucket.put(stale, b"of no run")
    for number in range(command_line.MOST_KEYS + 1):
        bucket.put(f"raw/manual/{number:02}.json", "by hand")
    assert run("rebuild", "--dry-run") == 0
    said = capsys.readouterr().out
    assert "1 runs and imported files: 1 files would be written, 0 unchanged, 1 would be" in said
    assert f"Would be removed, as no run or import has them: 1 ({stale})" in said
    assert stale in bucket.objects()
    assert run("rebuild") == 0
    said = capsys.readouterr().out
    assert "1 files written, 0 unchanged, 1 removed" in said
    assert "not in the history: 21 (raw/manual/00.json, " in said
    assert "Not checked: 2 raw documents, as collected by a release that kept no SHA-256" in said
    assert "raw/manual/19.json and 1 more)" in said
    assert list(bucket.objects("history/")) == [key]
    bucket.put(f"runs/{slug(FIRST.run_id)}/prices.json", "{}")
    assert run("rebuild") == 0
    assert "is of another release (" in capsys.readouterr().err


def test_show_lists_runs_and_each_row_against_its_earlier_ones(bucket, capsys):
    made = [two_targets(day, slowdown=1.5 if day == 2 else 1.0) for day in range(3)]
    for each in made:
        bucket.append(each)
    assert run("show") == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[0] == "suite blog: 3 runs, the newest first"
    assert [line.split()[2] for line in lines[1:4]] == [f"{each.run_id}," for each in made[::-1]]
    rows = [line for line in lines if "xlarge" in line]
    assert len(rows) == 4
    figures = [line for line in lines if line.endswith("50 %, not known yet")]
    assert len(figures) == 4
    assert all(" 3 " in line for line in figures)
    assert run("show", "--suite", "smoke") == 1
    assert "has no suite smoke; it has blog" in capsys.readouterr().err


def test_show_counts_measurements_and_puts_imported_ones_last(bucket, capsys):
    run("import", PYTEST, "--target", "ci")
    bucket.append(FIRST.model_copy(deep=True))
    capsys.readouterr()
    assert run("show") == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if line.startswith("suite")] == [
        "suite blog: 1 run, the newest first",
        "suite imported: 1 run, the newest first",
    ]
    assert lines[1].endswith(f"{FIRST.run_id}, 4 measurements")


def test_a_missing_bucket_points_to_where_its_name_is(capsys):
    for words, says in ((["show"], "`batchmark history show --help`"), (["show", "-h"], "-raw")):
        with pytest.raises(SystemExit):
            command_line.main(words)
        captured = capsys.readouterr()
        assert says in captured.err + captured.out


def test_show_marks_a_gpu_target_that_ran_on_the_cpu(bucket, capsys):
    bucket.append(two_targets(0, environment=LAPTOP_ENVIRONMENT, actual_device=Device.CPU))
    assert run("show") == 0
    out = capsys.readouterr().out
    assert "g5.xlarge (ran on the CPU)" in out
    assert "c5.2xlarge (ran" not in out


def test_files_of_several_tools_are_imported_at_once(bucket, capsys):
    assert run("import", PYTEST, GITHUB, ASV, "--target", "ci") == 0
    assert capsys.readouterr().out.splitlines() == [
        "pytest-benchmark.json: 2 measurements of 1 run",
        "github-action-benchmark.js: 7 measurements of 2 runs; 1 lost; not times, so left out: "
        "1 in 'B/op', 1 in 'allocs/op'",
        f"{ASV.name}: 5 measurements of 1 run; 1 skipped; 2 lost; not times, so left out: "
        "1 in 'bytes', 1 in 'answers'",
    ]
    table = bucket.history.read(["target"], suites=["imported"])
    assert table["target"].to_pylist() == ["ci"] * 18
    before = bucket.objects()
    assert run("import", GITHUB, "--target", "ci", "--format", "github-action-benchmark") == 0
    assert bucket.objects() == before


def test_a_bad_file_keeps_all_others_out(bucket, capsys, tmp_path):
    bad = tmp_path / "bad.json"
    document = json.loads(GITHUB_JSON.read_text())
    for entries in document["entries"].values():
        for entry in entries:
            entry |= {"tool": "cargo", "benches": [{"name": "size", "value": 5, "unit": "MB"}]}
    bad.write_text(json.dumps(document))
    assert run("import", PYTEST, bad, "--target", "ci") == 1
    message = f"history import: {bad} has no time and no rate of calls: 5 in 'MB'\n"
    assert capsys.readouterr().err == message
    assert bucket.objects() == {}


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"\xff\xfe", "is not UTF-8 text: "),
        (b"{}", "has none of the formats "),
        (None, "No such file or directory"),
    ],
)
def test_a_failed_import_prints_one_line(bucket, capsys, tmp_path, content, problem):
    path = tmp_path / "results.json"
    if content is not None:
        path.write_bytes(content)
    assert run("import", path, "--target", "ci") == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("history import: ")
    assert problem in line
    assert b"\xff" not in (content or b"") or line.endswith("; save it as UTF-8")


def changed(path, **changes):
    """An example with other values; `a__b=…` changes a field b within a."""
    document = json.loads(path.read_text())
    for names, value in changes.items():
        *above, last = [int(name) if name.isdecimal() else name for name in names.split("__")]
        inner = document
        for name in above:
            inner = inner[name]
        inner[last] = value
    return json.dumps(document)


STATS = "benchmarks__1__stats__"
BENCH = "entries__Rust__0__benches__0__"


@pytest.mark.parametrize(
    ("path", "changes", "problem"),
    [
        (PYTEST, {f"{STATS}min": "fast"}, f"'{JOIN}': stats.min is 'fast', not a number"),
        (PYTEST, {f"{STATS}max": 10**400}, f"'{JOIN}': stats.max is 1000"),
        (PYTEST, {f"{STATS}rounds": 10**12}, f"'{JOIN}': stats.rounds is 1000000000000, not"),
        (PYTEST, {"benchmarks__1__fullname": "\ud800"}, r"fullname is '\ud800', not a text"),
        (GITHUB_JSON, {"entries__Rust__0__date": 1e30}, "entries.Rust[0]: date is 1e+30, not a d"),
        (GITHUB_JSON, {f"{BENCH}value": 10**400}, "'fib_10': value is 1000"),
        (ASV, {"params__cpu": 7}, "params.cpu is 7, not a text"),
        (ASV, {"results__time_sort": [[10**400], []]}, "results.time_sort: result is 1000"),
    ],
)
def test_an_invalid_value_is_told_in_one_line_and_costs_its_entry(
    bucket, capsys, tmp_path, path, changes, problem
):
    bad = tmp_path / "bad.json"
    bad.write_text(changed(path, **changes))
    assert run("import", PYTEST, bad, "--target", "ci") == 0
    (line,) = [line for line in capsys.readouterr().err.splitlines() if problem in line]
    assert line.startswith("bad.json: ")
    assert bucket.history.read(["target"]).num_rows > 2


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (changed(PYTEST, benchmarks=None), "can't be read as pytest-benchmark: benchmarks is null"),
        ("[" * 100_000, "is not JSON: maximum recursion depth"),
        (f"name,value,unit\na,1,{'s' * 200_000}\n", "is not CSV: line 2: field larger than"),
    ],
)
def test_a_file_that_can_not_be_read_prints_one_line_and_keeps_all_files_out(
    bucket, capsys, tmp_path, text, problem
):
    bad = tmp_path / "bad.json"
    bad.write_text(text)
    assert run("import", PYTEST, bad, "--target", "ci") == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("history import: ")
    assert "bad.json " in line
    assert problem in line
    assert line.endswith("; correct the file or leave it out")
    assert bucket.objects() == {}


@pytest.mark.parametrize("path", [PYTEST, ASV])
def test_a_file_without_a_date_needs_one(bucket, capsys, tmp_path, path):
    bad = tmp_path / "bad.json"
    bad.write_text(changed(path, date=None, datetime="0001-01-01T00:00:00+14:00"))
    asked = ("import", bad, "--target", "ci")
    assert run(*asked) == 1
    assert "it has no date: --date gives one to what has none" in capsys.readouterr().err
    assert run(*asked, "--date", "2026-11-28") == 0
    assert set(bucket.history.read(["recorded_at"])["month"].to_pylist()) == {"2026-11"}


@pytest.mark.parametrize("given", ["yesterday", "2200-01-01", "0001-01-01T00:00:00+14:00"])
def test_a_date_is_a_date(bucket, capsys, given):
    with pytest.raises(SystemExit):
        run("import", PYTEST, "--target", "ci", "--date", given)
    assert f"argument --date: the date is '{given}', not a date " in capsys.readouterr().err


def test_a_commit_is_given_to_what_has_none(bucket, capsys):
    assert run("import", GOOGLE, PYTEST, "--target", "ci", "--commit", "abc123") == 0
    commits = {run_id.partition("__")[0] for run_id in run_ids(bucket)}
    assert commits == {"abc123", "0f3c1a5e9d2b4c6f8a7e1d0c9b8a7f6e5d4c3b2a"}


def run_ids(bucket):
    return bucket.history.read(["run_id"])["run_id"].to_pylist()


def test_what_lies_beside_asvs_results_is_skipped(bucket, capsys, tmp_path):
    beside = [*ASV.parent.glob("*.json"), ASV.parent.parent / "benchmarks.json"]
    assert len(beside) == 3
    assert run("import", *beside, "--target", "ci") == 0
    out, err = capsys.readouterr()
    assert out.startswith(f"{ASV.name}: 5 measurements")
    assert "skipped, as asv keeps no results in it: " in err
    before = bucket.objects()
    assert run("import", ASV.parent, "--target", "ci") == 0
    assert bucket.objects() == before
    assert run("import", tmp_path, "--target", "ci") == 1
    assert f"{tmp_path} has no .json files" in capsys.readouterr().err
    assert run("import", ASV.parent / "machine.json", "--target", "ci") == 1
    assert "name those beside machine.json" in capsys.readouterr().err


def test_only_so_many_losses_are_named(bucket, capsys, tmp_path):
    path = tmp_path / "many.csv"
    path.write_text("name,value,unit\ngood,1,s\n" + "".join(f"b{n},-,s\n" for n in range(25)))
    assert run("import", path, "--target", "ci", "--date", "2026-11-28") == 0
    out, err = capsys.readouterr()
    assert out == "many.csv: 1 measurement of 1 run; 25 lost\n"
    named = [f"many.csv: line {n} 'b{n - 3}': value is '-', not a number" for n in range(3, 23)]
    assert err.splitlines() == [*named, "many.csv: and 5 more"]


def test_a_gzipped_file_is_unpacked(bucket, capsys, tmp_path):
    path = tmp_path / "bench.json.gz"
    path.write_bytes(gzip.compress(PYTEST.read_bytes()))
    assert run("import", path, "--target", "ci") == 0
    assert capsys.readouterr().out == "bench.json.gz: 2 measurements of 1 run\n"
    before = bucket.objects()
    assert run("import", PYTEST, "--target", "ci") == 0  # the same content
    assert bucket.objects().keys() == before.keys()
    path.write_bytes(path.read_bytes()[:-20])
    assert run("import", path, "--target", "ci") == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"history import: {path} can't be unpacked: ")


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_a_file_has_a_limit(capsys, tmp_path, monkeypatch, pack):
    monkeypatch.setattr(command_line, "MOST_BYTES", 2**20)
    path = tmp_path / "endless"
    path.write_bytes(pack(bytes(2**20 + 1)))
    assert run("import", path, "--target", "ci") == 1
    message = f"history import: {path} has more than the 1 MiB that are read\n"
    assert capsys.readouterr().err == message


def test_figures_of_two_files_are_not_pooled_in_one_run(bucket, capsys, tmp_path):
    """Such as those of two machines under one target's name."""
    other = tmp_path / "other.json"
    other.write_text(changed(PYTEST, **{f"{STATS}median": 1.01e-5}))
    assert run("import", PYTEST, other, "--target", "ci") == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert f"{other} has another figure of '{JOIN}' of ci in run 0f3c1a5e" in line
    assert f" than {PYTEST}: import it with a --target, " in line
    assert bucket.objects() == {}
    assert run("import", PYTEST, "--target", "ci") == 0
    before = bucket.objects()
    assert run("import", other, "--target", "ci") == 1
    assert f"than s3://{BUCKET}/imports/" in capsys.readouterr().err
    assert bucket.objects() == before
    assert run("import", other, "--target", "other") == 0
    other.write_text(PYTEST.read_text() + "\n")  # the same figures, as where a file has grown
    assert run("import", PYTEST, other, "--target", "ci") == 0


def test_an_asv_parameter_nested_too_deeply_stays_a_string(bucket, tmp_path):
    deep = "-" * 100_000 + "1"
    path = tmp_path / "asv.json"
    path.write_text(changed(ASV, results={"time_sort": [[1.0], [[deep]]]}))
    assert run("import", path, "--target", "ci") == 0
    (parameters,) = bucket.history.read(["parameters"])["parameters"].to_pylist()
    assert json.loads(parameters) == {
        "param1": limited(deep, 300),
        "env": "virtualenv-py3.11-numpy",
    }


@pytest.mark.parametrize("target", ["", " ", "\udcff"])
def test_a_target_has_a_name(bucket, capsys, target):
    with pytest.raises(SystemExit) as ended:
        run("import", PYTEST, "--target", target)
    assert ended.value.code == 2
    assert f"argument --target: {target!a} is not a name" in capsys.readouterr().err


def test_a_file_name_need_not_be_utf_8(bucket, capsys, tmp_path):
    path = tmp_path / os.fsdecode(b"\xff.json")
    path.write_bytes(PYTEST.read_bytes())
    assert run("import", path, "--target", "ci") == 0
    assert capsys.readouterr().out.startswith("\ufffd.json: 2 measurements")


def test_a_missing_bucket_prints_one_line(bucket, capsys):
    assert run("rebuild", bucket="no-such-bucket") == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("history rebuild: ")
    assert "NoSuchBucket" in line


def test_exports_go_to_the_given_path(bucket, capsys, tmp_path):
    bucket.append(FIRST)
    bucket.append(two_targets(20))
    bucket.append(two_targets(suite="smoke"))
    bucket.put("history/suite=blog/month=2026-12/cut.parquet", b"PAR1")
    chosen = ("--suite", "blog", "--since", "2026-12-01")
    assert run("export", "--format", "csv", "--output", tmp_path / "all.csv", *chosen) == 0
    out, err = capsys.readouterr()
    assert out == f"{tmp_path / 'all.csv'}: 4 rows\n"
    assert err.endswith("can't be read: history/suite=blog/month=2026-12/cut.parquet\n")
    assert run("export", "--format", "bencher", "--output", tmp_path / "bencher", *chosen) == 0
    written = sorted((tmp_path / "bencher").rglob("*.json"))
    assert [path.parent.name for path in written] == ["c5.2xlarge", "g5.xlarge"]
    assert run("export", "--format", "asv", "--output", tmp_path / "asv") == 0
    benchmarks = json.loads((tmp_path / "asv" / "benchmarks.json").read_text())
    assert set(benchmarks) == {"version", "blog.matmul", "smoke.matmul"}
    assert capsys.readouterr().out.splitlines()[-1] == f"{tmp_path / 'asv'}: 7 files"


@pytest.mark.parametrize("kind", ["asv", "bencher", "pyperf"])
@pytest.mark.parametrize("target", ["..", "\u673a\u5668"])
def test_an_export_stays_in_its_folder(bucket, capsys, tmp_path, kind, target):
    assert run("import", PYTEST, "--target", target) == 0
    folder = tmp_path / "out"
    assert run("export", "--format", kind, "--output", folder) == 0
    files = int(capsys.readouterr().out.split()[-2])
    assert len([path for path in folder.rglob("*") if path.is_file()]) == files
    assert [*tmp_path.iterdir()] == [folder]


def test_an_unreadable_key_is_named_in_a_line(bucket, capsys, caplog):
    bucket.append(FIRST)
    bucket.put(f"history/suite=blog/month=2026-12/cut{STEERING}.parquet", b"PAR1")
    assert run("show") == 0
    said = [record.getMessage() for record in caplog.records]
    said.append(capsys.readouterr().err.removesuffix("\n"))
    assert len(said) == 2
    assert [printable(line) for line in said] == said


@pytest.mark.parametrize("kind", ["csv", "bencher", "asv"])
def test_an_export_of_nothing_says_why_and_writes_nothing(bucket, capsys, tmp_path, kind):
    asked = ("export", "--format", kind, "--output", tmp_path / "out")
    assert run(*asked) == 1
    message = f"history export: the history in {BUCKET} is empty: no run has been collected yet\n"
    assert capsys.readouterr() == ("", message)
    bucket.append(FIRST)
    bucket.append(two_targets(suite="smoke"))
    assert run(*asked, "--suite", "blog", "--suite", "blgo") == 1
    message = "history export: the history has no suite blgo; it has blog, smoke\n"
    assert capsys.readouterr() == ("", message)
    assert list(tmp_path.iterdir()) == []


def test_it_runs_as_a_module(capsys, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["history", "--help"])
    monkeypatch.delitem(sys.modules, command_line.__name__)  # runpy warns of what is imported
    with pytest.raises(SystemExit):
        runpy.run_module("batchmark.history", run_name="__main__")
    assert "{show,rebuild,import,export}" in capsys.readouterr().out


def test_only_a_file_that_names_its_machines_needs_no_target(bucket, capsys):
    assert run("import", PYTEST) == 1
    assert "name it, such as --target ci-runner" in capsys.readouterr().err
    assert run("import", TABLE) == 0
    assert capsys.readouterr().out == "published.json: 14 measurements of 1 run; 2 lost\n"


def test_a_reader_that_has_enough_is_no_fault(bucket, capfd, monkeypatch):
    """As with `history show … | head`."""
    bucket.append(FIRST)
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as stdout:
        monkeypatch.setattr(sys, "stdout", stdout)
        assert run("show") == 0
    assert capfd.readouterr().err == ""


def test_the_commands_of_the_runbook_do_what_it_says(bucket, tmp_path, capsys):
    bucket.append(FIRST)
    places = {
        "BUCKET": BUCKET,
        "FILE...": str(PYTEST),
        "FILE": str(tmp_path / "all.csv"),
        "FOLDER": str(tmp_path / "folder"),
        "NAME": "ci",
    }
    said = []
    for command in documented(".venv/bin/batchmark history "):
        given = [places.get(word, word) for word in arguments(command)]
        assert batchmark([*given, "--region", REGION]) == 0, command
        said.append(capsys.readouterr().out)
    asv, bencher, csv, pyperf, added, rebuilt, would_be, shown = said
    assert asv.endswith("folder: 5 files\n")
    assert bencher.endswith("folder: 2 files\n")
    assert pyperf.endswith("folder: 2 files\n")
    assert csv.endswith("all.csv: 4 rows\n")
    assert "2 measurements of 1 run" in added
    assert "2 runs and imported files: 0 files written, 2 unchanged, 0 removed" in rebuilt
    assert "0 files would be written, 2 unchanged" in would_be
    assert "suite blog: 1 run, the newest first" in shown
