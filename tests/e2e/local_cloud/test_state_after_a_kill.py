"""A local cloud with --state is killed and restarted: jobs as processes have lost their host."""

from laptop.processes import free_port
from tests.builders.lustre import Lustre
from tests.containers.restarting import restarting
from tests.e2e.local_cloud.conftest import SPOT_RULES
from tests.waiting import wait_for


def test_state_survives_and_running_jobs_have_lost_their_host(tmp_path):
    state = tmp_path / "state"
    state.mkdir()
    options = "--port", str(free_port()), "--state", str(state), "--file-system-seconds", "0.2"
    script = f"touch {tmp_path}/$AWS_BATCH_JOB_ATTEMPT; [ $AWS_BATCH_JOB_ATTEMPT = 2 ] || sleep 600"
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
