"""The scheduler after a restart, with a runtime of the test."""

import threading
from copy import deepcopy
from dataclasses import replace

from local_cloud.batch.scheduling.scheduler import Scheduler
from tests.stand_ins.local_batch import SOON_SECONDS, Containers, local_batch
from tests.unit.local_cloud.conftest import SETTINGS


class KeptContainers(Containers):
    """Has the running containers of an earlier server, and starts no other."""

    def remove_others(self, task_ids):
        self.kept = task_ids

    def adopt(self, launch):
        adopted = super().start(launch)
        adopted.started_at = 7
        return adopted

    start = None


def test_a_job_in_a_running_container_continues():
    with local_batch(gpus=2) as batch:
        batch.environment()
        batch.queue()
        batch.define(needs={"GPU": 1})
        running = [batch.scheduler_job(batch.submit()) for _ in range(2)]
        batch.wait_for_starts(2)
        (other,) = (job for job in running if job.attempts[0].gpu_ids == ("1",))
        before = deepcopy(other.attempts[0])
        before.started_at = 7
        job = replace(other, status="RUNNING", attempts=[before])
    ended = threading.Event()
    job.on_change = lambda job: ended.set() if job.finished else None
    runtime = KeptContainers()
    scheduler = Scheduler(replace(SETTINGS, gpus=2), runtime)
    scheduler.resume([job])
    assert runtime.kept == {before.nodes[0].task_id}
    assert list(scheduler.attempts) == [job]
    assert scheduler.attempts[job].allocation.gpu_ids == ("1",)
    assert job.status == "RUNNING"
    runtime.may_end.set()
    assert ended.wait(SOON_SECONDS)
    assert (job.status, job.started_at) == ("SUCCEEDED", 7)
    (attempt,) = job.attempts
    assert attempt.nodes[0].exit_code == 0
