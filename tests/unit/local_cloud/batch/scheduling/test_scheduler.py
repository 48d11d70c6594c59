"""Where jobs start, what their hosts mount first, and what a restart finds and a reset leaves."""

import logging
import threading
from copy import deepcopy
from dataclasses import replace
from types import SimpleNamespace

import pytest
from moto.core import base_backend
from moto.core.base_backend import BackendDict

from local_cloud.batch.scheduling import scheduler
from local_cloud.batch.scheduling.scheduler import JobTimers, Scheduler
from local_cloud.faults.under_way import UNDER_WAY
from local_cloud.file_systems import hosts
from tests.stand_ins.failing_calls import failing
from tests.stand_ins.local_batch import Containers, local_batch, requirements
from tests.unit.local_cloud.conftest import SETTINGS, of_nodes
from tests.waiting import PATIENCE_SECONDS, wait_for


@pytest.mark.parametrize("kind", ["invalid_environment", "no_capacity"])
def test_a_job_goes_to_the_next_environment_of_its_queue(batch, begin, kind):
    for name in ("first", "second"):
        batch.environment(name)
    order = [{"order": n, "computeEnvironment": name} for n, name in enumerate(("first", "second"))]
    batch.queue(computeEnvironmentOrder=order)
    batch.define()
    begin(kind, compute_environment="first")
    job = batch.scheduler_job(batch.submit())
    assert job.attempts[0].compute_environment == "second"


def test_jobs_wait_as_long_as_all_environments_are_invalid(batch, queue, begin):
    blocker = batch.submit(containerOverrides={"resourceRequirements": requirements(VCPU=4)})
    waiting = batch.submit("waiting")
    begin("invalid_environment", compute_environment="*", reason="why")
    for _ in range(2):
        batch.scheduler.environments_changed()
    (environment,) = batch.call("DescribeComputeEnvironments")["computeEnvironments"]
    assert (environment["status"], environment["statusReason"]) == ("INVALID", "why")
    batch.finish(blocker)
    job = batch.describe(waiting)
    assert job["status"] == "RUNNABLE"
    assert job["statusReason"].startswith("ACTION_REQUIRED - CE(s) associated with the job")
    UNDER_WAY.clear()
    batch.scheduler.environments_changed()
    assert batch.finish(waiting)["status"] == "SUCCEEDED"


@pytest.mark.parametrize("kind", ["SPOT", "FARGATE"])
def test_nodes_wait_for_ever_elsewhere_than_on_on_demand_instances(batch, kind):
    batch.environment(kind=kind)
    batch.queue()
    batch.call("RegisterJobDefinition", **of_nodes())
    waiting = batch.submit()
    batch.define("single")
    assert batch.finish(batch.submit(definition="single"))["status"] == "SUCCEEDED"
    job = batch.describe(waiting)
    assert (job["status"], job.get("statusReason")) == ("RUNNABLE", None)


PROBLEM = "the file system fs-1 is CREATING"


@pytest.fixture
def file_system(monkeypatch, tmp_path):
    """What hosts of the environment `nodes` find: a folder, or why there is none."""
    found = {"problem": PROBLEM}

    def mounted_file_system(environment):
        if environment.name != "nodes":
            return None
        if found["problem"]:
            raise hosts.HostError(found["problem"])
        return "fs-1"

    monkeypatch.setattr(hosts, "mounted_file_system", mounted_file_system)
    monkeypatch.setattr(
        hosts, "mount", lambda environment: mounted_file_system(environment) and tmp_path
    )
    monkeypatch.setattr("local_cloud.batch.scheduling.scheduler.NEXT_HOST_SECONDS", 0.01)
    return found


@pytest.fixture
def queues(batch):
    for name in ("nodes", "ordinary"):
        batch.environment(name)
        batch.queue(name, environment=name)
    batch.define()


def test_jobs_wait_until_their_hosts_come_up(batch, queues, file_system, caplog, tmp_path):
    with caplog.at_level(logging.WARNING):
        waiting = batch.submit("first", queue="nodes")
        batch.submit("second", queue="ordinary")
        batch.wait_for_starts(1)
        job = batch.describe(waiting)
    assert batch.containers.started == ["second"]
    assert (job["status"], job.get("statusReason")) == ("RUNNABLE", None)
    (said,) = [record.message for record in caplog.records if "hosts" in record.message]
    assert said == f"hosts in the compute environment nodes failed to boot: {PROBLEM}"
    file_system["problem"] = None
    batch.wait_for_starts(2)
    mounted = {
        launch.job.submission.name: launch.file_system for launch in batch.containers.launches
    }
    assert mounted == {"second": None, "first": tmp_path}


def test_a_file_system_that_goes_in_between_fails_the_start(
    batch, queues, file_system, monkeypatch
):
    file_system["problem"] = None
    gone = hosts.HostError("the file system fs-1 is DELETING")
    monkeypatch.setattr(hosts, "mount", failing(gone))
    job = batch.submit(queue="nodes")
    wait_for(lambda: batch.describe(job)["status"] == "FAILED", "end of the job", every=0.002)
    described = batch.describe(job)
    assert described["statusReason"] == "Task failed to start"
    assert described["container"]["reason"].endswith("the file system fs-1 is DELETING")


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
    assert ended.wait(PATIENCE_SECONDS)
    assert (job.status, job.started_at) == ("SUCCEEDED", 7)
    (attempt,) = job.attempts
    assert attempt.nodes[0].exit_code == 0


def test_an_attempts_time_counts_from_its_start_whichever_server_looks(monkeypatch):
    waits = []
    monkeypatch.setattr(scheduler, "later", lambda seconds, _: waits.append(seconds))
    monkeypatch.setattr(scheduler, "now_milliseconds", lambda: 20_000)
    timed = SimpleNamespace(timeout={"attemptDurationSeconds": 8})
    for started_at in (None, 15_000, 1_000):
        job = SimpleNamespace(id="job", submission=timed, started_at=started_at)
        JobTimers().set_timeout(job, time_out=None)
    assert waits == [8.0, 3.0, 0.0]


ROUNDS = 12


class BoundedLock:
    """moto's lock, for a thread that waits a second for it at most."""

    def __init__(self, lock):
        self._lock = lock
        self.gave_up = []

    def __enter__(self):
        if not self._lock.acquire(timeout=1):
            self.gave_up.append(threading.current_thread().name)
            raise TimeoutError("moto's lock is held for good")

    def __exit__(self, *_):
        self._lock.release()


def test_a_reset_and_jobs_that_change_state_never_block_each_other(batch, monkeypatch):
    lock = BoundedLock(threading.RLock())
    monkeypatch.setattr(base_backend, "backend_lock", lock)
    batch.containers.may_end.set()
    for _ in range(ROUNDS):
        batch.environment()
        batch.queue()
        batch.define(needs={"VCPU": 0.25})
        batch.submit(arrayProperties={"size": 20})
        reset = threading.Thread(target=BackendDict.reset, daemon=True)
        reset.start()
        reset.join(PATIENCE_SECONDS)
        assert not reset.is_alive()
        assert lock.gave_up == []
