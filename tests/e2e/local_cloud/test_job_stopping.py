"""terminate_job and cancel_job."""

import pytest

from tests.waiting import wait_for


@pytest.mark.parametrize(
    ("trap", "code", "last_words"),
    [
        ("trap 'echo cleaned; exit 0' TERM", 0, ["cleaned"]),
        ("trap '' TERM", 137, []),  # is killed
        ("true", 143, []),
    ],
)
def test_terminate_gives_the_job_time_to_clean_up(cloud, trap, code, last_words):
    script = f"{trap}; echo ready; while :; do sleep 0.05; done"
    job_id = cloud.shell(script, retryStrategy={"attempts": 3})
    running = cloud.wait_for(job_id, "RUNNING")
    wait_for(lambda: cloud.lines(running), "log lines")
    cloud.batch.terminate_job(jobId=job_id, reason="stop")
    job = cloud.finish(job_id)
    # A terminated job is FAILED, whatever its exit code, and not tried again.
    assert (job["status"], job["container"]["exitCode"]) == ("FAILED", code)
    assert (job["statusReason"], job["isTerminated"], len(job["attempts"])) == ("stop", True, 1)
    assert cloud.lines(job) == ["ready", *last_words]


def test_cancel_and_terminate_before_the_start(cloud, gate):
    blocker = cloud.submit(cloud.define(["sh", "-c", gate.script], vcpus=4))
    cloud.wait_for(blocker, "RUNNING")
    cancelled, terminated = cloud.shell("true"), cloud.shell("true")
    dependent = cloud.shell("true", dependsOn=[{"jobId": blocker}])
    assert cloud.describe(cancelled)["status"] == "RUNNABLE"
    assert cloud.describe(dependent)["status"] == "PENDING"
    cloud.batch.cancel_job(jobId=cancelled, reason="changed my mind")
    cloud.batch.terminate_job(jobId=terminated, reason="changed it again")
    cloud.batch.cancel_job(jobId=dependent, reason="and again")

    job = cloud.describe(cancelled)
    assert (job["status"], job["statusReason"]) == ("FAILED", "changed my mind")
    assert (job["isCancelled"], job["attempts"]) == (True, [])
    job = cloud.describe(terminated)
    assert (job["status"], job["statusReason"]) == ("FAILED", "changed it again")
    assert cloud.describe(dependent)["statusReason"] == "and again"


def test_a_running_job_is_not_cancelled_and_a_finished_one_not_terminated(cloud, gate):
    job_id = cloud.shell(gate.script)
    cloud.wait_for(job_id, "RUNNING")
    cloud.batch.cancel_job(jobId=job_id, reason="too late")
    assert cloud.describe(job_id)["status"] == "RUNNING"
    gate.open()
    job = cloud.finish(job_id)
    assert job["status"] == "SUCCEEDED"
    assert not job["isCancelled"]
    for each in (job_id, "no-such-job"):
        cloud.batch.terminate_job(jobId=each, reason="too late, too")
    assert cloud.describe(job_id) == job


def test_deleting_a_queue_ends_its_jobs(cloud, gate):
    queue = cloud.create_queue()
    job_id = cloud.shell(gate.script, queue=queue)
    cloud.wait_for(job_id, "RUNNING")
    cloud.batch.update_job_queue(jobQueue=queue, state="DISABLED")
    cloud.batch.delete_job_queue(jobQueue=queue)
    job = cloud.finish(job_id)
    assert (job["status"], job["statusReason"]) == ("FAILED", "The job queue was deleted")
