"""All management calls of compute environments of all kinds, and of job queues."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from moto.ecs.models import ecs_backends
from moto.iam.exceptions import NotFoundException
from moto.iam.models import IAMBackend

from tests.stand_ins.local_batch import ACCOUNT, REGION
from tests.waiting import PATIENCE_SECONDS

NAME = "environment"
NOBODY = "arn:aws:iam::123456789012:role/nobody"
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
        *((kind, {"serviceRole": NOBODY}, f"{NOBODY} does not exist") for kind in KINDS),
        ("EC2", {"computeResources": {"minvCpus": 9}}, "between 0 and maxvCpus (4), not 9"),
        ("SPOT", {"computeResources": {"subnets": ["subnet-0"]}}, "subnet-0 does not exist"),
    ],
)
def test_a_refused_update_changes_nothing(batch, kind, change, message):
    create(batch, kind)
    before = described(batch)
    asked = {"state": "DISABLED"} | change
    assert message in batch.refusal("UpdateComputeEnvironment", computeEnvironment=NAME, **asked)
    assert described(batch) == before


@pytest.mark.parametrize(
    ("kind", "resources", "message"),
    [
        ("UNMANAGED", None, "not support UNMANAGED compute environments"),
        ("MANAGED", None, "computeResources must be provided for type MANAGED"),
        ("MANAGED", {"instanceTypes": []}, "instanceTypes must be provided for type EC2"),
        ("MANAGED", {"instanceRole": "nobody"}, "Instance profile nobody does not exist"),
        ("MANAGED", {"securityGroupIds": ["sg-0"]}, "Security group sg-0 does not exist"),
        ("MANAGED", {"securityGroupIds": []}, "securityGroupIds must be provided"),
        ("MANAGED", {"maxvCpus": None}, "maxvCpus must be provided"),
    ],
)
def test_a_creation_that_aws_refuses(batch, kind, resources, message):
    asked = {"computeEnvironmentName": NAME, "type": kind}
    if resources:
        asked["computeResources"] = batch.resources(**resources)
    assert message in batch.refusal("CreateComputeEnvironment", **asked)


def test_a_name_is_taken_once_and_nothing_is_not_updated(batch):
    asked = {"computeEnvironment": NAME, "state": "DISABLED"}
    assert f"{NAME} does not exist" in batch.refusal("UpdateComputeEnvironment", **asked)
    batch.environment(NAME)
    again = {"computeEnvironmentName": NAME, "type": "MANAGED"}
    assert "already exists" in batch.refusal("CreateComputeEnvironment", **again)


def test_security_groups_may_be_in_a_launch_template(batch):
    resources = batch.resources(launchTemplate={"launchTemplateName": "template"})
    del resources["securityGroupIds"]
    create(batch, "EC2", computeResources=resources)
    assert described(batch)["computeResources"] == resources


def test_two_at_once_share_a_role_that_neither_finds(batch, monkeypatch):
    """Terraform asks for several environments at once, in an account that never had one."""
    both_looked = threading.Barrier(2)
    get_role, looks = IAMBackend.get_role, iter(range(2))

    def look(backend, name):
        if next(looks, None) is None:
            return get_role(backend, name)
        both_looked.wait(PATIENCE_SECONDS)
        raise NotFoundException(f"Role {name} not found")

    monkeypatch.setattr(IAMBackend, "get_role", look)
    with ThreadPoolExecutor() as pool:
        list(pool.map(batch.environment, ("one", "other")))
    environments = batch.call("DescribeComputeEnvironments")["computeEnvironments"]
    assert len({environment["serviceRole"] for environment in environments}) == 1
    assert len(environments) == 2


@pytest.fixture
def queue(batch):
    batch.environment()
    return batch.queue(state=None)


def described_queue(batch):
    (queue,) = batch.call("DescribeJobQueues")["jobQueues"]
    return queue


def test_a_queue_is_enabled_and_names_its_environments_by_their_arns(batch, queue):
    assert described_queue(batch)["state"] == "ENABLED"
    assert "schedulingPolicyArn" not in described_queue(batch)
    batch.environment("other")
    (first,) = described_queue(batch)["computeEnvironmentOrder"]
    assert first["computeEnvironment"].endswith(":compute-environment/environment")
    order = [{"order": 1, "computeEnvironment": "other"}]
    batch.call("UpdateJobQueue", jobQueue=queue, computeEnvironmentOrder=order)
    (second,) = described_queue(batch)["computeEnvironmentOrder"]
    assert second["computeEnvironment"].endswith(":compute-environment/other")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"computeEnvironmentOrder": [{"order": 1, "computeEnvironment": "nothing"}]},
            "Compute environment nothing does not exist",
        ),
        ({"computeEnvironmentOrder": []}, "At least 1 compute environment must be provided"),
        ({"jobQueue": "nothing"}, "Job queue nothing does not exist"),
    ],
)
def test_a_refused_update_of_a_queue_changes_nothing(batch, queue, change, message):
    before = described_queue(batch)
    asked = {"jobQueue": queue, "state": "DISABLED", "priority": 7} | change
    assert batch.refusal("UpdateJobQueue", **asked) == message
    assert described_queue(batch) == before


def test_environments_and_queues_are_deleted_in_awss_order(batch, queue):
    of_environment = {"computeEnvironment": "environment"}
    batch.call("UpdateComputeEnvironment", **of_environment, state="DISABLED")
    refused = batch.refusal("DeleteComputeEnvironment", **of_environment)
    assert "JobQueue relationship" in refused
    assert "must be DISABLED" in batch.refusal("DeleteJobQueue", jobQueue=queue)
    batch.call("UpdateJobQueue", jobQueue=queue, state="DISABLED")
    batch.call("DeleteJobQueue", jobQueue=queue)
    assert batch.call("DescribeJobQueues")["jobQueues"] == []
    (cluster,) = ecs_backends[ACCOUNT][REGION].clusters
    assert cluster.startswith("environment_Batch_")
    batch.call("DeleteComputeEnvironment", **of_environment)
    assert not ecs_backends[ACCOUNT][REGION].clusters


def test_a_queue_keeps_its_time_limits(batch):
    limit = {"reason": "any", "state": "RUNNABLE", "maxTimeSeconds": 600, "action": "CANCEL"}
    longer = limit | {"maxTimeSeconds": 900}
    batch.environment()
    queue = batch.queue(jobStateTimeLimitActions=[limit])
    assert described_queue(batch)["jobStateTimeLimitActions"] == [limit]
    batch.call("UpdateJobQueue", jobQueue=queue, priority=2)
    assert described_queue(batch)["jobStateTimeLimitActions"] == [limit]
    batch.call("UpdateJobQueue", jobQueue=queue, jobStateTimeLimitActions=[longer])
    assert described_queue(batch)["jobStateTimeLimitActions"] == [longer]
