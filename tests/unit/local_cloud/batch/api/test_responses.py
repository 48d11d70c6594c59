"""Operations, fields and filters that are not there, and requests that are none."""

import pytest

from tests.stand_ins.local_batch import signed

CONSUMABLE = {"consumableResourceList": []}
DEFINITION = {"jobDefinitionName": "other", "type": "container"}
EKS = {"eksClusterArn": "arn", "kubernetesNamespace": "batch"}
ENVIRONMENT = {"computeEnvironmentName": "other", "type": "MANAGED"}
JOB = {"jobName": "job", "jobQueue": "queue", "jobDefinition": "definition"}
ORDER = [{"order": 1, "computeEnvironment": "environment"}]
QUEUE = {"jobQueueName": "other", "priority": 1, "computeEnvironmentOrder": ORDER}


@pytest.mark.parametrize(
    ("operation", "fields", "missing", "value"),
    [
        ("RegisterJobDefinition", DEFINITION, "ecsProperties", {"taskProperties": []}),
        ("RegisterJobDefinition", DEFINITION, "consumableResourceProperties", CONSUMABLE),
        ("RegisterJobDefinition", DEFINITION, "schedulingPriority", 3),
        ("SubmitJob", JOB, "ecsPropertiesOverride", {"taskProperties": []}),
        ("SubmitJob", JOB, "consumableResourcePropertiesOverride", CONSUMABLE),
        ("SubmitJob", JOB, "shareIdentifier", "A1"),
        ("SubmitJob", JOB, "schedulingPriorityOverride", 0),
        ("ListJobs", {}, "arrayJobId", "job"),
        ("ListJobs", {}, "multiNodeJobId", "job"),
        ("CreateJobQueue", QUEUE, "schedulingPolicyArn", "arn:fair"),
        ("UpdateJobQueue", {"jobQueue": "queue"}, "schedulingPolicyArn", "arn:fair"),
        ("CreateComputeEnvironment", ENVIRONMENT, "unmanagedvCpus", 8),
        ("CreateComputeEnvironment", ENVIRONMENT, "eksConfiguration", EKS),
        ("UpdateComputeEnvironment", {"computeEnvironment": "e"}, "unmanagedvCpus", 8),
    ],
)
def test_a_missing_field_is_refused_by_name(batch, operation, fields, missing, value):
    refused = batch.refusal(operation, **fields, **{missing: value})
    assert refused.startswith(f"The local cloud does not support {missing}: ")


@pytest.mark.parametrize("name", ["SHARE_IDENTIFIER", "JOB_DEFINITION", "BEFORE_CREATED_AT"])
def test_a_missing_filter_is_refused_by_name(batch, name):
    batch.environment()
    filters = [{"name": name, "values": ["1"]}]
    refused = batch.refusal("ListJobs", jobQueue=batch.queue(), filters=filters)
    assert refused == (
        f"The local cloud does not support the filter {name}; it supports only "
        "JOB_NAME | AFTER_CREATED_AT"
    )


@pytest.mark.parametrize(
    ("operation", "fields", "message"),
    [
        # moto has the first ones, and lacks the last.
        *(
            (operation, {}, f"The local cloud does not support {operation}: ")
            for operation in (
                *("CreateSchedulingPolicy", "DeleteSchedulingPolicy", "UpdateSchedulingPolicy"),
                *("DescribeSchedulingPolicies", "ListSchedulingPolicies", "GetJobQueueSnapshot"),
            )
        ),
        ("CancelJob", {"jobId": "x"}, 'Missing required parameter in input: "reason"'),
        (
            "CreateJobQueue",
            QUEUE | {"computeEnvironmentOrder": [{"order": 1}]},
            'Missing required parameter in computeEnvironmentOrder[0]: "computeEnvironment"',
        ),
        ("ListJobs", {}, "jobQueue must be provided"),
        ("ListJobs", {"jobQueue": "any"}, "Job queue any does not exist"),
    ],
)
def test_what_is_refused(batch, operation, fields, message):
    assert batch.refusal(operation, **fields).startswith(message)


@pytest.mark.parametrize("body", ["{", "[]"])
def test_a_request_is_a_json_object(batch, body):
    answered = batch.client.post("/v1/submitjob", data=body, headers=signed())
    assert answered.status_code == 400
    assert answered.json["message"] == "The request must be a JSON object"
