"""One job: its command, environment, output and outcome, and what faults do to it."""

import os
import shutil
import signal
import sys
from pathlib import Path

import psutil
import pytest

from batchmark.runs.own_jobs.wrapper import container_overrides
from tests.builders.files import program
from tests.builders.watched_jobs import plan
from tests.clouds import running
from tests.documented import the_block, typed
from tests.e2e.local_cloud.conftest import SPOT_RULES, is_running
from tests.waiting import wait_for


@pytest.mark.parametrize(("code", "status"), [(0, "SUCCEEDED"), (3, "FAILED")])
def test_an_end_is_described_as_batch_does(cloud, code, status):
    definition = cloud.define(["sh", "-c", f"exit {code}"])
    job = cloud.finish(cloud.submit(definition, jobName="a-job", tags={"run": "42"}))

    assert job["status"] == status
    assert job["statusReason"] == "Essential container in task exited"
    assert (job["jobName"], job["jobQueue"]) == ("a-job", cloud.queue)
    assert job["jobDefinition"] == definition
    assert job["tags"] == {"run": "42"}
    assert cloud.batch.list_tags_for_resource(resourceArn=job["jobArn"])["tags"] == {"run": "42"}
    assert job["container"]["exitCode"] == code
    assert "reason" not in job["container"]
    # Epoch milliseconds: thirteen digits.
    assert 1e12 < job["createdAt"] <= job["startedAt"] <= job["stoppedAt"] < 1e13

    (attempt,) = job["attempts"]
    assert attempt["container"]["exitCode"] == code
    assert attempt["container"]["logStreamName"] == job["container"]["logStreamName"]
    assert attempt["startedAt"] == job["startedAt"]
    assert attempt["stoppedAt"] <= job["stoppedAt"]
    assert attempt["statusReason"] == "Essential container in task exited"


@pytest.mark.parametrize(
    ("command", "variable", "reason"),
    [("no-such-program", "", "no-such-program"), ("true", "a\0b", "null byte")],
)
def test_what_cannot_start_says_why(cloud, command, variable, reason):
    environment = [{"name": "ANY", "value": variable}]
    job = cloud.finish(
        cloud.submit(cloud.define([command], container={"environment": environment}))
    )
    assert (job["status"], job["statusReason"]) == ("FAILED", "Task failed to start")
    assert job["container"]["reason"].startswith("CannotStartContainerError: ")
    assert reason in job["container"]["reason"]
    assert "exitCode" not in job["container"]


def test_batch_and_aws_variables_and_none_of_the_servers_own(cloud):
    of_batch = "$AWS_BATCH_JOB_ID $AWS_BATCH_JQ_NAME $AWS_BATCH_CE_NAME"
    of_aws = "$AWS_ENDPOINT_URL $AWS_DEFAULT_REGION $AWS_ACCESS_KEY_ID $AWS_SECRET_ACCESS_KEY"
    job_id = cloud.shell(f"echo {of_batch}; echo {of_aws} [$SECRET_OF_THE_SERVER]")
    assert cloud.output(job_id) == [
        f"{job_id} {cloud.queue.rpartition('/')[2]} test-environment",
        f"{cloud.endpoint_url} us-east-1 job {cloud.secret} []",
    ]


def test_python_is_the_servers_interpreter_and_jobs_start_in_the_job_dir(cloud, job_dir):
    program = "import os, sys; print(sys.executable); print(os.getcwd())"
    for word in ("python", "python3"):
        job_id = cloud.submit(cloud.define([word, "-c", program]))
        assert cloud.output(job_id) == [sys.executable, str(job_dir)]


def test_in_copies_of_the_job_dir_no_check_or_output_passes_on_an_earlier_jobs_files(tmp_path):
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "link").symlink_to(tmp_path)
    program(folder / "make.sh", "echo x >made; pwd -P; test -L link")
    check, output = {"check": "test -e made"}, {"output": "made"}
    plans = [
        plan(command=(word,), **asked)
        for word, asked in (("./make.sh", check | output), ("true", check), ("true", output))
    ]
    own = f"--definition-dir=mine={folder}"
    with running("--job-dir", str(tmp_path), own, "--copy-job-dir") as cloud:
        definition = cloud.define(["false"], name="mine")
        ended = [
            cloud.finish(cloud.submit(definition, containerOverrides=container_overrides(each)))
            for each in plans
        ]
        assert [job["container"]["exitCode"] for job in ended] == [0, 1, 1]
        (copy,) = [Path(line) for line in cloud.lines(ended[0]) if line.startswith("/")]
        wait_for(lambda: not copy.exists(), "removal of the copy", 10, every=0.01)
    assert {path.name for path in folder.iterdir()} == {"make.sh", "link"}


def test_output_goes_to_the_definitions_log_group_line_by_line(cloud):
    options = {"awslogs-group": "/aws/batch/test", "awslogs-stream-prefix": "prefix"}
    definition = cloud.define(
        ["sh", "-c", "echo one; echo two >&2; echo; printf 'three \\303\\251\\377'"],
        container={"logConfiguration": {"logDriver": "awslogs", "options": options}},
    )
    job = cloud.finish(cloud.submit(definition))
    prefix, default, task_id = job["container"]["logStreamName"].split("/")
    assert (prefix, default) == ("prefix", "default")
    assert job["container"]["taskArn"].endswith(task_id)
    lines = cloud.lines(job)
    lines.remove("two")  # as on AWS, one output does not wait for the other
    assert lines == ["one", "three é\N{REPLACEMENT CHARACTER}"]


def test_output_can_be_read_while_the_job_runs(cloud, gate):
    """Python would hold it back."""
    program = f"import pathlib, time\nprint('early')\np = pathlib.Path({str(gate.path)!r})\n"
    loop = "while not p.exists(): time.sleep(0.02)"
    job_id = cloud.submit(cloud.define(["python", "-c", program + loop]))
    job = cloud.wait_for(job_id, "RUNNING")
    assert wait_for(lambda: cloud.lines(job), "log lines") == ["early"]


def test_what_a_command_leaves_behind_ends_with_it(cloud, tmp_path):
    pid_file = tmp_path / "pid"
    detach = "import os, time; os.setsid(); time.sleep(3600)"
    script = f'{sys.executable} -c "{detach}" & echo $! > {pid_file}'
    assert cloud.finish(cloud.shell(script))["status"] == "SUCCEEDED"
    assert not is_running(int(pid_file.read_text()))


def test_spot_interruptions_are_retried_by_the_jobs_rules(cloud, faults):
    """The first attempt goes when it is asked to, the second is killed after the grace."""
    seconds = {"after_seconds": 0.1, "notice_seconds": 0.2, "shutdown_seconds": 0.5}
    faults(kind="spot_interruption", job_name="another-*", **seconds)
    fault = faults(kind="spot_interruption", job_name="spot-*", times=2, **seconds)
    script = """
    case $AWS_BATCH_JOB_ATTEMPT in
      1) trap 'exit 143' TERM ;;
      2) trap '' TERM ;;
      3) exit 0 ;;
    esac
    while :; do sleep 0.05; done
    """
    strategy = {"attempts": 4, "evaluateOnExit": SPOT_RULES}
    job = cloud.finish(cloud.shell(script, jobName="spot-twice", retryStrategy=strategy))
    assert job["status"] == "SUCCEEDED"
    *lost, last = job["attempts"]
    assert len(lost) == 2
    for each in lost:
        assert each["statusReason"].startswith("Host EC2 (instance i-")
        assert each["statusReason"].endswith(") terminated.")
        assert not {"exitCode", "reason"} & each["container"].keys()
    assert last["container"]["exitCode"] == 0
    others, ours = faults.client.get("/_faults").json()["faults"]
    assert (others["strikes"], ours["id"], ours["strikes"]) == (0, fault, 2)


def test_the_process_id_of_a_jobs_command_is_shown(cloud, faults, gate):
    job_id = cloud.shell(gate.script)
    cloud.wait_for(job_id, "RUNNING")

    def pids():
        return faults.client.get(f"/_faults/jobs/{job_id}").json()["pids"]

    (pid,) = wait_for(pids, "process of the job")
    assert gate.script in psutil.Process(pid).cmdline()
    os.kill(pid, signal.SIGKILL)
    job = cloud.finish(job_id)
    assert (job["status"], job["container"]["exitCode"]) == ("FAILED", 137)
    assert pids() == []


@pytest.mark.skipif(not shutil.which("curl"), reason="needs curl, as the docs do")
def test_the_documented_lines_of_a_shell_begin_show_and_end_faults(cloud, faults, tmp_path):
    credentials = f"AWS_SHARED_CREDENTIALS_FILE={cloud.credentials}"
    lines = "\n".join([*the_block("export AWS_ENDPOINT_URL="), *the_block("signed() {")])
    lines = lines.replace("http://127.0.0.1:5000", cloud.endpoint_url)
    lines = lines.replace("AWS_SHARED_CREDENTIALS_FILE=...", credentials)
    job_id = cloud.shell("true")
    said = typed(lines, tmp_path, {}, JOB_ID=job_id)
    assert said.count('"kind": "throttle"') == 2
    assert f'"job_id": "{job_id}"' in said
    assert faults.client.get("/_faults").json() == {"faults": []}
