"""Operations on several jobs, and those that are not there."""

import pytest

from tests.stand_ins.local_batch import SIGNED

MISSING = (
    "CreateConsumableResource",
    "DescribeConsumableResource",
    "GetJobQueueSnapshot",
    "ListJobsByConsumableResource",
    "SubmitServiceJob",
)


@pytest.mark.parametrize("operation", MISSING)
def test_a_missing_operation_is_refused_by_name(batch, operation):
    assert batch.refusal(operation).startswith(f"The local cloud has no {operation}: ")


@pytest.fixture
def jobs(batch):
    """One job that runs, and one that waits for it."""
    batch.unmanaged_environment()
    batch.queue()
    batch.define(vcpus=4)
    found = [batch.submit(), batch.submit()]
    batch.wait_for_starts(1)
    return found


def test_several_jobs_are_cancelled_or_terminated_at_once(batch, jobs):
    runs, waits = jobs
    both = {"jobs": [*jobs, "unknown"], "reason": "enough"}
    assert batch.call("CancelJobs", **both) == {"successful": both["jobs"], "errors": []}
    cancelled = batch.describe(waits)
    assert (cancelled["status"], cancelled["statusReason"]) == ("FAILED", "enough")
    assert batch.describe(runs)["isCancelled"] is False
    batch.call("TerminateJobs", **both)
    assert batch.describe(runs)["isTerminated"]
    assert batch.finish(runs)["statusReason"] == "enough"


def test_a_reason_and_one_to_fifty_jobs_are_required(batch):
    assert "reason must be provided" in batch.refusal("CancelJobs", jobs=["x"], reason="")
    for job_ids in ([], ["x"] * 51):
        refused = batch.refusal("TerminateJobs", jobs=job_ids, reason="enough")
        assert f"1 to 50 job ids, not {len(job_ids)}" in refused


@pytest.mark.parametrize(
    ("operation", "fields", "missing"),
    [
        ("CancelJob", {"jobId": "x"}, 'in input: "reason"'),
        ("DeleteSchedulingPolicy", {}, 'in input: "arn"'),
        (
            "CreateJobQueue",
            {"jobQueueName": "queue", "priority": 1, "computeEnvironmentOrder": [{"order": 1}]},
            'in computeEnvironmentOrder[0]: "computeEnvironment"',
        ),
        (
            "CreateSchedulingPolicy",
            {"name": "fair", "fairsharePolicy": {"shareDistribution": [{"weightFactor": 1}]}},
            'in fairsharePolicy.shareDistribution[0]: "shareIdentifier"',
        ),
    ],
)
def test_a_required_field_that_is_missing_is_named(batch, operation, fields, missing):
    refused = batch.refusal(operation, **fields)
    assert refused == f"Missing required parameter {missing}"


@pytest.mark.parametrize("body", ["{", "[]"])
def test_a_request_is_a_json_object(batch, body):
    answered = batch.client.post("/v1/submitjob", data=body, headers={"Authorization": SIGNED})
    assert answered.status_code == 400
    assert answered.json["message"] == "The request must be a JSON object"
