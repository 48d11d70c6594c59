"""Operations on several jobs, and those that are not there."""

import pytest

from tests.stand_ins.local_batch import SIGNED

MISSING = (
    "CreateConsumableResource",
    "CreateSchedulingPolicy",
    "DeleteSchedulingPolicy",
    "DescribeConsumableResource",
    "DescribeSchedulingPolicies",
    "GetJobQueueSnapshot",
    "ListJobsByConsumableResource",
    "ListSchedulingPolicies",
    "SubmitServiceJob",
    "UpdateSchedulingPolicy",
)
DEFINITION = {"jobDefinitionName": "other", "type": "container"}
ENVIRONMENT = {"computeEnvironmentName": "other", "type": "MANAGED"}
JOB = {"jobName": "job", "jobQueue": "queue", "jobDefinition": "definition"}
ORDER = [{"order": 1, "computeEnvironment": "environment"}]
QUEUE = {"jobQueueName": "other", "priority": 1, "computeEnvironmentOrder": ORDER}


@pytest.mark.parametrize("operation", MISSING)
def test_a_missing_operation_is_refused_by_name(batch, operation):
    assert batch.refusal(operation).startswith(f"The local cloud has no {operation}: ")


@pytest.mark.parametrize(
    ("operation", "fields", "missing", "value"),
    [
        ("RegisterJobDefinition", DEFINITION, "ecsProperties", {"taskProperties": []}),
        (
            "RegisterJobDefinition",
            DEFINITION,
            "consumableResourceProperties",
            {"consumableResourceList": []},
        ),
        ("RegisterJobDefinition", DEFINITION, "schedulingPriority", 3),
        ("SubmitJob", JOB, "ecsPropertiesOverride", {"taskProperties": []}),
        (
            "SubmitJob",
            JOB,
            "consumableResourcePropertiesOverride",
            {"consumableResourceList": []},
        ),
        ("SubmitJob", JOB, "shareIdentifier", "A1"),
        ("SubmitJob", JOB, "schedulingPriorityOverride", 0),
        ("CreateJobQueue", QUEUE, "schedulingPolicyArn", "arn:fair"),
        ("UpdateJobQueue", {"jobQueue": "queue"}, "schedulingPolicyArn", "arn:fair"),
        ("CreateComputeEnvironment", ENVIRONMENT, "unmanagedvCpus", 8),
        (
            "CreateComputeEnvironment",
            ENVIRONMENT,
            "eksConfiguration",
            {"eksClusterArn": "arn", "kubernetesNamespace": "batch"},
        ),
        (
            "UpdateComputeEnvironment",
            {"computeEnvironment": "environment"},
            "unmanagedvCpus",
            8,
        ),
    ],
)
def test_a_missing_field_is_refused_by_name(batch, operation, fields, missing, value):
    refused = batch.refusal(operation, **fields, **{missing: value})
    assert refused.startswith(f"The local cloud has no {missing}: ")


def test_a_missing_filter_is_refused_by_name(batch):
    batch.environment()
    share = [{"name": "SHARE_IDENTIFIER", "values": ["A1"]}]
    refused = batch.refusal("ListJobs", jobQueue=batch.queue(), filters=share)
    assert refused.startswith("The local cloud has no filter SHARE_IDENTIFIER, only JOB_NAME")


@pytest.fixture
def jobs(batch):
    """One job that runs, and one that waits for it."""
    batch.environment()
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
        (
            "CreateJobQueue",
            {"jobQueueName": "queue", "priority": 1, "computeEnvironmentOrder": [{"order": 1}]},
            'in computeEnvironmentOrder[0]: "computeEnvironment"',
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
