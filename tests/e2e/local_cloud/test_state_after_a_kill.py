"""A local cloud with --state is killed and restarted: jobs as processes have lost their host."""

import pytest

from laptop.processes import free_port
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
    (tmp_path / "state").mkdir()
    return ["--port", str(free_port()), "--vcpus", "1", "--state", str(tmp_path / "state")]


def test_state_survives_and_running_jobs_have_lost_their_host(options, tmp_path):
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
