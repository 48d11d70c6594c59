"""Diagnoses of queues that really hold jobs up."""

from datetime import UTC, datetime

import pytest

from batchmark.checks.diagnosis.diagnose import diagnose


@pytest.fixture
def environment(cloud):
    return cloud.create_compute_environment(cloud.name("environment"))


@pytest.fixture
def queue(cloud, environment):
    return cloud.create_queue(compute_environment=environment)


@pytest.fixture
def find(cloud, queue):
    """Diagnose the queue; every question has to be answered. moto's default VPC leads nowhere."""

    def run(**arguments):
        now = datetime.now(UTC)
        diagnosis = diagnose(cloud.client, queue=queue, now=now, **arguments)
        assert diagnosis.unread == ()
        causes = [finding.cause for finding in diagnosis.findings]
        causes.remove("subnet_without_route")
        return diagnosis, causes

    return run


def submit(cloud, queue, **needs):
    return cloud.submit(cloud.define(["true"], **needs), queue=queue)


def test_an_invalid_environment_holds_its_jobs_until_it_is_valid(
    cloud, queue, environment, find, faults
):
    reason = "CLIENT_ERROR - Instance profile ecs does not exist"
    name = environment.rpartition("/")[2]
    fault = faults(kind="invalid_environment", compute_environment=name, reason=reason)
    job_id = submit(cloud, queue)
    diagnosis, causes = find()
    assert cloud.describe(job_id)["status"] == "RUNNABLE"
    faults.client.delete(f"/_faults/{fault}")
    assert diagnosis.job_id == job_id
    assert causes == ["environment_invalid"]
    (finding, _) = diagnosis.findings
    assert finding.certain
    assert f"is INVALID: {reason}" in finding.evidence
    assert "ACTION_REQUIRED - CE(s) associated with the job queue are invalid" in finding.evidence
    assert cloud.finish(job_id)["status"] == "SUCCEEDED"


@pytest.mark.parametrize(
    ("needs", "words"),
    [
        ({"gpus": 3}, "3 GPU(s); {} offers: g4dn.xlarge with 4 vCPUs, 16384 MiB and 1 GPU(s)"),
        ({"memory": 16384}, "16384 MiB and 0 GPU(s); {} offers: g4dn.xlarge"),
    ],
)
def test_a_job_that_never_fits(cloud, queue, environment, find, needs, words):
    job_id = submit(cloud, queue, **needs)
    diagnosis, causes = find()
    cloud.batch.cancel_job(jobId=job_id, reason="seen enough")
    assert diagnosis.job_id == job_id
    assert causes == ["job_does_not_fit"]
    finding = diagnosis.findings[0]
    assert finding.certain
    assert "MISCONFIGURATION:JOB_RESOURCE_REQUIREMENT" in finding.evidence
    assert words.format(environment.rpartition("/")[2]) in finding.evidence
