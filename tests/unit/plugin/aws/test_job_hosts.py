"""What a job ran on, as ECS, EC2 and Batch answer."""

from datetime import UTC, datetime

import pytest

from batchmark.aws.job_hosts import JobHost, host_of
from tests.builders.existing_jobs import environment, queue
from tests.builders.watched_jobs import CLUSTER, DIGEST, HOST, TASK, described
from tests.stand_ins.stubbed_clients import StubbedClients

AT = datetime(2026, 11, 21, 0, 59, tzinfo=UTC)
ENVIRONMENT = environment("lab-spot", resources={"type": "SPOT"}, ecsClusterArn=CLUSTER)
OTHER = environment("other", ecsClusterArn=f"{CLUSTER}2")
INSTANCE = {
    "containerInstanceArn": HOST,
    "ec2InstanceId": "i-0f",
    "registeredAt": AT,
    "attributes": [
        {"name": "ecs.instance-type", "value": "g5.xlarge"},
        {"name": "ecs.availability-zone", "value": "us-east-1b"},
        {"name": "ecs.ami-id", "value": "ami-1"},
        {"name": "ecs.capability.gpu"},
    ],
}
STARTED = {
    "pullStartedAt": AT,
    "pullStoppedAt": AT,
    "startedAt": AT,
    "containers": [{"name": "default", "imageDigest": DIGEST}],
}
EC2 = {
    "InstanceType": "g5.xlarge",
    "InstanceLifecycle": "spot",
    "ImageId": "ami-1",
    "Placement": {"AvailabilityZone": "us-east-1b"},
}
ALL = JobHost(
    container_instance=HOST,
    instance_id="i-0f",
    instance_type="g5.xlarge",
    availability_zone="us-east-1b",
    ami_id="ami-1",
    registered_at=AT,
    compute_environment="lab-spot",
    purchase_option="spot",
    image_digest=DIGEST,
    image_pull_started_at=AT,
    image_pull_stopped_at=AT,
    container_started_at=AT,
)


@pytest.fixture
def aws():
    return StubbedClients("us-east-1")


def answer(aws, *, refused="", instance=INSTANCE, ec2=EC2, environments=(ENVIRONMENT, OTHER)):
    """Answer all questions, but the one that is refused."""
    names = [each["computeEnvironmentName"] for each in environments]
    order = [{"order": number, "computeEnvironment": one} for number, one in enumerate(names)]
    of_cluster = {"cluster": CLUSTER}
    answers = {
        ("batch", "describe_job_queues"): (
            {"jobQueues": [queue(computeEnvironmentOrder=order)]},
            {"jobQueues": ["queue"]},
        ),
        ("batch", "describe_compute_environments"): (
            {"computeEnvironments": list(environments)},
            {"computeEnvironments": names},
        ),
        ("ecs", "describe_container_instances"): (
            {"containerInstances": [instance]},
            of_cluster | {"containerInstances": [HOST]},
        ),
        ("ecs", "describe_tasks"): ({"tasks": [STARTED]}, of_cluster | {"tasks": [TASK]}),
        ("ec2", "describe_instances"): (
            {"Reservations": [{"Instances": [ec2]}] if ec2 else []},
            {"InstanceIds": ["i-0f"]},
        ),
    }
    for (service, method), answer_and_question in answers.items():
        if method == refused:
            aws.refuse(service, method, "AccessDeniedException")
        else:
            aws.answer(service, method, *answer_and_question)


@pytest.mark.parametrize("attributes", [INSTANCE["attributes"], []])
def test_all_that_aws_knows(aws, attributes):
    """EC2 tells what ECS lacks."""
    answer(aws, instance=INSTANCE | {"attributes": attributes})
    assert host_of(aws, described()) == ALL
    aws.assert_all_was_asked()


def test_an_on_demand_instance_of_a_queue_with_both(aws):
    answer(aws, ec2={key: value for key, value in EC2.items() if key != "InstanceLifecycle"})
    assert host_of(aws, described()).purchase_option == "on_demand"


@pytest.mark.parametrize(("kind", "bought"), [("SPOT", "spot"), ("EC2", "on_demand")])
def test_an_instance_that_is_gone_was_bought_as_its_environment_buys(aws, kind, bought):
    one = environment("lab-spot", resources={"type": kind}, ecsClusterArn=CLUSTER)
    answer(aws, ec2=None, environments=[one])
    assert host_of(aws, described()).purchase_option == bought


@pytest.mark.parametrize(
    ("refused", "unknown"),
    [
        ("describe_tasks", {"image_digest", "image_pull_started_at", "image_pull_stopped_at"}),
        ("describe_instances", set()),
    ],
)
def test_what_aws_refuses_is_not_known_and_said_once(aws, refused, unknown, caplog):
    answer(aws, refused=refused)
    caplog.set_level("INFO")
    found = host_of(aws, described())
    gone = {name for name, value in found if value is None}
    assert gone == unknown | ({"container_started_at"} if unknown else set())
    (line,) = caplog.messages
    assert "AccessDeniedException" in line


def test_a_cluster_is_in_the_instances_arn_if_no_queue_tells_and_without_a_host_none_is_asked(aws):
    aws.refuse("batch", "describe_job_queues", "AccessDeniedException")
    asked = {"cluster": "lab_Batch_1", "containerInstances": [HOST]}
    aws.answer("ecs", "describe_container_instances", {"containerInstances": []}, asked)
    aws.refuse("ecs", "describe_tasks", "InvalidParameterException")
    assert host_of(aws, described()) == JobHost(container_instance=HOST)
    aws.assert_all_was_asked()
    job = described(container={"containerInstanceArn": None})
    assert host_of(aws, job) == JobHost()
