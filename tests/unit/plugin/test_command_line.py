"""The command `batchmark`: result documents compared, and a gate for CI."""

import os
import shutil
import subprocess
import sys

import pytest

from batchmark.command_line import BAD_INPUT, FAILED, main
from batchmark_job.result.document import Device, Implementation, MeasurementStatus
from batchmark_job.result.version import GivenVersion
from tests.builders.documents import REPEATS, repeats, stored
from tests.builders.files import program
from tests.builders.own_jobs import JobOn, left_by_try_job
from tests.builders.runs import LAPTOP_ENVIRONMENT, build_row
from tests.documented import BESIDE_PYTHON, arguments, the_block, the_command, typed
from tests.paths import DOCS

ON_CPU = {"environment": LAPTOP_ENVIRONMENT, "actual_device": Device.CPU}


@pytest.fixture
def old(tmp_path):
    return repeats(tmp_path / "old", 0.010)


@pytest.fixture
def compare(capsys):
    """Compares two sides; the exit code, and what was printed, as one line."""

    def compare(*sides_and_options):
        code = main(["compare", *map(str, sides_and_options)])
        return code, " ".join(capsys.readouterr().out.split())

    return compare


def test_what_got_slower_fails_the_gate_and_is_named(tmp_path, old, compare):
    new, summary = repeats(tmp_path / "new", 0.012), tmp_path / "summary.md"
    code, out = compare(old, new, "--gate", f"--markdown={summary}")
    assert code == FAILED
    said = "Gate failed: 1 row compared, 1 slower by 5 % or more, 0 missing"
    assert said in out
    assert "matmul size 1000, float32 (+20 %)" in out
    assert "1 row, new is faster in 0, slower in 1" in out
    assert summary.read_text().startswith(f"**{said}")
    assert "| slower (+20 %) |" in summary.read_text()


def test_versions_that_differ_are_named(tmp_path, compare):
    sides = [
        repeats(tmp_path / commit, seconds, version=GivenVersion(commit=commit + 33 * "0"))
        for commit, seconds in (("8ab0c11", 0.010), ("3f2a91c", 0.012))
    ]
    summary = tmp_path / "summary.md"
    _, out = compare(*sides, f"--markdown={summary}")
    assert "slower in 1 since 3f2a91c (8ab0c11 before)." in out
    assert "Differs: commit 8ab0c11 → 3f2a91c" in out
    assert "\nDiffers: commit 8ab0c11 → 3f2a91c\n" in summary.read_text()
    _, out = compare(sides[0], repeats(tmp_path / "other", 0.012))
    assert "before)" not in out


@pytest.mark.parametrize(
    ("seconds", "arguments"),
    [(0.010, []), (0.008, []), (0.0103, []), (0.012, ["--least-percent", "25"])],
)
def test_equal_faster_and_slightly_slower_pass(tmp_path, old, seconds, arguments, compare):
    code, out = compare(old, repeats(tmp_path / "new", seconds), "--gate", *arguments)
    assert code == 0
    assert "Gate passed: 1 row compared, 0 slower by" in out


def test_single_documents_are_compared_and_decide_little(tmp_path, old, compare):
    sides = old / "0.json", repeats(tmp_path / "new", 0.012, count=1) / "0.json"
    code, out = compare(*sides, "--gate")
    assert code == 0
    assert "Not known yet in 1 row: with 1 repeat per side, identical jobs may differ by up" in out
    assert out.endswith(
        "Gate passed, but it decided nothing (measure 6 or more repeats per side): 1 row "
        "compared, 0 slower by 5 % or more, 0 missing, 1 undecided (slower by at most 2.4×), 0 "
        "missing from the baseline; 1 repeat with 20 samples against the baseline's 1 repeat with "
        "20 samples."
    )
    code, out = compare(*sides, "--gate", "--require-decided")
    assert code == FAILED
    assert "Undecided: matmul size 1000, float32 Gate failed, as it decided nothing (meas" in out


@pytest.mark.parametrize(
    ("seconds", "loud"), [(0.75, True), (0.012, False), (0.0001, False)], ids=str
)
def test_too_few_samples_stand_out_if_far_slower(tmp_path, old, seconds, loud, compare):
    new, summary = tmp_path / "new_.json", tmp_path / "summary.md"
    stored(new, build_row([seconds] * 2))
    code, out = compare(old / "0.json", new, "--gate", f"--markdown={summary}")
    assert code == FAILED
    assert "measured by 1 job with 2 samples, against 1 job with 20 samples" in out
    assert "1 row has too few samples for an interval and can't be judged. Measure 6 or" in out
    assert "equal jobs may differ" not in out
    line = "_.json: matmul size 1000, float32 took 75 times as long: investigate this."
    assert (line in out) == loud
    assert (f"new\\{line}" in summary.read_text()) == loud


@pytest.mark.parametrize(
    ("sides", "baseline", "new"),
    [
        (("old/0.json", "new/0.json"), "old/0.json", "new/0.json"),
        (("old", "new"), "old", "new"),
        (("old/0.json", "old/1.json"), "0.json", "1.json"),
        (("old", os.fsdecode(b"new\xff")), "old", "new?"),  # whose name is no text
    ],
)
def test_the_sides_are_named_by_what_tells_them_apart(
    tmp_path, old, sides, baseline, new, compare, monkeypatch
):
    repeats(tmp_path / "new", 0.012)
    (tmp_path / os.fsdecode(b"new\xff")).symlink_to("new")
    monkeypatch.chdir(tmp_path)
    summary = tmp_path / "summary.md"
    code, out = compare(*sides, f"--markdown={summary}")
    assert code == 0
    assert "Gate" not in out
    assert f"1 row, {new} is faster" in out
    assert f"the time of {baseline} / the time of {new}." in summary.read_text().replace("\\", "")


def test_folders_of_other_names_have_the_same_figures(tmp_path, old, monkeypatch):
    told = []
    monkeypatch.setattr(
        "batchmark.command_line.render_comparison",
        lambda found, _: told.append(found.suites[0].rows[0].speedup),
    )
    new = repeats(tmp_path / "new", 0.0101)
    main(["compare", str(old), str(new)])
    main(["compare", str(old.rename(tmp_path / "a")), str(new.rename(tmp_path / "b"))])
    assert told[0] == told[1]


def test_a_gpu_target_that_ran_on_the_cpu_is_marked_and_never_a_rival(tmp_path, compare):
    before, on_cpu = (
        repeats(tmp_path / name, seconds, target="g5.xlarge", **ON_CPU)
        for name, seconds in (("old", 0.010), ("new", 0.012))
    )
    summary = tmp_path / "summary.md"
    code, out = compare(before, on_cpu, "--gate", f"--markdown={summary}")
    assert code == FAILED
    for text in (out, summary.read_text()):
        assert "g5.xlarge (ran on the CPU) in new is faster in 0, slower in 1" in text
    on_gpu = repeats(tmp_path / "gpu", 0.001, target="g6.xlarge", environment=LAPTOP_ENVIRONMENT)
    assert compare(on_gpu, on_cpu, "--gate")[0] == FAILED
    cpu = repeats(tmp_path / "cpu", 0.010, target="c5.2xlarge", **ON_CPU)
    for sides in ((on_cpu, cpu), (cpu, on_cpu)):
        _, out = compare(*sides)
        assert "Not comparable in 1 row: " in out
        code, gated = compare(*sides, "--gate")
        assert code == BAD_INPUT
        assert "Gate failed, as nothing was compared: 0 rows compared, " in gated
        assert "repeats" not in out
        assert "by chance alone" not in out


def test_the_table_fits_80_columns(tmp_path, old, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    main(["compare", str(old), str(repeats(tmp_path / "a-repository measured-again", 0.012))])
    out = capsys.readouterr().out
    assert max(map(len, out.splitlines())) <= 80
    assert "…" not in out
    assert [line for line in out.splitlines() if line.endswith(" slower")], "no word is cut"


def test_what_can_not_be_compared_fails_the_gate(tmp_path, old, compare):
    other = repeats(tmp_path / "other", 0.010, size=2000)
    code, out = compare(old, other, "--gate")
    assert code == FAILED
    assert "Nothing was compared: no row in common." in out
    assert "Missing: matmul size 1000, float32: not among its rows" in out
    assert "Gate failed, as nothing was compared: 0 rows compared" in out
    assert compare(old, other, "--gate", "--allow-missing")[0] == BAD_INPUT
    mixed = repeats(tmp_path / "mixed", 0.010, count=1)
    newer = Implementation(name="torch", version="9")
    stored(mixed / "newer.json", build_row([0.01] * 20, implementation=newer), repeat=2)
    code, out = compare(old, mixed, "--gate")
    assert code == FAILED
    assert "Nothing was compared: no row could be compared." in out


def test_the_same_document_on_both_sides_is_refused(tmp_path, old, capsys):
    new = repeats(tmp_path / "new", 0.012, count=2)
    copy = new / "copy.json"
    copy.write_text((old / "1.json").read_text())
    for sides, says in (
        ((old / "0.json", old / "0.json"), "both sides are the same document; compare"),
        ((old, old), "both sides are the same documents; compare"),
        ((old, new), f"{old}/1.json and {copy} contain documents from the same job, old/1, "),
    ):
        assert main(["compare", *map(str, sides)]) == BAD_INPUT
        assert says in capsys.readouterr().err


@pytest.mark.parametrize("seconds", [0.010, 0.012])
def test_nobody_needs_to_read_the_table(tmp_path, old, seconds, capfd, monkeypatch):
    new = repeats(tmp_path / "new", seconds)
    ours, its = os.pipe()
    os.close(ours)
    with os.fdopen(its, "w") as stdout:  # flushed in the end, as an interpreter's is
        monkeypatch.setattr(sys, "stdout", stdout)
        code = main(["compare", str(old), str(new), "--gate"])
    assert (code, capfd.readouterr().err) == (FAILED if seconds > 0.01 else 0, "")


def test_bad_input_is_one_line_with_the_fix(tmp_path, old, capsys):
    empty = tmp_path / "empty"
    empty.mkdir()
    (tmp_path / "broken.json").write_text("{")
    (tmp_path / "report.json").write_text('{"report_version": 3}')
    mixed = repeats(tmp_path / "mixed", 0.010, count=1)
    stored(mixed / "x.json", build_row([1.0]), target="other")
    for path, says in (
        (empty, "contains no .json file"),
        (tmp_path / "broken.json", "broken.json: not a result document: invalid JSON"),
        (tmp_path / "report.json", "report.json is a report; specify the result documents in raw/"),
        (mixed, "contains documents from several targets (local, other)"),
    ):
        assert main(["compare", str(old), str(path)]) == BAD_INPUT
        error = capsys.readouterr().err
        assert says in error
        assert error.count("\n") == 1
    with pytest.raises(SystemExit):
        main(["compare", str(old), str(old), "--least-percent", "-1"])


@pytest.mark.parametrize("count", [1, 2, 3, 4, 6])
def test_no_number_of_repeats_decides_less_than_one(tmp_path, count, compare):
    """Seen with three: a slow-down by four, of jobs that differ by 18 %, passed."""
    for name, medians in (
        ("old", (5.90, 5.76, 5.60, 5.7, 5.8, 5.9)),
        ("new", (26.1, 23.9, 18.4, 24, 25, 26)),
    ):
        for repeat, median in enumerate(medians[:count]):
            stored(tmp_path / name / f"{repeat}.json", build_row([median / 1000] * 20))
    assert compare(tmp_path / "old", tmp_path / "new", "--gate")[0] == FAILED


@pytest.mark.parametrize(
    ("options", "percent"),
    [([], 10), (["--gate"], 5), (["--gate", "--least-percent=7"], 7)],
)
def test_repeats_are_advised_for_what_the_gate_asks(tmp_path, options, percent, compare):
    sides = [tmp_path / "old", tmp_path / "new"]
    for side in sides:
        for repeat, median in enumerate((9.4, 10.6, 10.0, 9.7, 10.3, 10.1)):
            row = build_row([median / 1000] * 20)
            stored(side / f"{repeat}.json", row, run_id=side.name, repeat=repeat + 1)
    _, out = compare(*sides, *options)
    assert f"repeats per side to find nearly every difference of {percent} %, or use" in out


def test_what_is_not_known_beside_a_decided_row_is_counted(tmp_path, compare):
    old, new = (repeats(tmp_path / name, 0.01) for name in ("old", "new"))
    for side in (old, new):
        rows = [build_row([0.01] * 20), build_row([0.01] * 2, parameters={"size": 7})]
        stored(side / "0.json", *rows, run_id=side.name)
    for options, expected in (([], 0), (["--require-decided"], FAILED)):
        code, out = compare(old, new, "--gate", *options)
        assert code == expected
        assert ("Undecided: matmul size 7, float32 Gate failed: 2 rows" in out) == bool(options)
        passed = "Gate passed, but 1 row is undecided: 2 rows"
        assert (passed in out) == (not options)
        assert "2 rows compared, 0 slower by 5 % or more, 0 missing, 1 undecided" in out


def test_a_workload_measured_by_itself_is_compared_with_its_suite(tmp_path, compare):
    row = build_row([0.01] * 20)
    code, out = compare(
        *(stored(tmp_path / f"{suite}.json", row, suite=suite) for suite in ("own", "custom"))
    )
    assert code == 0
    assert "suite own" in out


def test_repeats_without_a_settled_figure_are_named(tmp_path, old, compare):
    new = repeats(tmp_path / "new", 0.001, count=1)
    stored(new / "1.json", build_row([0.02] * 20))
    drifting = {"status": MeasurementStatus.UNSETTLED, "reason": "it drifts"}
    stored(new / "2.json", build_row([0.5] * 20, **drifting))
    _, out = compare(old, new)
    assert "with 2 repeats per side, identical jobs may differ by more than tenfold." in out
    assert "In 1 of these, repeats that did not settle were excluded." in out


def test_the_lines_of_readme_and_recipe_compare_two_folders(tmp_path, capsys, monkeypatch):
    repeats(tmp_path / "old", 0.010)
    repeats(tmp_path / "new", 0.010)
    monkeypatch.chdir(tmp_path)
    places = {"BASELINE": "old", "NEW": "new"}
    for start in (".venv/bin/batchmark compare ", "batchmark compare BASELINE NEW --gate"):
        assert main([places.get(word, word) for word in arguments(the_command(start))]) == 0
        assert "Gate passed: 1 row compared" in capsys.readouterr().out


MAKE = """
new="JOBS=$PWD/mine/job.tfvars COMMIT=$(git rev-parse HEAD)"
old="BASELINE=$PWD/old/mine/job.tfvars BASELINE_COMMIT=$(git rev-parse main)"
test "$*" = "-C batchmark try-job $new $old REPEATS=15"
mkdir -p batchmark/build
cp -R documents batchmark/build/try-job
cat "${6#BASELINE=}" "${4#JOBS=}" >> given
"""


def test_the_script_for_an_own_job_fails_where_it_is_slower_than_on_main(tmp_path):
    """In a shell, with a stand-in for what measures; GitLab and Jenkins call it alike."""
    program(tmp_path / "make", f"set -e{MAKE}")
    clone = tmp_path / "clone"
    file = clone / "mine" / "job.tfvars"
    file.parent.mkdir(parents=True)

    def git(*words):
        author = ("-c", "user.name=Ada", "-c", "user.email=ada@example.org")
        subprocess.run(["git", *author, *words], cwd=clone, check=True)

    git("init", "-q", "-b", "main")
    git("remote", "add", "origin", ".")
    for version in ("main", "branch"):
        file.write_text(f"# {version}\n")
        git("add", "mine")
        git("commit", "-q", "-m", version)
        git("checkout", "-q", "-B", "work")
    (clone / "batchmark" / ".venv").mkdir(parents=True)
    (clone / "batchmark" / ".venv" / "bin").symlink_to(BESIDE_PYTHON)
    env = os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    script = clone / "benchmark.sh"
    script.write_text("\n".join(the_block("git fetch -q origin main")))
    assert (DOCS / "ci-gate.md").read_text().count("sh -e benchmark.sh") == 3
    for start_up, code, said in (
        (10.0, 0, "Gate passed: 4 rows compared, "),
        (20.0, FAILED, "Gate failed: 4 rows compared, 4 slower by 5 %"),
    ):
        documents = clone / "documents"
        shutil.rmtree(documents, ignore_errors=True)
        shutil.rmtree(clone / "batchmark" / "build", ignore_errors=True)
        for name, seconds in (("baseline", 10.0), ("new", start_up)):
            side = JobOn(name, start_up=seconds, environment=LAPTOP_ENVIRONMENT)
            left_by_try_job(documents, side, repeats=REPEATS)
        done = subprocess.run(
            ["sh", "-e", script.name],
            cwd=clone,
            env=env,
            stdout=subprocess.PIPE,
            text=True,
            check=False,
        )
        for words in (said, "Of 4 rows, new is "):
            assert words in " ".join(done.stdout.split())
        assert done.returncode == code
    # On GitHub the action judges, if all was measured.
    step = ["sh", "-ec", the_command("test -d batchmark || git clone")]
    for broken in (False, True):
        shutil.rmtree(clone / "batchmark" / "build")
        if broken:
            shutil.rmtree(documents)
        done = subprocess.run(step, cwd=clone, env=env, stdout=subprocess.DEVNULL, check=False)
        assert bool(done.returncode) == broken
    assert (clone / "given").read_text() == "# main\n# branch\n" * 3


STAND_INS = {
    "uv": 'echo "$@" >> installed',
    "batchmark-job": """
        while [ "$1" != --output ]; do shift; done
        mkdir -p "$(dirname "$2")" && cp "documents/$2" "$2"
        echo "$BATCHMARK_WORKLOADS" >> workloads""",
}


def test_the_steps_of_the_recipe_measure_in_turns_and_pass_the_gate(tmp_path):
    """In a shell, with stand-ins for what installs and measures."""
    programs = tmp_path / "batchmark" / ".venv" / "bin"
    programs.mkdir(parents=True)
    for name, script in STAND_INS.items():
        program(programs / name, script)
    (programs / "batchmark").symlink_to(BESIDE_PYTHON / "batchmark")
    documents = tmp_path / "documents"
    documents.mkdir()
    for side in ("old", "new"):
        folder = repeats(documents / f"{side}-results", 0.010)
        for number in range(REPEATS, 0, -1):
            (folder / f"{number - 1}.json").rename(folder / f"{number}.json")
    steps = (
        "batchmark/.venv/bin/uv pip install ",
        "for n in 1 2 3 4 5 6; do",
        "batchmark/.venv/bin/batchmark compare old-results new-results",
    )
    env = {"GITHUB_STEP_SUMMARY": "summary.md"}
    *_, said = [typed(the_command(step), tmp_path, env) for step in steps]
    assert "Gate passed: 1 row compared" in said
    assert (tmp_path / "summary.md").read_text().startswith("**Gate passed")
    last = [line.split()[-1] for line in (tmp_path / "installed").read_text().splitlines()]
    assert last == ["./new", *("./old", "./new") * REPEATS]
    assert set((tmp_path / "workloads").read_text().split()) == {f"{tmp_path}/new/benchmarks"}
