"""The effects of faults on boto3 and on real jobs."""

import os
import shutil
import signal
import time

import psutil
import pytest
from botocore.exceptions import ClientError, ConnectionClosedError

from tests.documented import the_block, typed
from tests.waiting import wait_for

SPOT_RULES = [
    {"onStatusReason": "Host EC2*", "action": "RETRY"},
    {"onReason": "*", "action": "EXIT"},
]


def strikes(faults, fault_id):
    under_way = faults.client.get("/_faults").json()["faults"]
    return next(fault["strikes"] for fault in under_way if fault["id"] == fault_id)


def test_an_outage_drops_connections_and_passes(cloud, faults):
    faults(kind="outage", seconds=1, services=["batch"], how="drop")
    with pytest.raises(ConnectionClosedError):
        cloud.batch.describe_job_queues()
    cloud.client("iam").list_roles()

    def is_back():
        try:
            return cloud.batch.describe_job_queues()
        except ConnectionClosedError:
            return None

    wait_for(is_back, "answer after the outage")


def test_refused_writes_of_one_folder(cloud, faults):
    s3 = cloud.client("s3")
    bucket = cloud.name("faults")
    s3.create_bucket(Bucket=bucket)
    faults(kind="refused_writes", code="AccessDenied", resources=[f"arn:aws:s3:::{bucket}/raw/*"])
    with pytest.raises(ClientError) as refused:
        s3.put_object(Bucket=bucket, Key="raw/a", Body=b"x" * 1_000_000)
    assert refused.value.response["Error"]["Code"] == "AccessDenied"
    s3.put_object(Bucket=bucket, Key="runs/a", Body=b"x")


def test_a_late_answer_is_delayed(cloud, faults):
    fault = faults(kind="late_answer", operations=["ListJobs"], delay_seconds=0.5)
    began = time.monotonic()
    cloud.batch.list_jobs(jobQueue=cloud.queue)
    assert time.monotonic() - began >= 0.5
    assert strikes(faults, fault) == 1


def test_a_spot_interruption_is_retried_by_the_jobs_rules(cloud, faults, tmp_path):
    seconds = {"after_seconds": 0.1, "notice_seconds": 0.2, "shutdown_seconds": 5}
    fault = faults(kind="spot_interruption", job_name="spot-once", times=1, **seconds)
    script = (
        f"[ -e {tmp_path}/seen ] && exit 0; touch {tmp_path}/seen; "
        "trap 'echo reclaimed; exit 143' TERM; while :; do sleep 0.05; done"
    )
    definition = cloud.define(
        ["sh", "-c", script], retryStrategy={"attempts": 3, "evaluateOnExit": SPOT_RULES}
    )
    job = cloud.finish(cloud.submit(definition, jobName="spot-once"))
    assert job["status"] == "SUCCEEDED"
    lost, last = job["attempts"]
    assert lost["statusReason"].startswith("Host EC2 (instance i-")
    assert lost["statusReason"].endswith(") terminated.")
    assert "exitCode" not in lost["container"]
    assert "reason" not in lost["container"]
    assert last["container"]["exitCode"] == 0
    assert strikes(faults, fault) == 1


def test_every_attempt_loses_its_host_and_is_killed_after_the_shutdowns_grace(cloud, faults):
    faults(kind="spot_interruption", job_name="spot-*", notice_seconds=0, shutdown_seconds=0.3)
    definition = cloud.define(
        ["sh", "-c", "trap '' TERM; while :; do sleep 0.05; done"],
        retryStrategy={"attempts": 2, "evaluateOnExit": SPOT_RULES},
    )
    job = cloud.finish(cloud.submit(definition, jobName="spot-always"))
    assert job["status"] == "FAILED"
    assert len(job["attempts"]) == 2
    assert job["statusReason"].startswith("Host EC2 (instance i-")


def test_interruptions_strike_only_their_environment_and_jobs(cloud, faults):
    faults(kind="spot_interruption", compute_environment="another", notice_seconds=0)
    faults(kind="spot_interruption", job_name="another-*", notice_seconds=0)
    job = cloud.finish(cloud.shell("sleep 0.3"))
    assert job["status"] == "SUCCEEDED"


def test_a_terminated_job_stays_terminated_when_its_host_goes(cloud, faults, gate):
    definition = cloud.define(
        ["sh", "-c", gate.script], retryStrategy={"attempts": 3, "evaluateOnExit": SPOT_RULES}
    )
    job_id = cloud.submit(definition, jobName="both")
    cloud.wait_for(job_id, "RUNNING")
    cloud.batch.terminate_job(jobId=job_id, reason="no longer needed")
    faults(kind="spot_interruption", job_name="both", notice_seconds=0)
    job = cloud.finish(job_id)
    assert (job["statusReason"], len(job["attempts"])) == ("no longer needed", 1)


@pytest.mark.parametrize("kind", ["invalid_environment", "no_capacity"])
def test_a_job_goes_to_the_next_environment_of_its_queue(cloud, faults, kind):
    first, second = (cloud.create_compute_environment(cloud.name("environment")) for _ in range(2))
    queue = cloud.create_queue(compute_environment=first)
    order = [{"order": n, "computeEnvironment": each} for n, each in enumerate((first, second), 1)]
    cloud.batch.update_job_queue(jobQueue=queue, computeEnvironmentOrder=order)
    faults(kind=kind, compute_environment=first.rpartition("/")[2])
    assert cloud.output(cloud.shell("echo $AWS_BATCH_CE_NAME", queue=queue)) == [
        second.rpartition("/")[2]
    ]


def test_a_missing_image_fails_the_pull(cloud, faults):
    faults(kind="missing_image", image="repository:gone")
    definition = cloud.define(
        ["true"], container={"image": "repository:gone"}, retryStrategy={"attempts": 2}
    )
    job = cloud.finish(cloud.submit(definition))
    assert job["status"] == "FAILED"
    assert job["statusReason"] == "Task failed to start"
    assert job["container"]["reason"].startswith("CannotPullContainerError: ")
    assert "repository:gone not found" in job["container"]["reason"]
    assert len(job["attempts"]) == 2


def test_jobs_of_a_name_lose_lines_of_their_log(cloud, faults):
    faults(kind="lost_log_lines", job_name="lossy-*", first=2, last=1)
    definition = cloud.define(["sh", "-c", "seq 5"])
    for name, lines in (("lossy-1", ["3", "4"]), ("other", ["1", "2", "3", "4", "5"])):
        assert cloud.output(cloud.submit(definition, jobName=name)) == lines


def test_a_stop_is_told_from_before_the_start(cloud, faults):
    faults(kind="stop_before_start", early_seconds=2.5)
    job = cloud.finish(cloud.shell("true"))
    (attempt,) = job["attempts"]
    for told in (job, attempt):
        assert told["stoppedAt"] - told["startedAt"] == -2500
    assert (job["status"], attempt["container"]["exitCode"]) == ("SUCCEEDED", 0)


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
