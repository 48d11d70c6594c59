"""The effects of faults on boto3 and on real jobs."""

import os
import shutil
import signal

import psutil
import pytest

from tests.documented import the_block, typed
from tests.e2e.local_cloud.conftest import SPOT_RULES
from tests.waiting import wait_for


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
