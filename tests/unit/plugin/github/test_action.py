"""action.yml's steps in bash, on a GitHub that is a stand-in: what a main branch and its pull
requests see."""

import json
import re
import subprocess
from functools import partial

import pytest

from batchmark.github import comment, programs
from batchmark_job.result.document import MeasurementStatus
from tests.builders.documents import repeats, stored
from tests.builders.files import program
from tests.builders.own_jobs import JobOn, left_by_try_job
from tests.builders.runs import CPU_ENVIRONMENT, LAPTOP_ENVIRONMENT, build_row
from tests.documented import BESIDE_PYTHON
from tests.paths import DOCS
from tests.workflow import ACTION, FORK, Workflow

SLOWER = "**Gate failed: 1 row compared, 1 slower by 5 % or more"
PASSED = "**Gate passed: 1 row compared, 0 slower"
ROW = "matmul size 1000, float32"


@pytest.fixture
def workflow(tmp_path):
    return Workflow(tmp_path)


def measuring(workflow, run, /, seconds=0.010, fields=(), **inputs):
    """A run whose jobs take so long."""
    workflow.documents = workflow.folder / f"documents-{workflow.runs}"
    repeats(workflow.documents, seconds, **dict(fields))
    return run(**inputs)


@pytest.fixture
def push(workflow):
    return partial(measuring, workflow, workflow.push)


@pytest.fixture
def pull_request(workflow):
    return partial(measuring, workflow, workflow.pull_request)


@pytest.fixture
def main_branch(push):
    """Which has a baseline."""
    return push()


def test_a_pull_request_is_compared_with_it_and_a_second_push_renews_the_comment(
    workflow, main_branch, pull_request
):
    told = "**no baseline yet**, so nothing was compared. The next successful"
    assert told in main_branch.summary
    assert (main_branch.code, main_branch.artifact) == (0, "batchmark-baseline")
    assert len(list((workflow.folder / "1" / "batchmark-baseline").iterdir())) == 6
    assert workflow.comments == []
    first = pull_request()
    assert first.code == 0
    assert first.artifact == "batchmark-results"
    assert (first.folder / "commit").read_text() == "feedface" * 5 + "\n"
    (comment,) = workflow.comments
    assert comment.startswith("<!-- batchmark: batchmark -->\r\n### Batchmark: batchmark\r\n")
    assert PASSED in comment
    assert "Baseline: [main at aaaaaa1](https://github.example/runs/1)." in comment
    assert "New: [feedfac](https://github.example/owner/library/actions/runs/2)." in comment
    assert PASSED in first.summary
    second = pull_request(0.012)
    assert second.code == 1
    (comment,) = workflow.comments
    example = re.findall("^> (.*)$", (DOCS / "ci-gate.md").read_text(), re.MULTILINE)
    assert len(example) == 5
    written = comment.replace("\r", "").splitlines()
    for line in example:
        assert any(one.startswith(line.removesuffix(" …**")) for one in written), line
    for told in (comment, second.summary):
        assert SLOWER in told
        assert f"Slower: {ROW} (+20 %)" in told
    assert PASSED not in comment


def test_what_main_accepts_is_the_next_baseline_also_on_a_schedule(main_branch, push, pull_request):
    accepted = push(0.012, event="schedule", payload={"schedule": "0 0 * * *"})  # of no branch
    assert (accepted.code, accepted.artifact) == (0, "batchmark-baseline")
    assert SLOWER in accepted.summary
    assert "[main at aaaaaa1]" in accepted.summary
    after = pull_request(0.012)
    assert after.code == 0
    assert "[main at aaaaaa2]" in after.summary


def test_a_forks_token_writes_no_comment_and_the_summary_stays(workflow, main_branch, pull_request):
    outcome = pull_request(fork=True)
    assert outcome.code == 0
    assert workflow.comments == []
    assert outcome.log.count("No comment was posted, because the job's token lacks permission") == 1
    assert PASSED in outcome.summary


def test_only_a_passed_run_of_the_main_branch_is_a_baseline(workflow, main_branch, pull_request):
    """A fork's branch may have its name, and an artifact any."""
    _, good = workflow.state["runs"]["1"], workflow.state["artifacts"][0]
    runs, artifacts = dict(workflow.state["runs"]), [good]
    unlike = (
        ({"conclusion": "failure"}, {}, {}),
        ({"conclusion": None}, {}, {}),
        ({"event": "pull_request_target"}, {}, {}),
        ({}, {"expired": True}, {}),
        ({}, {}, {"head_repository_id": FORK}),
        ({}, {}, {"head_branch": "other"}),
    )
    for number, (of_run, of_artifact, of_head) in enumerate(unlike, 90):
        runs[str(number)] = runs["1"] | {"id": number} | of_run
        head = good["workflow_run"] | {"id": number} | of_head
        newer = {"created_at": f"2026-11-29T10:00:{number - 90:02}Z"}
        artifacts.append(good | newer | {"workflow_run": head} | of_artifact)
    workflow.change(runs=runs, artifacts=artifacts)
    assert "[main at aaaaaa1]" in pull_request().summary


def test_a_comment_that_others_wrote_is_left_and_a_branchs_name_is_no_part_of_a_line(
    workflow, main_branch, pull_request
):
    theirs = {"id": 5, "user": {"login": "mallory"}, "body": "<!-- batchmark: batchmark -->\nmine"}
    gone = {"id": 6, "user": None, "body": "hello"}
    workflow.change(comments=[theirs, gone])
    outcome = pull_request(branch="$(touch pwned)`touch pwned`'; touch pwned; \"\ntouch pwned #")
    assert [one["id"] for one in workflow.state["comments"]] == [5, 6, 1002]
    assert workflow.comments[0] == theirs["body"]
    assert outcome.code == 0
    assert not list(workflow.folder.rglob("pwned"))
    assert "pwned" not in outcome.summary + workflow.comments[-1]


def test_a_slow_down_on_another_machine_is_told_and_passes(push, pull_request):
    push(fields={"environment": CPU_ENVIRONMENT})
    other = CPU_ENVIRONMENT.model_copy(update={"cpu_model": "AMD EPYC 7R32"})
    outcome = pull_request(0.012, {"environment": other})
    assert outcome.code == 0
    assert "**Gate passed, as a slowdown on a different machine doesn't count: " in outcome.summary
    told = "Different machine: cpu model is AMD EPYC 7R32, but Intel(R) Xeon(R) Platinum 8124M "
    assert told in outcome.summary.replace("\\", "")


def test_without_a_baseline_a_pull_request_passes_unless_one_is_required(workflow, pull_request):
    assert pull_request().code == 0
    assert "no baseline yet" in workflow.comments[0]
    assert pull_request(**{"require-baseline": "true"}).code == 1


def test_an_own_job_that_was_measured_before_is_compared_and_nothing_measured(workflow):
    for number, run in enumerate((workflow.push, workflow.pull_request), start=1):
        seconds = 10.0 * number
        side = JobOn("c5.2xlarge", start_up=seconds, environment=LAPTOP_ENVIRONMENT)
        left_by_try_job(workflow.folder / "build", side, run_id=f"run-{number}", repeats=6)
        outcome = run(measured=f"build/raw/run-{number}")
        assert outcome.code == number - 1
        assert not (outcome.folder / "jobs").exists()
        assert "/job_container\n" in (outcome.folder / "installed").read_text()
    assert len(list((workflow.folder / "1" / "batchmark-baseline").iterdir())) == 13
    assert "13 jobs (6 to 7 for each of 2 sizes)" in outcome.summary
    outcome = workflow.pull_request(measured="build/raw")
    assert outcome.code == 2
    told = "several runs (run-1, run-2); choose one of their folders, such as build/raw/"
    assert told in outcome.log


def test_a_comparison_that_may_not_fail_tells_and_passes(workflow, main_branch, pull_request):
    outcome = pull_request(0.012, gate="false", comment="false", name="other")
    assert outcome.code == 0
    assert "no baseline yet" in outcome.summary  # that of this name
    outcome = workflow.pull_request(gate="false", comment="false", baseline="batchmark-baseline")
    assert outcome.code == 0
    assert SLOWER in outcome.summary
    assert workflow.comments == []


def test_options_reach_the_job_and_the_comparison(workflow, main_branch, pull_request):
    options = {"run": "--suite own\n--device cpu\n", "repeats": "2", "least-percent": "25"}
    outcome = pull_request(0.012, **options, packages=". pandas")
    jobs = (outcome.folder / "jobs").read_text().splitlines()
    assert len(jobs) == 2
    assert jobs[0].startswith("run --suite own --device cpu --output /")
    assert (outcome.folder / "installed").read_text().endswith("/job_container[run]\n.\npandas\n")
    assert outcome.code == 1
    assert "0 slower by 25 % or more, 1 missing" in outcome.summary
    options |= {"allow-missing": "true"}
    assert workflow.pull_request(**options).code == 0
    options |= {"repeats": "1", "require-decided": "true"}
    outcome = workflow.pull_request(**options)
    assert outcome.code == 1
    told = "**Gate failed, as it decided nothing (measure 6 or more repeats per side): "
    assert told in outcome.summary


@pytest.mark.parametrize(
    ("inputs", "says"),
    [
        ({"repeats": "0"}, "repeats is '0'; give 1 to 99"),
        ({"repeats": "a[$(touch pwned)]"}, "give 1 to 99"),
        ({"comment": "yes"}, "'yes' is not valid: use true or false"),
        ({"name": "a b"}, "'a b' is not a valid name: use 1 to 61 letters, digits, dots"),
        ({"least-percent": "x"}, "'x' is not a valid percentage"),
        ({"baseline": "./none"}, "the baseline ./none is neither an existing folder nor"),
        ({"baseline": "a&b"}, "'a&b' is not a valid artifact name: use only letters, digits"),
        ({"baseline": "s3://bucket"}, "the baseline s3://bucket is not a valid S3 folder"),
        ({"event": "pull_request_target"}, "use pull_request"),
    ],
    ids=lambda value: str(value)[:20],
)
def test_bad_input_ends_it_and_is_told(workflow, pull_request, inputs, says):
    outcome = pull_request(fields={"count": 1}, **{"repeats": "1"} | inputs)
    assert outcome.code == 2
    assert says in outcome.log
    assert not (outcome.folder / "jobs").exists()
    assert not list(workflow.folder.rglob("pwned"))


def test_a_row_that_failed_fails_main_and_is_no_baseline(workflow, main_branch, push, pull_request):
    workflow.extra["JOB_CODE"] = "1"
    outcome = push()
    assert outcome.code == 1
    assert outcome.artifact
    workflow.extra["JOB_CODE"] = "2"
    ended = push()
    assert (ended.code, ended.artifact, ended.summary) == (2, None, "")
    del workflow.extra["JOB_CODE"]
    assert "[main at aaaaaa1]" in pull_request().summary


def test_a_baseline_that_can_not_be_read_is_told(workflow, main_branch, push, pull_request):
    kept = workflow.folder / "1" / "batchmark-baseline" / "local.0.json"
    kept.write_text("{")
    assert pull_request().code == 2
    assert re.search(r"\*\*Not compared\.\*\* .*local\.0\.json: not a result", workflow.comments[0])
    assert push().code == 0  # which leaves another


AWS = """
case "$*" in
"s3 cp --recursive --only-show-errors s3://bucket/main/ "*)
    [ ! -d "$GH_STATE/s3" ] || cp -r "$GH_STATE/s3" "$6" ;;
"s3 sync --delete --exclude * --include local.*.json --only-show-errors "*" s3://bucket/main/")
    rm -rf "$GH_STATE/s3" && cp -r "$9" "$GH_STATE/s3" ;;
*) exit 99 ;;
esac"""


def test_a_baseline_may_be_a_folder_of_the_repository_or_of_s3_left_by_main_alone(
    workflow, pull_request
):
    repeats(workflow.folder / "kept", 0.010)
    outcome = pull_request(0.012, baseline="./kept")
    assert outcome.code == 1
    assert "Baseline: ./kept." in outcome.summary
    program(workflow.programs / "aws", AWS)
    place = {"baseline": "s3://bucket/main/"}
    assert "no baseline yet" in pull_request(**place).summary
    assert not (workflow.folder / "s3").exists()
    assert workflow.push(**place).artifact == "batchmark-results"
    outcome = pull_request(0.012, **place)
    assert outcome.code == 1
    assert "Baseline: s3://bucket/main/." in outcome.summary


def test_a_long_comment_is_cut_at_a_line(monkeypatch):
    written = []
    answer = lambda *arguments, given=None: written.append(given) or [[]]  # noqa: E731
    monkeypatch.setattr(programs, "api", answer)
    assert comment.renew("owner/library", 7, "batchmark", "a line of a table |\n" * 5000)
    body = json.loads(written[-1])["body"]
    assert 65_000 < len(body) <= comment.MOST_CHARACTERS
    assert body.endswith("\na line of a table |\n\nFor the rest, see the job summary.\n")


def test_a_reason_that_a_program_gave_calls_nobody(workflow, main_branch):
    failed = {"status": MeasurementStatus.FAILED, "reason": "see @owner/team <b>"}
    workflow.documents = workflow.folder / "failed"
    row = build_row([0.01] * 20, parameters={"size": 1000}, **failed)
    for repeat in range(6):
        stored(workflow.documents / f"{repeat}.json", row, repeat=repeat + 1, run_id="failed")
    workflow.pull_request()
    assert "see @<!-- -->owner/team \\<b\\>" in workflow.comments[0]


@pytest.mark.parametrize(
    "step",
    [step for step in ACTION["runs"]["steps"] if "run" in step],
    ids=lambda step: step["name"],
)
def test_shellcheck_finds_nothing_in_a_step(step):
    command = [BESIDE_PYTHON / "shellcheck", "--shell=bash", "-"]
    done = subprocess.run(command, input=step["run"], capture_output=True, text=True, check=False)
    assert done.stdout == ""
