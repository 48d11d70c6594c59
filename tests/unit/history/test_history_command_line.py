"""`python -m batchmark.history` against moto: what it says, and what it leaves."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from batchmark.history import __main__ as command_line
from batchmark.job_identity import slug
from tests.unit.history.builders import BUCKET, REGION, two_targets
from tests.unit.history.test_history_imports import ASV, GITHUB, PYTEST

FIRST = two_targets()


def run(*arguments, bucket=BUCKET):
    return command_line.main([*map(str, arguments), "--bucket", bucket, "--region", REGION])


def test_a_rebuild_says_what_it_did(bucket, capsys):
    (key,) = bucket.append(FIRST)
    bucket.history.remove(key)
    stale = "history/suite=blog/month=2026-09/gone.parquet"
    bucket.put(stale, b"of no run")
    for number in range(command_line.NAMED + 1):
        bucket.put(f"raw/manual/{number:02}.json", "by hand")
    assert run("rebuild", "--dry-run") == 0
    said = capsys.readouterr().out
    assert "1 runs and imported files: 1 files would be written, 0 as they were, 1 would be" in said
    assert f"Would be removed, for no run and no import accounts for them: 1 ({stale})" in said
    assert stale in bucket.objects()
    assert run("rebuild") == 0
    said = capsys.readouterr().out
    assert "1 files written, 0 as they were, 1 removed" in said
    assert "not in the history: 21 (raw/manual/00.json, " in said
    assert "raw/manual/19.json and 1 more)" in said
    assert list(bucket.objects("history/")) == [key]


def test_a_rebuild_names_what_it_could_not_read(bucket, capsys):
    bucket.append(FIRST)
    bucket.put(f"runs/{slug(FIRST.run_id)}/prices.json", "{}")
    assert run("rebuild") == 0
    assert "is not of this release (" in capsys.readouterr().err


def test_files_of_several_tools_are_imported_at_once(bucket, capsys):
    assert run("import", PYTEST, GITHUB, ASV, "--target", "ci") == 0
    assert capsys.readouterr().out.splitlines() == [
        "pytest-benchmark.json: 2 measurements of 1 runs",
        "github-action-benchmark.js: 7 measurements of 2 runs; no times, so left out: "
        "1 in 'B/op', 1 in 'allocs/op', 1 in 'Percent'",
        f"{ASV.name}: 8 measurements of 1 runs; no times, so left out: "
        "1 in 'bytes', 1 in 'answers'",
    ]
    table = bucket.history.read(["target"], suites=["imported"])
    assert table["target"].to_pylist() == ["ci"] * 17
    before = bucket.objects()
    assert run("import", GITHUB, "--target", "ci", "--format", "github-action-benchmark") == 0
    assert bucket.objects() == before


def test_one_bad_file_keeps_all_others_out(bucket, capsys, tmp_path):
    bad = tmp_path / "bad.json"
    document = json.loads(GITHUB.with_suffix(".json").read_text())
    for entries in document["entries"].values():
        for entry in entries:
            entry["benches"] = [{"name": "size", "value": 5, "unit": "MB"}]
    bad.write_text(json.dumps(document))
    assert run("import", PYTEST, bad, "--target", "ci") == 1
    message = f"history import: {bad} holds no time and no rate of calls: 5 in 'MB'\n"
    assert capsys.readouterr().err == message
    assert bucket.objects() == {}


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"\xff\xfe", "is no text: "),
        (b"{}", "is of none of the formats "),
        (None, "No such file or directory"),
    ],
)
def test_what_cannot_be_imported_is_told_in_one_line(bucket, capsys, tmp_path, content, problem):
    path = tmp_path / "results.json"
    if content is not None:
        path.write_bytes(content)
    assert run("import", path, "--target", "ci") == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("history import: ")
    assert problem in line


def test_a_bucket_that_is_not_there_is_told_in_one_line(bucket, capsys):
    assert run("rebuild", bucket="no-such-bucket") == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("history rebuild: ")
    assert "NoSuchBucket" in line


def test_exports_go_where_they_are_told(bucket, capsys, tmp_path):
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


def test_it_runs_as_a_module():
    command = [sys.executable, "-m", "batchmark.history", "--help"]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert "{rebuild,import,export}" in told
