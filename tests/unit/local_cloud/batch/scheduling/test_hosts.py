"""Jobs whose hosts have to mount a file system before they can take them."""

import logging

import pytest

from local_cloud.file_systems import hosts
from tests.stand_ins.failing_calls import failing
from tests.waiting import wait_for

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
