"""The server as a process: who may call it, what it leaves behind, and what it finds again."""

import ctypes
import os
import signal
import socket
import sys
import time

import boto3
import httpx
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

from laptop.processes import free_port
from tests.builders.lustre import Lustre
from tests.clouds import ROOT, ready, running
from tests.containers.restarting import restarting
from tests.e2e.local_cloud.conftest import SPOT_RULES, is_running
from tests.waiting import PATIENCE_SECONDS, wait_for
from tests.warm import Fork


def test_a_connection_is_reset_only_by_the_client(cloud):
    with socket.create_connection(cloud.endpoint_url.split("//")[1].split(":")) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        while connection.recv(65_536):
            pass
        for _ in range(20):
            connection.sendall(b"late")
            time.sleep(0.01)
        assert connection.recv(1) == b""


@pytest.fixture
def family(tmp_path):
    """A job of three generations, one of them in a session of its own, and their process ids."""
    pid_file = tmp_path / "pids"
    program = tmp_path / "family.py"
    program.write_text(
        "import os, signal, subprocess, sys, time\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        f"with open({str(pid_file)!r}, 'a') as f: f.write(f'{{os.getpid()}}\\n')\n"
        "depth = int(sys.argv[1])\n"
        "if depth:\n"
        "    subprocess.Popen([sys.executable, __file__, str(depth - 1)],\n"
        "                     start_new_session=depth == 2)\n"
        "time.sleep(3600)\n"
    )

    def pids():
        found = pid_file.read_text().split() if pid_file.exists() else []
        return [int(pid) for pid in found] if len(found) == 3 else None

    return [sys.executable, str(program), "2"], pids


@pytest.mark.parametrize("signal_number", [signal.SIGTERM, signal.SIGKILL])
def test_no_job_process_outlives_the_server(family, signal_number):
    command, pids = family
    with running("--vcpus", "2") as cloud:
        cloud.submit(cloud.define(command))
        started = wait_for(pids, "all three processes")
        assert all(is_running(pid) for pid in started)
        cloud.process.send_signal(signal_number)
        code = cloud.process.wait(PATIENCE_SECONDS)
        assert code == (0 if signal_number != signal.SIGKILL else -signal.SIGKILL)
    # After a SIGKILL of the server the launcher kills them, otherwise the server before it ends.
    seconds = 10 if signal_number == signal.SIGKILL else 0.5
    wait_for(lambda: not any(is_running(pid) for pid in started), "end of all", seconds)


def test_a_reset_ends_the_jobs_and_ctrl_c_the_server(family):
    command, pids = family
    with running("--vcpus", "2", "--stop-grace", "0") as cloud:
        job_id = cloud.submit(cloud.define(command))
        started = wait_for(pids, "all three processes")
        cloud.reset()
        wait_for(lambda: not any(is_running(pid) for pid in started), "end of all")
        assert cloud.batch.describe_jobs(jobs=[job_id])["jobs"] == []
        cloud.process.send_signal(signal.SIGINT)
        assert cloud.process.wait(PATIENCE_SECONDS) == 0


def test_a_signal_that_another_thread_gets_ends_the_server():
    with running() as cloud:
        pid = cloud.process.pid
        other = next(int(found) for found in os.listdir(f"/proc/{pid}/task") if int(found) != pid)
        ctypes.CDLL(None).tgkill(pid, other, signal.SIGTERM)
        assert cloud.process.wait(PATIENCE_SECONDS) == 0


@pytest.mark.parametrize("somebody_listens", [True, False])
def test_sigterm_ends_a_server_that_is_stuck(somebody_listens):
    listening, writing = os.pipe()
    name = "tests.stand_ins.stuck_local_cloud"
    with os.fdopen(listening) as said:
        with os.fdopen(writing, "w") as stderr:
            process = Fork(name, ["--port", "0"], folder=ROOT, env=os.environ, stderr=stderr)
            ready(process)
        if not somebody_listens:
            said.close()
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_SECONDS) == 1
        assert not somebody_listens or "in serve" in said.read()
    process.stdout.close()


def test_neither_another_user_nor_a_web_page_calls_or_resets_anything(cloud):
    another = boto3.Session("test", "test", region_name="us-east-1")
    config = Config(retries={"total_max_attempts": 1})
    batch = another.client("batch", endpoint_url=cloud.endpoint_url, config=config)
    with pytest.raises(ClientError, match=f"SignatureDoesNotMatch.*{cloud.credentials}"):
        batch.describe_job_queues()
    batch.close()
    with httpx.Client(base_url=cloud.endpoint_url, trust_env=False) as http:
        assert http.post("/moto-api/reset").status_code == 403
        answer = http.get("/moto-api/data.json", headers={"Host": "rebound.example"})
        assert (answer.status_code, "refuses the host" in answer.text) == (403, True)
    assert cloud.batch.describe_job_queues(jobQueues=[cloud.queue])["jobQueues"]


def test_state_survives_and_running_jobs_have_lost_their_host(tmp_path):
    state = tmp_path / "state"
    state.mkdir()
    options = "--port", str(free_port()), "--state", str(state), "--file-system-seconds", "0.2"
    script = (
        f"touch {tmp_path}/$AWS_BATCH_JOB_ATTEMPT; [ $AWS_BATCH_JOB_ATTEMPT = 2 ] || sleep 3600"
    )
    with restarting(*options, "--vcpus", "1") as again:
        cloud = again.cloud
        lustre, file_systems = Lustre(cloud.client), state / "file-systems"

        def become_available(file_system_id):
            wait_for(lambda: lustre.lifecycle(file_system_id) == "AVAILABLE", "file system")

        made = lustre.create()
        become_available(made)
        (file_systems / made / "written").touch()
        s3, sqs = cloud.client("s3"), cloud.client("sqs")
        s3.create_bucket(Bucket="kept")
        s3.put_object(Bucket="kept", Key="raw/a.json", Body=b"content")
        ended = cloud.shell("echo it")
        before = cloud.finish(ended)
        job_id = cloud.shell(script, retryStrategy={"attempts": 2, "evaluateOnExit": SPOT_RULES})
        cloud.wait_for(job_id, "RUNNING")
        waiting = cloud.shell("echo waited")
        dependent = cloud.shell("echo depended", dependsOn=[{"jobId": waiting}])
        other = lustre.create()
        again.kill()

        again.start()
        become_available(other)
        assert lustre.lifecycle(made) == "AVAILABLE"
        assert (file_systems / made / "written").exists()
        lustre.fsx.delete_file_system(FileSystemId=made)
        wait_for(lambda: [path.name for path in file_systems.iterdir()] == [other], "its end")
        assert s3.get_object(Bucket="kept", Key="raw/a.json")["Body"].read() == b"content"
        assert cloud.describe(ended) == before
        assert cloud.lines(before) == ["it"]
        job = cloud.finish(job_id)
        assert job["status"] == "SUCCEEDED"
        first, second = job["attempts"]
        assert first["statusReason"].startswith("Host EC2 (instance i-")
        assert second["container"]["exitCode"] == 0
        assert cloud.output(waiting) == ["waited"]
        assert cloud.output(dependent) == ["depended"]
        url = sqs.create_queue(QueueName="later")["QueueUrl"]

        again.end()
        again.start()
        assert sqs.list_queues()["QueueUrls"] == [url]
        new = cloud.shell("echo new")
        assert cloud.output(new) == ["new"]
        listed = cloud.batch.list_jobs(jobQueue=cloud.queue, jobStatus="SUCCEEDED")
        assert {each["jobId"] for each in listed["jobSummaryList"]} == {
            ended,
            job_id,
            waiting,
            dependent,
            new,
        }
