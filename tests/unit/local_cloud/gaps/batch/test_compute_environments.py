"""All management calls of all kinds of compute environment."""

import pytest

NAME = "environment"
NO_STATE = "state must be one of ENABLED | DISABLED, not OFF"
KINDS = ("EC2", "SPOT", "FARGATE", "FARGATE_SPOT")


def create(batch, kind, **fields):
    what = {"type": "MANAGED", "computeResources": batch.resources(kind)}
    return batch.call("CreateComputeEnvironment", computeEnvironmentName=NAME, **what | fields)


def described(batch):
    (environment,) = batch.call("DescribeComputeEnvironments")["computeEnvironments"]
    return environment


def update(batch, **fields):
    return batch.call("UpdateComputeEnvironment", computeEnvironment=NAME, **fields)


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_is_created_updated_and_deleted(batch, kind):
    created = create(batch, kind, tags={"team": "a"})
    environment = described(batch)
    assert environment["computeEnvironmentArn"] == created["computeEnvironmentArn"]
    assert (environment["state"], environment["status"]) == ("ENABLED", "VALID")
    assert environment["statusReason"] == "ComputeEnvironment Healthy"
    assert environment["tags"] == {"team": "a"}
    assert environment["computeResources"]["type"] == kind
    assert environment["containerOrchestrationType"] == "ECS"
    assert environment["serviceRole"].endswith("/AWSServiceRoleForBatch")

    policy = {"jobExecutionTimeoutMinutes": 45, "terminateJobsOnUpdate": False}
    change = {"computeResources": {"maxvCpus": 8}}
    update(batch, **change, serviceRole=batch.role("another"), updatePolicy=policy)
    changed = described(batch)
    assert changed["serviceRole"].endswith("/another")
    assert changed["updatePolicy"] == policy
    assert changed["computeResources"] == environment["computeResources"] | {"maxvCpus": 8}

    delete = {"computeEnvironment": NAME}
    assert "must be DISABLED" in batch.refusal("DeleteComputeEnvironment", **delete)
    update(batch, state="DISABLED")
    assert described(batch)["state"] == "DISABLED"
    batch.call("DeleteComputeEnvironment", **delete)
    assert batch.call("DescribeComputeEnvironments")["computeEnvironments"] == []


@pytest.mark.parametrize(
    ("kind", "change", "message"),
    [
        *((kind, {"state": "OFF"}, NO_STATE) for kind in KINDS),
        *(
            (kind, {"serviceRole": "nobody"}, "Service role nobody does not exist")
            for kind in KINDS
        ),
        (
            "EC2",
            {"computeResources": {"minvCpus": 9}},
            "minvCpus must be between 0 and maxvCpus 4, not 9",
        ),
        ("SPOT", {"computeResources": {"subnets": ["subnet-0"]}}, "Subnet subnet-0 does not exist"),
    ],
)
def test_a_refused_update_changes_nothing(batch, kind, change, message):
    create(batch, kind)
    before = described(batch)
    asked = {"state": "DISABLED", "serviceRole": batch.role("another")} | change
    assert batch.refusal("UpdateComputeEnvironment", computeEnvironment=NAME, **asked) == message
    assert described(batch) == before


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"type": "OTHER"}, "type must be one of MANAGED | UNMANAGED, not OTHER"),
        ({"type": "UNMANAGED"}, "no UNMANAGED compute environments"),
        ({"type": "MANAGED"}, "computeResources must be provided for type MANAGED"),
        ({"computeEnvironmentName": "a b"}, "not 'a b'"),
    ],
)
def test_a_creation_that_aws_refuses(batch, fields, message):
    asked = {"computeEnvironmentName": NAME, "type": "MANAGED"} | fields
    assert message in batch.refusal("CreateComputeEnvironment", **asked)


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("type", "ECS_MANAGED_INSTANCES", "not ECS_MANAGED_INSTANCES"),
        ("instanceTypes", ["x99"], "Instance type x99 does not exist"),
        ("instanceTypes", [], "instanceTypes must be provided for type EC2"),
        ("instanceRole", "nobody", "Instance profile nobody does not exist"),
        ("securityGroupIds", ["sg-0"], "Security group sg-0 does not exist"),
        ("securityGroupIds", [], "securityGroupIds must be provided"),
        ("maxvCpus", None, "maxvCpus must be provided"),
    ],
)
def test_resources_that_aws_refuses(batch, field, value, message):
    resources = batch.resources(**{field: value})
    asked = {"computeEnvironmentName": NAME, "type": "MANAGED", "computeResources": resources}
    assert message in batch.refusal("CreateComputeEnvironment", **asked)


def test_a_name_is_taken_once(batch):
    batch.environment(NAME)
    asked = {"computeEnvironmentName": NAME, "type": "MANAGED"}
    assert "already exists" in batch.refusal("CreateComputeEnvironment", **asked)


def test_an_update_of_nothing_is_refused(batch):
    asked = {"computeEnvironment": "nothing", "state": "DISABLED"}
    assert "nothing does not exist" in batch.refusal("UpdateComputeEnvironment", **asked)


def test_families_and_batchs_own_bundles_of_instance_types(batch):
    types = ["p3", "p3.2xlarge", "g4dn", "c5.large", "default_x86_64", "default_arm64", "optimal"]
    create(batch, "EC2", computeResources=batch.resources(instanceTypes=types, minvCpus=2))
    assert described(batch)["computeResources"]["instanceTypes"] == types


def test_security_groups_may_be_in_a_launch_template(batch):
    resources = batch.resources(launchTemplate={"launchTemplateName": "template"})
    del resources["securityGroupIds"]
    create(batch, "EC2", computeResources=resources)
    assert described(batch)["computeResources"] == resources


@pytest.mark.parametrize(("path", "named"), [("/", "own"), ("/team/", "/team/own")])
def test_a_service_role_may_be_named_without_its_arn(batch, path, named):
    arn = batch.role("own", path)
    create(batch, "EC2", serviceRole=named)
    assert described(batch)["serviceRole"] == arn
