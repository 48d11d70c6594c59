"""`python -m batchmark.history import`: what it takes, refuses and says."""

import gzip
import json
import os

import pytest

from batchmark.analysis.published import TABLE
from batchmark.core.names import cut_to_length
from batchmark.history import __main__ as command_line
from tests.builders.history import BUCKET, run_history
from tests.builders.imported_files import ASV, GITHUB, GITHUB_JSON, GOOGLE, PYTEST, imported

JOIN = "tests/test_sorting.py::test_join"


def import_files(*words):
    """Of the target ci; the exit code."""
    return run_history("import", *words, "--target", "ci")


def test_files_of_several_tools_are_imported_at_once(bucket, capsys):
    assert import_files(PYTEST, GITHUB, ASV) == 0
    left_out = "left out, as they are neither times nor rates: 1 in"
    assert capsys.readouterr().out.splitlines() == [
        "pytest-benchmark.json: 2 measurements of 1 run",
        f"{GITHUB.name}: 7 measurements of 2 runs; 1 lost; {left_out} 'B/op', 1 in 'allocs/op'",
        f"{ASV.name}: 5 measurements of 1 run; 1 skipped; 2 lost; "
        f"{left_out} 'bytes', 1 in 'answers'",
    ]
    table = bucket.history.read(["target"], suites=["imported"])
    assert table["target"].to_pylist() == ["ci"] * 18
    before = bucket.objects()
    assert import_files(GITHUB, "--format", "github-action-benchmark") == 0
    assert bucket.objects() == before


def test_a_bad_file_keeps_all_others_out(bucket, capsys, tmp_path):
    bad = tmp_path / "bad.json"
    document = json.loads(GITHUB_JSON.read_text())
    for entries in document["entries"].values():
        for entry in entries:
            entry |= {"tool": "cargo", "benches": [{"name": "size", "value": 5, "unit": "MB"}]}
    bad.write_text(json.dumps(document))
    assert import_files(PYTEST, bad) == 1
    message = f"history import: {bad} contains neither a time nor a rate: 5 in 'MB'\n"
    assert capsys.readouterr().err == message
    assert bucket.objects() == {}


def changed(path, **changes):
    """The text of an example with other values at its top."""
    return json.dumps(json.loads(path.read_text()) | changes)


WIDE = b"name,value,unit\na,1,%s\n" % (b"s" * 200_000)
CORRECT_IT = "; correct the file or omit it"


@pytest.mark.parametrize(
    ("content", "problem", "remedy"),
    [
        (None, "No such file or directory: ", ""),
        (b"\xff\xfe", "is not UTF-8 text: ", "; save it as UTF-8"),
        (b"{}", "is not in a supported format (", ""),
        (b'{"machine_info": {}}', "can't be read as pytest-benchmark: ", CORRECT_IT),
        (b"[" * 100_000, "is not valid JSON: maximum recursion depth", CORRECT_IT),
        (WIDE, "is not valid CSV: line 2: field larger than", CORRECT_IT),
    ],
)
def test_an_unreadable_file_keeps_all_files_out(bucket, capsys, tmp_path, content, problem, remedy):
    bad = tmp_path / "bad.json"
    if content is not None:
        bad.write_bytes(content)
    assert import_files(PYTEST, bad) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("history import: ")
    assert problem in line
    assert "bad.json" in line
    assert line.endswith(remedy)
    assert bucket.objects() == {}


@pytest.mark.parametrize("path", [PYTEST, ASV])
def test_a_file_without_a_date_needs_one(bucket, capsys, tmp_path, path):
    bad = tmp_path / "bad.json"
    bad.write_text(changed(path, date=None, datetime="0001-01-01T00:00:00+14:00"))
    assert import_files(bad) == 1
    assert "it has no date: set one with --date" in capsys.readouterr().err
    assert import_files(bad, "--date", "2026-11-28") == 0
    assert set(bucket.history.read(["recorded_at"])["month"].to_pylist()) == {"2026-11"}


@pytest.mark.parametrize(
    ("option", "given", "problem"),
    [
        *(
            ("--date", given, f"the date is '{given}', not a date ")
            for given in ("yesterday", "2200-01-01", "0001-01-01T00:00:00+14:00")
        ),
        *(("--target", given, f"{given!a} is blank or contains") for given in ("", " ", "\udcff")),
    ],
)
def test_an_option_that_makes_no_sense_is_refused(bucket, capsys, option, given, problem):
    with pytest.raises(SystemExit) as ended:
        import_files(PYTEST, option, given)
    assert ended.value.code == 2
    assert f"argument {option}: {problem}" in capsys.readouterr().err


def test_a_commit_is_given_to_what_has_none_and_a_target_to_what_names_no_machines(bucket, capsys):
    assert import_files(GOOGLE, PYTEST, "--commit", "abc123") == 0
    run_ids = bucket.history.read(["run_id"])["run_id"].to_pylist()
    commits = {run_id.partition("__")[0] for run_id in run_ids}
    assert commits == {"abc123", "0f3c1a5e9d2b4c6f8a7e1d0c9b8a7f6e5d4c3b2a"}
    assert run_history("import", PYTEST) == 1
    assert "specify it, for example with --target ci-runner" in capsys.readouterr().err
    assert run_history("import", TABLE) == 0
    assert capsys.readouterr().out == "published.json: 14 measurements of 1 run; 2 lost\n"


def test_what_lies_beside_asvs_results_is_skipped(bucket, capsys, tmp_path):
    beside = [*ASV.parent.glob("*.json"), ASV.parent.parent / "benchmarks.json"]
    assert len(beside) == 3
    assert import_files(*beside) == 0
    out, err = capsys.readouterr()
    assert out.startswith(f"{ASV.name}: 5 measurements")
    assert "skipped, because these asv files contain no results: " in err
    before = bucket.objects()
    assert import_files(ASV.parent) == 0
    assert bucket.objects() == before
    assert import_files(tmp_path) == 1
    assert f"{tmp_path} contains no .json files" in capsys.readouterr().err
    assert import_files(ASV.parent / "machine.json") == 1
    assert "import those next to machine.json" in capsys.readouterr().err


def test_only_so_many_losses_are_named(bucket, capsys, tmp_path):
    path = tmp_path / "many.csv"
    path.write_text("name,value,unit\ngood,1,s\n" + "".join(f"b{n},-,s\n" for n in range(25)))
    assert import_files(path, "--date", "2026-11-28") == 0
    out, err = capsys.readouterr()
    assert out == "many.csv: 1 measurement of 1 run; 25 lost\n"
    named = [f"many.csv: line {n} 'b{n - 3}': value is '-', not a number" for n in range(3, 23)]
    assert err.splitlines() == [*named, "many.csv: and 5 more"]


def test_a_file_may_be_gzipped_and_of_any_name(bucket, capsys, tmp_path):
    path = tmp_path / "bench.json.gz"
    path.write_bytes(gzip.compress(PYTEST.read_bytes()))
    assert import_files(path) == 0
    assert capsys.readouterr().out == "bench.json.gz: 2 measurements of 1 run\n"
    before = bucket.objects()
    assert import_files(PYTEST) == 0  # the same content under another name
    after = bucket.objects()
    assert after.keys() == before.keys()
    assert [key for key in after if after[key] != before[key]] == [imported(PYTEST).key]
    path.write_bytes(path.read_bytes()[:-20])
    assert import_files(path) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"history import: {path} can't be decompressed: ")
    path = tmp_path / os.fsdecode(b"\xff.json")
    path.write_bytes(PYTEST.read_bytes())
    assert import_files(path) == 0
    assert capsys.readouterr().out.startswith("\ufffd.json: 2 measurements")


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_a_file_has_a_limit(capsys, tmp_path, monkeypatch, pack):
    monkeypatch.setattr(command_line, "MOST_BYTES", 2**20)
    path = tmp_path / "endless"
    path.write_bytes(pack(bytes(2**20 + 1)))
    assert import_files(path) == 1
    message = f"history import: {path} exceeds the limit of 1 MiB\n"
    assert capsys.readouterr().err == message


def test_figures_of_two_files_are_not_pooled_in_one_run(bucket, capsys, tmp_path):
    """Such as those of two machines under one target's name."""
    other = tmp_path / "other.json"
    document = json.loads(PYTEST.read_text())
    document["benchmarks"][1]["stats"]["median"] = 1.01e-5
    other.write_text(json.dumps(document))
    assert import_files(PYTEST, other) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert f"{other} contains a different figure for '{JOIN}' on ci in run 0f3c1a5e" in line
    assert f" than {PYTEST}: import it with a different --target, " in line
    assert bucket.objects() == {}
    assert import_files(PYTEST) == 0
    before = bucket.objects()
    assert import_files(other) == 1
    assert f"than s3://{BUCKET}/imports/" in capsys.readouterr().err
    assert bucket.objects() == before
    assert run_history("import", other, "--target", "other") == 0
    other.write_text(PYTEST.read_text() + "\n")  # the same figures, as where a file has grown
    assert import_files(PYTEST, other) == 0


def test_an_asv_parameter_nested_too_deeply_stays_a_string(bucket, tmp_path):
    deep = "-" * 100_000 + "1"
    path = tmp_path / "asv.json"
    path.write_text(changed(ASV, results={"time_sort": [[1.0], [[deep]]]}))
    assert import_files(path) == 0
    (parameters,) = bucket.history.read(["parameters"])["parameters"].to_pylist()
    assert json.loads(parameters) == {
        "param1": cut_to_length(deep, 300),
        "env": "virtualenv-py3.11-numpy",
    }
