"""`python -m batchmark.history`: what it prints, and what it writes."""

import json
import os
import runpy
import sys

import pytest

from batchmark.command_line import main as batchmark
from batchmark.core.names import slug
from batchmark.history import __main__ as command_line
from batchmark_job.result.document import Device
from batchmark_job.result.printable import printable
from batchmark_job.result.version import GivenVersion
from tests.builders.history import BUCKET, REGION, run_history, two_targets
from tests.builders.hostile import STEERING
from tests.builders.imported_files import PYTEST
from tests.builders.runs import LAPTOP_ENVIRONMENT
from tests.documented import arguments, documented

FIRST = two_targets()
BENCHMARKS = ("blog.matmul", "smoke.matmul")


def test_a_rebuild_prints_what_it_did_and_what_it_could_not_read(bucket, capsys):
    (key,) = bucket.append(FIRST)
    bucket.history.objects.remove(key)
    stale = "history/suite=blog/month=2026-09/gone.parquet"
    bucket.put(stale, b"of no run")
    for number in range(command_line.MOST_KEYS + 1):
        bucket.put(f"raw/manual/{number:02}.json", "by hand")
    assert run_history("rebuild", "--dry-run") == 0
    said = capsys.readouterr().out
    assert "1 runs and imported files: 1 files would be written, 0 unchanged, 1 would be" in said
    assert f"Would be removed, as they belong to no run or import: 1 ({stale})" in said
    assert stale in bucket.objects()
    assert run_history("rebuild") == 0
    said = capsys.readouterr().out
    assert "1 files written, 0 unchanged, 1 removed" in said
    assert "not in the history: 21 (raw/manual/00.json, " in said
    assert "2 raw documents could not be checked for replacement, because the release" in said
    assert "raw/manual/19.json and 1 more)" in said
    assert list(bucket.objects("history/")) == [key]
    bucket.put(f"runs/{slug(FIRST.run_id)}/prices.json", "{}")
    assert run_history("rebuild") == 0
    assert "is from another release (" in capsys.readouterr().err


def test_show_takes_a_versions_runs_and_marks_a_gpu_target_that_ran_on_the_cpu(bucket, capsys):
    for day, branch in enumerate(("main", "work", "main")):
        version = GivenVersion(commit=f"{day}" * 40, branch=branch)
        bucket.append(two_targets(day, version=version))
    assert run_history("show", "--branch", "main") == 0
    first, _, _, version, *_ = capsys.readouterr().out.splitlines()
    assert (first, version) == (
        "suite blog: 2 runs, newest first",
        "    commit 2222222, branch main",
    )
    assert run_history("show", "--commit", "1111", "--branch", "main") == 0
    assert capsys.readouterr().out == "suite blog: no run has commit 1111, branch main\n"
    bucket.append(two_targets(0, environment=LAPTOP_ENVIRONMENT, actual_device=Device.CPU))
    assert run_history("show") == 0
    out = capsys.readouterr().out
    assert "g5.xlarge (ran on the CPU)" in out
    assert "c5.2xlarge (ran" not in out


def test_show_lists_runs_and_each_row_against_its_earlier_ones(bucket, capsys):
    made = [two_targets(day, slowdown=1.5 if day == 2 else 1.0) for day in range(3)]
    run_history("import", PYTEST, "--target", "ci")  # shown last
    for each in made:
        bucket.append(each)
    capsys.readouterr()
    assert run_history("show") == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[0] == "suite blog: 3 runs, newest first"
    assert lines[1] == "  2026-11-22 11:59 UTC, scheduled, 4 measurements"
    assert lines[2:8:2] == [f"    {each.run_id}" for each in made[::-1]]
    suites = [line for line in lines if line.startswith("suite")]
    assert suites[1:] == ["suite imported: 1 run, newest first"]
    rows = [line for line in lines if "xlarge" in line]
    assert len(rows) == 4
    figures = [line for line in lines if line.endswith("50 %, not known yet")]
    assert len(figures) == 4
    assert all(" 3 " in line for line in figures)
    assert run_history("show", "--suite", "smoke") == 1
    assert "contains no suite smoke; it contains blog, imported" in capsys.readouterr().err


def test_a_missing_bucket_is_named_and_it_runs_as_a_module(bucket, capsys, monkeypatch):
    assert run_history("rebuild", bucket="no-such-bucket") == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("history rebuild: ")
    assert "NoSuchBucket" in line
    for words, says in ((["show"], "`batchmark history show --help`"), (["show", "-h"], "-raw")):
        with pytest.raises(SystemExit):
            command_line.main(words)
        captured = capsys.readouterr()
        assert says in captured.err + captured.out
    monkeypatch.setattr(sys, "argv", ["history", "--help"])
    monkeypatch.delitem(sys.modules, command_line.__name__)  # runpy warns of what is imported
    with pytest.raises(SystemExit):
        runpy.run_module("batchmark.history", run_name="__main__")
    assert "{show,rebuild,import,export}" in capsys.readouterr().out


def test_exports_of_what_was_chosen_go_to_the_given_path(bucket, capsys, tmp_path):
    bucket.append(FIRST)
    bucket.append(two_targets(20))
    bucket.append(two_targets(suite="smoke"))
    bucket.put("history/suite=blog/month=2026-12/cut.parquet", b"PAR1")
    chosen = ("--suite", "blog", "--since", "2026-12-01")
    assert run_history("export", "--format", "csv", "--output", tmp_path / "all.csv", *chosen) == 0
    out, err = capsys.readouterr()
    assert out == f"{tmp_path / 'all.csv'}: 4 rows\n"
    cut = "history/suite=blog/month=2026-12/cut.parquet"
    assert err.endswith(f"skipped {cut}, because it can't be read\n")
    for words, names in ((chosen, {"version", "blog.matmul"}), ((), {"version", *BENCHMARKS})):
        folder = tmp_path / f"asv{len(words)}"
        assert run_history("export", "--format", "asv", "--output", folder, *words) == 0
        assert set(json.loads((folder / "benchmarks.json").read_text())) == names
    assert capsys.readouterr().out.splitlines()[-1] == f"{folder}: 7 files"


@pytest.mark.parametrize("kind", ["asv", "bencher", "pyperf"])
@pytest.mark.parametrize("target", ["..", "\u673a\u5668"])
def test_an_export_stays_in_its_folder(bucket, capsys, tmp_path, kind, target):
    assert run_history("import", PYTEST, "--target", target) == 0
    folder = tmp_path / "out"
    assert run_history("export", "--format", kind, "--output", folder) == 0
    files = int(capsys.readouterr().out.split()[-2])
    assert len([path for path in folder.rglob("*") if path.is_file()]) == files
    assert [*tmp_path.iterdir()] == [folder]


def test_an_unreadable_key_is_named_in_a_line(bucket, capsys, caplog):
    bucket.append(FIRST)
    bucket.put(f"history/suite=blog/month=2026-12/cut{STEERING}.parquet", b"PAR1")
    assert run_history("show") == 0
    said = [record.getMessage() for record in caplog.records]
    said.append(capsys.readouterr().err.removesuffix("\n"))
    assert len(said) == 2
    assert [printable(line) for line in said] == said


@pytest.mark.parametrize("kind", ["csv", "bencher", "asv"])
def test_an_export_of_nothing_says_why_and_writes_nothing(bucket, capsys, tmp_path, kind):
    asked = ("export", "--format", kind, "--output", tmp_path / "out")
    assert run_history(*asked) == 1
    message = f"history export: the history in {BUCKET} is empty: no run has been collected yet\n"
    assert capsys.readouterr() == ("", message)
    bucket.append(FIRST)
    bucket.append(two_targets(suite="smoke"))
    assert run_history(*asked, "--suite", "blog", "--suite", "blgo") == 1
    message = "history export: the history contains no suite blgo; it contains blog, smoke\n"
    assert capsys.readouterr() == ("", message)
    assert list(tmp_path.iterdir()) == []


def test_a_reader_that_has_enough_is_no_fault(bucket, capfd, monkeypatch):
    """As with `history show … | head`."""
    bucket.append(FIRST)
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as stdout:
        monkeypatch.setattr(sys, "stdout", stdout)
        assert run_history("show") == 0
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
    assert "suite blog: 1 run, newest first" in shown
