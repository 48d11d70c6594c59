"""A local cloud that is killed and goes on: jobs as processes have lost their host."""

import socket
import subprocess

import pytest

from tests.clouds import command_line, running
from tests.containers.restarting import restarting

RETRY_HOST_LOST = {
    "attempts": 2,
    "evaluateOnExit": [
        {"action": "RETRY", "onStatusReason": "Host EC2*"},
        {"action": "EXIT", "onReason": "*"},
    ],
}


@pytest.fixture
def options(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = str(server.getsockname()[1])
    (tmp_path / "state").mkdir()
    return ["--port", port, "--vcpus", "1", "--state", str(tmp_path / "state")]


def test_what_was_known_is_known_and_what_ran_has_lost_its_host(options, tmp_path):
    script = f"touch {tmp_path}/$AWS_BATCH_JOB_ATTEMPT; [ $AWS_BATCH_JOB_ATTEMPT = 2 ] || sleep 600"
    with restarting(*options) as again:
        cloud = again.cloud
        s3, sqs = cloud.client("s3"), cloud.client("sqs")
        s3.create_bucket(Bucket="kept")
        s3.put_object(Bucket="kept", Key="raw/a.json", Body=b"content")
        ended = cloud.shell("echo it")
        before = cloud.finish(ended)
        job_id = cloud.shell(script, retryStrategy=RETRY_HOST_LOST)
        cloud.wait_for(job_id, "RUNNING")
        waiting = cloud.shell("echo waited")
        dependent = cloud.shell("echo depended", dependsOn=[{"jobId": waiting}])
        again.kill()

        again.start()
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


def test_a_folder_in_use_is_one_clear_line(options):
    with running(*options):
        second = subprocess.run(
            command_line("--port", "0", *options[2:]),
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    assert second.returncode == 2
    (line,) = second.stderr.splitlines()
    assert "state.sqlite can't be used (database is locked): end what uses it" in line


def test_without_a_folder_it_forgets(options):
    with restarting(*options[:4]) as again:
        again.kill()
        again.start()
        assert again.cloud.batch.describe_job_queues()["jobQueues"] == []
