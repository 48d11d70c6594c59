"""The scheduler after a restart, with a runtime of the test."""

import threading
from pathlib import Path
from types import SimpleNamespace

import pytest

from local_cloud.batch.jobs.container import merge
from local_cloud.batch.jobs.job import AttemptRecord, Job, NodeRecord, Submission
from local_cloud.batch.running.runtime import Exit
from local_cloud.batch.scheduling.scheduler import Scheduler
from local_cloud.settings import Settings

SOON_SECONDS = 10
URL = "http://127.0.0.1:5000"
ARN = "arn:aws:batch:us-east-1:123456789012:job/id"
ENVIRONMENT = SimpleNamespace(name="environment", state="ENABLED", compute_resources={})
QUEUE = SimpleNamespace(environments=[ENVIRONMENT], priority=1)
TASK = "arn:aws:ecs:us-east-1:123456789012:task/environment/t1"


class Runtime:
    """Has the running container of an earlier server, and starts no other."""

    def __init__(self):
        self.kept = None
        self.end = threading.Event()

    def remove_others(self, task_ids):
        self.kept = task_ids

    def adopt(self, launch):
        return SimpleNamespace(started_at=7, wait=self.wait, remove=lambda: None)

    def wait(self):
        assert self.end.wait(SOON_SECONDS)
        return Exit(0)


@pytest.fixture
def ended():
    return threading.Event()


@pytest.fixture
def job(ended):
    needs = [{"type": "VCPU", "value": "1"}, {"type": "GPU", "value": "1"}]
    submission = Submission(
        name="job",
        queue=QUEUE,
        definition=SimpleNamespace(name="definition"),
        parameters={},
        retry_strategy={"attempts": 2},
        timeout={},
        depends_on=[],
        container_overrides={},
        containers=[merge({"resourceRequirements": needs}, {}, {})],
        main_node=None,
        node_properties=None,
        array_size=None,
    )
    record = AttemptRecord([NodeRecord("stream", TASK, "instance")], "environment", ("1",), 7)
    return Job(
        submission,
        id="id",
        arn=ARN,
        sequence=0,
        on_change=lambda job: ended.set() if job.finished else None,
        status="RUNNING",
        attempts=[record],
    )


def test_a_job_in_a_running_container_continues(job, ended):
    settings = Settings(URL, URL, gpus=2, vcpus=1, memory_mib=64, job_dir=Path())
    runtime = Runtime()
    scheduler = Scheduler(settings, runtime)
    scheduler.resume([job])
    assert runtime.kept == {"t1"}
    assert list(scheduler.attempts) == [job]
    assert scheduler.attempts[job].allocation.gpu_ids == ("1",)
    assert job.status == "RUNNING"
    runtime.end.set()
    assert ended.wait(SOON_SECONDS)
    assert (job.status, job.started_at) == ("SUCCEEDED", 7)
    (attempt,) = job.attempts
    assert attempt.nodes[0].exit_code == 0
