"""What Batch's operations refuse, of definitions and jobs above all."""

import pytest
from moto.ecs.models import ecs_backends

from tests.stand_ins.local_batch import ACCOUNT, REGION, signed
from tests.unit.local_cloud.conftest import of_nodes

OTHER = {"targetNodes": "1:", "containerOverrides": {}}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"jobQueue": "no-such-queue"}, "Job queue no-such-queue does not exist"),
        ({"jobDefinition": "no-such-definition"}, "no-such-definition does not exist"),
        ({"jobDefinition": "definition:7"}, "definition:7 does not exist"),
        ({"jobName": ""}, "jobName must be provided"),
        ({"jobName": "-starts-badly"}, "valid pattern"),
        ({"jobName": "has spaces"}, "valid pattern"),
        ({"jobName": "x" * 129}, "valid pattern"),
        *(
            ({"arrayProperties": {"size": size}}, f"between 2 and 10000, not {size}")
            for size in (0, 1, 10_001)
        ),
    ],
)
def test_names_and_sizes_that_are_refused(batch, queue, change, message):
    assert message in batch.refused_submission(**change)


def test_a_definition_without_revision_is_the_latest_active_one(batch, queue):
    arns = [batch.define() for _ in range(2)]
    batch.call("DeregisterJobDefinition", jobDefinition=arns[1])
    latest = arns[0].rpartition(":")[0]
    for named, revision in (("definition", 2), (latest, 2), ("definition:1", 1)):
        job = batch.describe(batch.submit(definition=named))
        assert job["jobDefinition"] == f"{latest}:{revision}"


def test_neither_a_deregistered_definition_nor_a_disabled_queue_takes_jobs(batch, queue):
    batch.call("DeregisterJobDefinition", jobDefinition="definition:1")
    assert "not ACTIVE" in batch.refused_submission()
    batch.define()
    batch.call("UpdateJobQueue", jobQueue="queue", state="DISABLED")
    assert "must be ENABLED" in batch.refused_submission()


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"nodeOverrides": {"numNodes": 1001}}, "between 1 and 1000, not 1001"),
        ({"nodeOverrides": {"nodePropertyOverrides": [OTHER]}}, "Non matching targets - 1:"),
        ({"containerOverrides": {"command": ["x"]}}, "nodeOverrides"),
        ({"arrayProperties": {"size": 2}}, "array job"),
    ],
)
def test_impossible_nodes_are_refused(batch, queue, overrides, message):
    batch.call("RegisterJobDefinition", **of_nodes())
    assert message in batch.refused_submission(**overrides)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        *(({"targets": one}, 'not support node ranges other than "0:"') for one in ("0", "0:1")),
        *(({"numNodes": count}, "numNodes") for count in (0, 1001)),
        *(({"mainNode": node}, "numNodes") for node in (2, -1)),
    ],
)
def test_definitions_of_impossible_nodes_are_refused(batch, queue, fields, message):
    assert message in batch.refusal("RegisterJobDefinition", **of_nodes(**fields))


RULE = {"onExitCode": "1", "action": "RETRY"}


def both(batch, fields, overrides=None):
    """The refusals of a definition and a submission with these fields."""
    container = {"image": "image", "vcpus": 1, "memory": 4, **(overrides or {})}
    definition = {"jobDefinitionName": "other", "type": "container"}
    containers = {"containerProperties": container}
    return (
        batch.refusal("RegisterJobDefinition", **definition, **containers | fields),
        batch.refused_submission(containerOverrides=overrides or {}, **fields),
    )


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("timeout", {"attemptDurationSeconds": 59}, "Seconds must be at least 60, not 59"),
        *(
            ("retryStrategy", strategy, message)
            for strategy, message in (
                ({"attempts": 0}, "attempts must be between 1 and 10, not 0"),
                ({"attempts": 11}, "attempts must be between 1 and 10, not 11"),
                ({"evaluateOnExit": [RULE]}, "attempts must be provided when evaluateOnExit is sp"),
                ({"attempts": 2, "evaluateOnExit": [RULE] * 6}, "at most 5 rules, not 6"),
                ({"attempts": 2, "evaluateOnExit": [{"action": "WAIT"}]}, "RETRY | EXIT, not WAIT"),
            )
        ),
    ],
)
def test_retries_and_timeouts_that_aws_refuses(batch, queue, field, value, message):
    for refused in both(batch, {field: value}):
        assert message in refused


def test_five_rules_are_kept_and_a_new_revision_inherits_nothing(batch):
    strategy = {"attempts": 2, "evaluateOnExit": [RULE] * 5}
    batch.define(parameters={"size": "1"}, retryStrategy=strategy, propagateTags=True)
    (first,) = batch.call("DescribeJobDefinitions")["jobDefinitions"]
    assert len(first["retryStrategy"]["evaluateOnExit"]) == 5
    second = batch.define()
    (described,) = batch.call("DescribeJobDefinitions", jobDefinitions=[second])["jobDefinitions"]
    assert (described["revision"], described["parameters"]) == (2, {})
    assert not described.get("retryStrategy")
    assert not described.get("propagateTags")


def test_batchs_own_variables_are_reserved(batch, queue):
    mine = {"environment": [{"name": "AWS_BATCH_MINE", "value": "1"}]}
    override = {"targetNodes": "0:", "containerOverrides": mine}
    for refused in (
        *both(batch, {}, mine),
        batch.refusal("RegisterJobDefinition", **of_nodes(mine)),
        batch.refused_submission(nodeOverrides={"nodePropertyOverrides": [override]}),
    ):
        assert "can't start with the reserved prefix AWS_BATCH: AWS_BATCH_MINE" in refused


def test_node_properties_are_described(batch):
    asked = of_nodes()
    batch.call("RegisterJobDefinition", **asked)
    (described,) = batch.call("DescribeJobDefinitions")["jobDefinitions"]
    assert described["nodeProperties"] == asked["nodeProperties"]


def test_a_containers_ipc_mode_is_no_field_of_batch(batch):
    container = {"image": "image", "vcpus": 1, "memory": 4, "ipcMode": "host"}
    asked = {"jobDefinitionName": "other", "type": "container", "containerProperties": container}
    refused = batch.refusal("RegisterJobDefinition", **asked)
    assert refused.startswith('Unknown parameter in containerProperties: "ipcMode"')


def test_an_ecs_task_definition_stands_for_each_revision(batch):
    volume = {"name": "data", "efsVolumeConfiguration": {"fileSystemId": "fs-1"}}
    for memory in (4, 8):
        batch.define(container={"volumes": [volume]}, needs={"VCPU": 2, "MEMORY": memory})
    tasks = ecs_backends[ACCOUNT][REGION].task_definitions["definition"]
    (container,) = tasks[2].container_definitions
    assert (container["image"], container["cpu"], container["memory"]) == ("image", 2048, 8)
    definitions = batch.call("DescribeJobDefinitions")["jobDefinitions"]
    assert [found["containerProperties"]["volumes"] for found in definitions] == [[volume]] * 2
    batch.call("DeregisterJobDefinition", jobDefinition="definition:1")
    assert [tasks[revision].status for revision in (1, 2)] == ["INACTIVE", "ACTIVE"]


def test_what_is_not_there_is_deregistered_in_silence(batch):
    arn = f"arn:aws:batch:{REGION}:{ACCOUNT}:job-definition/nothing:1"
    for name in (arn, "nothing:1"):
        assert batch.call("DeregisterJobDefinition", jobDefinition=name) == {}


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
