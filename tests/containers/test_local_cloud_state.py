"""A local cloud that is killed finds its jobs' containers again."""

import random
import time

import pytest

from laptop.processes import free_port
from tests.containers.jobs import (
    CONTAINERS,
    DEAF,
    FOR_EVER,
    containers_of,
    define,
    running_containers,
)
from tests.containers.restarting import restarting
from tests.waiting import wait_for

COUNT = (
    "import time\nfor n in range(6): print(n, flush=True); time.sleep(0.25)\nraise SystemExit(4)"
)
# A container's first process hears nothing of a signal that it neither blocks nor handles.
TOLD = """import signal
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
print("ready", flush=True)
signal.sigwait({signal.SIGUSR1})
print("told", flush=True)
raise SystemExit(4)"""


@pytest.fixture
def again(client, tmp_path):
    """A local cloud to be killed and started again; it leaves no container in the end."""
    options = [*CONTAINERS, "--port", str(free_port()), "--state", str(tmp_path)]
    with restarting(*options) as made:
        yield made
    assert containers_of(client, made.cloud) == []


@pytest.fixture
def cloud(again):
    return again.cloud


@pytest.fixture
def submit(cloud):
    return lambda program, **job: cloud.submit(define(cloud, program), **job)


def test_jobs_go_on_and_those_that_ended_are_read(cloud, submit, again, client):
    ends_meanwhile, goes_on = submit(TOLD), submit(TOLD)
    for job_id in (ends_meanwhile, goes_on):
        job = cloud.wait_for(job_id, "RUNNING")
        assert wait_for(lambda job=job: cloud.lines(job), "log lines") == ["ready"]
    timed = submit(FOR_EVER, timeout={"attemptDurationSeconds": 8})
    cloud.wait_for(timed, "RUNNING")
    after = submit("print('after')", dependsOn=[{"jobId": timed}, {"jobId": ends_meanwhile}])
    before = {each.id for each in containers_of(client, cloud)}
    again.kill()
    assert tell(client, ends_meanwhile).wait()["StatusCode"] == 4
    again.start()
    assert {each.id for each in containers_of(client, cloud)} <= before
    assert cloud.describe(goes_on)["status"] == "RUNNING"
    tell(client, goes_on)

    for job_id in (ends_meanwhile, goes_on):
        job = cloud.finish(job_id)
        assert (job["status"], job["container"]["exitCode"]) == ("FAILED", 4)
        assert cloud.lines(job) == ["ready", "told"]
        assert len(job["attempts"]) == 1
    assert cloud.finish(timed)["statusReason"] == "Job attempt duration exceeded timeout"
    assert cloud.finish(after)["statusReason"] == "Dependent Job failed"


def tell(client, job_id):
    """Let a job of TOLD go on; returns its container."""
    (container,) = running_containers(client, job_id)
    container.kill(signal="SIGUSR1")
    return container


def test_a_terminated_job_is_ended_by_the_next_server(cloud, submit, again):
    job_id = submit(DEAF)
    job = cloud.wait_for(job_id, "RUNNING")
    wait_for(lambda: cloud.lines(job), "log lines")
    cloud.batch.terminate_job(jobId=job_id, reason="enough")
    again.kill()
    again.start()
    job = cloud.finish(job_id)
    assert (job["status"], job["statusReason"]) == ("FAILED", "enough")


def test_a_container_that_went_missing_is_a_lost_host(cloud, submit, again, client):
    job_id = submit(FOR_EVER)
    cloud.wait_for(job_id, "RUNNING")
    cloud.batch.tag_resource(resourceArn=cloud.queue, tags={"any": "call"})  # all is on disk now
    again.kill()
    (container,) = containers_of(client, cloud)
    container.remove(force=True)
    again.start()
    job = cloud.finish(job_id)
    assert job["status"] == "FAILED"
    assert job["statusReason"].startswith("Host EC2 (instance i-")


def test_an_orderly_end_leaves_no_container_and_the_job_is_tried_again(
    cloud, submit, again, client
):
    show = "import os, time; time.sleep(3600 * (os.environ['AWS_BATCH_JOB_ATTEMPT'] == '1'))"
    job_id = submit(show, retryStrategy={"attempts": 2})
    cloud.wait_for(job_id, "RUNNING")
    again.end()
    assert containers_of(client, cloud) == []
    again.start()
    job = cloud.finish(job_id)
    assert job["status"] == "SUCCEEDED"
    assert job["attempts"][0]["statusReason"].startswith("Host EC2 (instance i-")


def test_every_job_runs_once_however_often_the_server_is_killed(cloud, submit, again):
    jobs = [submit(COUNT) for _ in range(8)]
    pauses = random.Random(7)
    for _ in range(3):
        time.sleep(pauses.uniform(0.2, 2.0))
        again.kill()
        again.start()
    for job_id in jobs:
        job = cloud.finish(job_id)
        assert [attempt["container"].get("exitCode") for attempt in job["attempts"]] == [4], job
        assert cloud.lines(job) == [str(n) for n in range(6)]
