"""The gate in CI: what was not measured doesn't pass, and the last line counts all."""

import re

import pytest

from batchmark.command_line import BAD_INPUT, FAILED, main
from batchmark_job.result.document import Implementation, MeasurementStatus
from tests.builders.documents import REPEATS, samples_of, stored
from tests.builders.own_jobs import JobOn, left_by_try_job, with_output
from tests.builders.runs import LAPTOP_ENVIRONMENT, build_row

KEPT, JUDGED = {"size": 1}, {"size": 2}
ROW = "matmul size 2, float32"
SKIPPED = {"status": MeasurementStatus.SKIPPED, "reason": "no memory"}
FAILED_ROW = {"status": MeasurementStatus.FAILED, "reason": "CUDA error"}
UNSETTLED = {"status": MeasurementStatus.UNSETTLED, "reason": "it drifts"}
TORCH_9 = {"implementation": Implementation(name="torch", version="9")}
GONE = None


def row(repeat, parameters, seconds=0.01, **fields):
    return build_row(samples_of(seconds, repeat), parameters=parameters, **fields)


def side(folder, changed=None, *, count=REPEATS, **fields):
    """A folder of repeats with two rows; of the second, `changed` has fields by repeat, or GONE."""
    for repeat in range(count):
        rows = [row(repeat, KEPT)]
        change = (changed or {}).get(repeat, {})
        if change is not GONE:
            rows.append(row(repeat, JUDGED, **change))
        stored(folder / f"{repeat}.json", *rows, repeat=repeat + 1, **fields)
    return folder


@pytest.fixture
def gate(tmp_path, capsys):
    """Holds a new side against a baseline; the exit code, and the lines behind the table's."""

    def gate(new, *options, old=None):
        sides = (str(side(tmp_path / "old", **(old or {}))), str(side(tmp_path / "new", **new)))
        code = main(["compare", *sides, "--gate", *options])
        return code, capsys.readouterr().out.splitlines()

    return gate


def in_all(change):
    return dict.fromkeys(range(REPEATS), change)


@pytest.mark.parametrize(
    ("new", "old", "why"),
    [
        ({"changed": in_all(FAILED_ROW)}, {}, "failed: CUDA error"),
        ({"changed": in_all(FAILED_ROW)}, {"changed": {1: TORCH_9}}, "failed: CUDA error"),
        ({"changed": in_all(SKIPPED)}, {}, "skipped: no memory"),
        ({"changed": in_all(UNSETTLED)}, {}, "unsettled: it drifts"),
        ({"changed": in_all(GONE)}, {}, "not among its rows"),
        (
            {"changed": dict.fromkeys(range(1, REPEATS), FAILED_ROW)},
            {},
            "measured by 1 job with 20 samples, against 6 jobs with 120 samples; "
            "failed: CUDA error",
        ),
        ({"changed": {3: SKIPPED}}, {}, "by 5 jobs with 100 samples, against 6 jobs"),
        ({"changed": {3: GONE}}, {}, "by 5 jobs with 100 samples, against 6 jobs"),
        ({"changed": {8: FAILED_ROW}, "count": 9}, {}, "by 8 jobs with 160 samples, against 6"),
        ({"changed": {3: FAILED_ROW}}, {"count": 1}, "against 1 job with 20 samples; failed:"),
        ({"changed": dict.fromkeys(range(4), UNSETTLED)}, {}, "by 2 jobs with 40 samples, against"),
        ({"changed": {1: TORCH_9}}, {}, "its jobs used different implementations"),
    ],
)
def test_a_row_that_the_baseline_measured_and_the_new_side_did_not_fails(gate, new, old, why):
    code, lines = gate(new, old=old)
    *_, said, last = lines
    assert code == FAILED
    assert said.startswith(f"Missing: {ROW}: ")
    assert why in said
    assert last.startswith("Gate failed: ")
    assert ", 1 missing, " in last
    code, lines = gate(new, "--allow-missing", old=old)
    assert (code, lines[-2]) == (0, said)
    assert ", 1 missing (allowed), " in lines[-1]


@pytest.mark.parametrize(
    ("new", "old", "counts"),
    [
        ({}, {}, "0 missing, 0 undecided, 0 missing from the baseline; 6 repeats"),
        ({"changed": {3: UNSETTLED}}, {}, "0 missing, 0 undecided, 0 missing from the baseline"),
        (
            {"count": 12},
            {},
            "12 repeats with 480 samples against the baseline's 6 repeats with 240 samples.",
        ),
        (
            {},
            {"count": 12},
            "6 repeats with 240 samples against the baseline's 12 repeats with 480 samples.",
        ),
        ({"changed": {3: SKIPPED}}, {"changed": {3: SKIPPED}}, "0 missing from the baseline"),
        ({}, {"changed": {3: SKIPPED}}, "0 missing, 0 undecided, 1 missing from the baseline"),
        ({}, {"changed": in_all(GONE)}, "0 missing, 0 undecided, 1 missing from the baseline"),
        ({"status": "interrupted"}, {}, "6 repeats, 6 of them interrupted, with 240 samples"),
    ],
)
def test_what_is_no_less_than_in_the_baseline_passes_and_is_counted(gate, new, old, counts):
    code, (*_, last) = gate(new, old=old)
    assert code == 0
    assert last.startswith("Gate passed: ")
    assert counts in last


@pytest.mark.parametrize(("status", "expected"), [("complete", 0), ("interrupted", FAILED)])
def test_jobs_that_were_interrupted_before_a_row_have_lost_it(tmp_path, gate, status, expected):
    """However many others measured it; a job that ran to its end without it had none to measure."""
    for repeat in range(REPEATS, REPEATS + 3):
        file = tmp_path / "new" / f"{repeat}.json"
        stored(file, row(repeat, KEPT), repeat=repeat + 1, status=status)
    code, lines = gate({})
    assert code == expected
    why = "against 6 jobs with 120 samples; 3 jobs interrupted before this row"
    assert any(line.endswith(why) for line in lines) == bool(expected)


def test_a_document_that_is_gone_leaves_too_little(gate):
    code, lines = gate({"count": REPEATS - 1})
    assert code == FAILED
    assert [line for line in lines if line.startswith("Missing: ")] == [
        f"Missing: matmul size {size}, float32: "
        "measured by 5 jobs with 100 samples, against 6 jobs with 120 samples"
        for size in (1, 2)
    ]
    assert lines[-1].startswith("Gate failed: 2 rows compared, 0 slower by 5 % or more, 2 missing")


def test_a_suite_that_is_gone_is_missing(tmp_path, gate):
    stored(tmp_path / "old" / "smoke.json", row(0, JUDGED), suite="smoke")
    code, lines = gate({})
    assert code == FAILED
    assert lines[-2] == f"Missing: {ROW}: suite smoke was not measured"


def test_where_no_suite_is_left_each_row_is_named(tmp_path, gate, capsys):
    code, lines = gate({"suite": "smoke"})
    assert code == FAILED
    assert lines[-3] == "Missing: matmul size 1, float32: suite blog was not measured"
    assert lines[-1].startswith("Gate failed, as nothing was compared: 0 rows compared")
    assert gate({"suite": "smoke"}, "--allow-missing")[0] == BAD_INPUT
    assert main(["compare", str(tmp_path / "old"), str(tmp_path / "new")]) == BAD_INPUT
    assert "no suite in common" in capsys.readouterr().err


def test_a_side_that_mixes_environments_hides_no_row(gate, tmp_path):
    """One suite can be compared, so the other one must not be forgotten."""
    for name in ("old", "new"):
        stored(tmp_path / name / "smoke.json", row(0, JUDGED), suite="smoke")
    other = stored(tmp_path / "new" / "other.json", row(1, JUDGED), suite="smoke")
    other.write_text(other.read_text().replace("Platinum 8124M", "Platinum 8375C"))
    code, lines = gate({})
    assert code == FAILED
    assert "ran in different environments" in lines[-2]


def test_jobs_by_hand_that_started_together_are_several(tmp_path, gate):
    """A start is known to 10 ms, so those of parallel jobs may be equal."""
    for seconds, name in enumerate(("old/a", "old/b", "new/a", "new/b"), start=1):
        stored(tmp_path / f"{name}.json", row(0, KEPT), job_id="local", total_seconds=seconds)
    assert gate({})[0] == 0


@pytest.mark.parametrize(
    ("new", "says"),
    [({"job_id": "one"}, "job, one, started"), ({"job_id": "local"}, "job, started")],
)
def test_one_document_copied_is_no_repeat(tmp_path, capsys, new, says):
    """What a job by hand calls itself is no id: its documents are told apart by their start."""
    old, folder = side(tmp_path / "old", job_id="local"), tmp_path / "new"
    first = side(folder, count=1, **new) / "0.json"
    for number in range(1, REPEATS):
        (folder / f"{number}.json").write_text(first.read_text())
    assert main(["compare", str(old), str(folder), "--gate"]) == BAD_INPUT
    error = capsys.readouterr().err
    assert f"{first} and {folder}/1.json contain documents of the same {says}" in error


@pytest.mark.parametrize(
    ("target", "start_up", "count", "expected", "said"),
    [
        ("c5.2xlarge", 10.0, 6, 0, "passed: "),
        ("c5.2xlarge", 20.0, 6, FAILED, "failed: "),
        ("g4dn.xlarge", 20.0, 6, FAILED, "failed: "),
        ("c5.2xlarge", 20.0, 3, 0, "passed, but it decided nothing (measure 6 or more repeats per"),
    ],
)
def test_own_jobs_are_compared_as_try_job_leaves_them(
    tmp_path, capsys, target, start_up, count, expected, said
):
    raw = [
        left_by_try_job(
            tmp_path / name,
            JobOn(target, start_up=seconds, environment=LAPTOP_ENVIRONMENT, actual_device="cpu"),
            run_id=name,
            repeats=count,
        )
        for name, seconds in (("old", 10.0), ("new", start_up))
    ]
    code = main(["compare", *(f"{side}/{side.parent.name}/{target}" for side in raw), "--gate"])
    lines = capsys.readouterr().out.splitlines()
    assert code == expected
    slower = [line for line in lines if line.startswith("Slower: thumbnails size 64 (")]
    assert len(slower) == bool(expected)
    assert all(re.search(r"\(\+\d+ % \[\+\d+ %, \+\d+ %\]\)$", line) for line in slower), slower
    assert lines[-1].startswith(f"Gate {said}")
    assert ": 4 rows compared, " in lines[-1]
    undecided = 0 if count == REPEATS else 4
    assert f", 0 missing, {undecided} undecided, 0 missing from the baseline; " in lines[-1]
    assert f" {2 * count + 1} jobs ({count} to {count + 1} for each of 2 sizes)" in lines[-1]


@pytest.mark.parametrize(
    ("is_wanted", "options", "expected", "said"),
    [
        (False, (), FAILED, "failed, as nothing was compared: 0 rows compared"),
        (False, ("--allow-missing",), BAD_INPUT, "failed, as nothing was compared: 0 rows"),
        (True, (), 0, "passed: 4 rows compared"),
    ],
)
def test_a_version_with_another_output_passes_only_if_its_owner_wants_that_output(
    tmp_path, capsys, is_wanted, options, expected, said
):
    sides = [
        left_by_try_job(
            tmp_path / name,
            JobOn("c5.2xlarge", start_up=seconds),
            run_id=name,
            repeats=6,
            check=with_output(sha256, is_wanted_sha256=is_wanted),
        )
        for name, seconds, sha256 in (("old", 10.0, "a" * 64), ("new", 5.0, "b" * 64))
    ]
    folders = (f"{side}/{side.parent.name}/c5.2xlarge" for side in sides)
    assert main(["compare", *folders, "--gate", *options]) == expected
    *lines, last = " ".join(capsys.readouterr().out.split()).split(" Gate ")
    assert last.startswith(said)
    assert ", 0 missing from the baseline; " in last
    differ = "thumbnails size 64: the sides' outputs differ; by SHA-256, c5.2xlarge in new/"
    assert (f"Missing: {differ}" in lines[0]) == (f"Not compared: {differ}" in lines[0])
    assert (differ in lines[0]) == (not is_wanted)


def test_beside_a_metric_of_a_long_unit_no_verdict_is_cut_at_80_columns(
    tmp_path, capsys, monkeypatch
):
    monkeypatch.setenv("COLUMNS", "80")
    told = {("throughput", "products/s", "higher"): (13.3,)}
    sides = [
        left_by_try_job(tmp_path / name, JobOn("c5.2xlarge"), run_id=name, repeats=15, told=told)
        for name in ("old", "new")
    ]
    assert main(["compare", *(f"{one}/{one.parent.name}/c5.2xlarge" for one in sides)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if line.endswith("new is")]
    assert len([line for line in lines if line.endswith(" difference")]) == 4
