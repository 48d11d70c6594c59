"""Tasks and instances of jobs, as ECS and EC2 describe them."""

import json
import re

import pytest
from moto.ec2.exceptions import FilterNotImplementedError, InvalidInstanceIdError
from moto.ec2.models import ec2_backends

from local_cloud.batch.ecs import answers, tasks
from local_cloud.batch.ecs.instances import instance_type, new_arn
from local_cloud.batch.jobs.resources import Requirements
from tests.stand_ins.local_batch import ACCOUNT, REGION, local_batch, signed
from tests.waiting import wait_for

OTHER = {"cluster": "other", "tasks": ["any"], "containerInstances": ["any"]}


@pytest.fixture
def batch(monkeypatch):
    """With one job that runs in an environment of g4dn.xlarge Spot instances."""
    for owner, function in answers.REPLACED:
        monkeypatch.setattr(owner, function.__name__, function)
    with local_batch(gpus=1) as made:
        resources = made.resources("SPOT", instanceTypes=["g4dn.xlarge"], tags={"team": "a"})
        made.call(
            "CreateComputeEnvironment",
            computeEnvironmentName="spot",
            type="MANAGED",
            computeResources={**resources, "imageId": "ami-1"},
        )
        made.queue(environment="spot")
        made.define()
        made.job_id = made.submit()
        made.wait_for_starts(1)
        yield made


def asked(batch, operation, **fields):
    """An answer of ECS, with the cluster of the environment unless `fields` name another."""
    (environment,) = batch.call("DescribeComputeEnvironments")["computeEnvironments"]
    answered = batch.client.post(
        "/",
        data=json.dumps({"cluster": environment["ecsClusterArn"], **fields}),
        headers={
            **signed("ecs"),
            "X-Amz-Target": f"AmazonEC2ContainerServiceV20141113.{operation}",
            "Content-Type": "application/x-amz-json-1.1",
        },
        base_url="http://ecs.us-east-1.amazonaws.com",
    )
    return answered.status_code, json.loads(answered.text)


def described(batch, operation, **fields):
    status, answer = asked(batch, operation, **fields)
    assert status == 200, answer
    return answer


def container(batch):
    return batch.describe(batch.job_id)["container"]


def running_task(batch):
    (task,) = described(batch, "DescribeTasks", tasks=[container(batch)["taskArn"]])["tasks"]
    return task


def test_the_task_of_a_job_that_runs(batch):
    job = batch.scheduler_job(batch.job_id)
    wait_for(lambda: job.status == "RUNNING", "start of the job", every=0.001)
    task = running_task(batch)
    assert (task["lastStatus"], task["desiredStatus"]) == ("RUNNING", "RUNNING")
    assert task["containerInstanceArn"] == container(batch)["containerInstanceArn"]
    assert job.created_at / 1000 <= task["createdAt"] <= task["startedAt"]
    assert not {"stoppedAt", "stopCode", "pullStartedAt", "pullStoppedAt"} & task.keys()
    (inside,) = task["containers"]
    assert (inside["image"], inside["lastStatus"]) == ("image", "RUNNING")
    assert "imageDigest" not in inside  # no engine has it
    record = job.attempts[0].nodes[0]
    record.image_digest, record.pull_started_at, record.pull_stopped_at = "sha256:1", 1000, 2500
    task = running_task(batch)
    assert (task["pullStartedAt"], task["pullStoppedAt"]) == (1.0, 2.5)
    assert task["containers"][0]["imageDigest"] == "sha256:1"


def test_the_task_of_a_job_that_has_ended_is_remembered_for_an_hour(batch, monkeypatch):
    batch.finish(batch.job_id)
    task = running_task(batch)
    assert (task["lastStatus"], task["stopCode"]) == ("STOPPED", "EssentialContainerExited")
    job = batch.describe(batch.job_id)
    assert [task["startedAt"], task["stoppedAt"]] == [
        job["startedAt"] / 1000,
        job["stoppedAt"] / 1000,
    ]
    assert task["stoppedReason"] == "Essential container in task exited"
    assert task["containers"][0]["exitCode"] == 0
    monkeypatch.setattr(tasks, "STOPPED_SECONDS", -1.0)
    answer = described(batch, "DescribeTasks", tasks=[task["taskArn"]])
    assert answer["tasks"] == []
    assert answer["failures"] == [{"arn": task["taskArn"], "reason": "MISSING"}]


def test_the_task_of_a_job_that_was_terminated_was_stopped_by_a_user(batch):
    batch.call("TerminateJob", jobId=batch.job_id, reason="enough")
    batch.finish(batch.job_id)
    assert running_task(batch)["stopCode"] == "UserInitiated"


def test_the_instance_of_an_environment(batch):
    arn = container(batch)["containerInstanceArn"]
    assert re.fullmatch(r"arn:aws:ecs:us-east-1:\d+:container-instance/spot_Batch_.*/\w{32}", arn)
    assert described(batch, "ListContainerInstances")["containerInstanceArns"] == [arn]
    answer = described(batch, "DescribeContainerInstances", containerInstances=[arn, "none"])
    assert answer["failures"] == [{"arn": "none", "reason": "MISSING"}]
    (instance,) = answer["containerInstances"]
    attributes = {each["name"]: each["value"] for each in instance["attributes"]}
    assert attributes == {
        "ecs.ami-id": "ami-1",
        "ecs.availability-zone": "us-east-1a",
        "ecs.instance-type": "g4dn.xlarge",
        "ecs.os-type": "linux",
    }
    assert (instance["status"], instance["agentConnected"]) == ("ACTIVE", True)
    job = batch.scheduler_job(batch.job_id)
    assert instance["registeredAt"] == job.attempts[0].created_at / 1000
    (found,) = answers.all_instances(ec2_backends[ACCOUNT][REGION])
    assert found.ec2_id == instance["ec2InstanceId"]
    for ec2_id, arns in ((found.ec2_id, [arn]), ("i-0123456789abcdef0", [])):
        listed = described(batch, "ListContainerInstances", filter=f"ec2InstanceId == {ec2_id}")
        assert listed["containerInstanceArns"] == arns


def test_the_instance_stays_for_the_next_job(batch):
    first = container(batch)["containerInstanceArn"]
    batch.finish(batch.job_id)
    again = batch.submit()
    batch.finish(again)
    assert batch.describe(again)["container"]["containerInstanceArn"] == first
    answer = described(batch, "DescribeContainerInstances", containerInstances=[first])
    (instance,) = answer["containerInstances"]
    assert instance["registeredAt"] < batch.describe(again)["createdAt"] / 1000
    assert instance["runningTasksCount"] == 0


@pytest.mark.parametrize(
    ("operation", "fields", "kind", "message"),
    [
        ("DescribeTasks", OTHER, "ClusterNotFound", ""),
        ("DescribeContainerInstances", OTHER, "ClusterNotFound", ""),
        ("ListContainerInstances", OTHER, "ClusterNotFound", ""),
        ("DescribeTasks", {"tasks": []}, "InvalidParameter", "Tasks cannot be empty."),
        ("ListContainerInstances", {"filter": "agentConnected == true"}, "InvalidParameter", ""),
        ("ListTasks", {}, "InvalidParameter", "The local cloud does not support ListTasks"),
    ],
)
def test_what_is_refused(batch, operation, fields, kind, message):
    status, refused = asked(batch, operation, **fields)
    assert (status, refused["__type"]) == (400, f"{kind}Exception")
    assert refused["message"].startswith(message)


def test_ec2_knows_an_instance_by_its_id_and_lists_none(batch):
    ec2 = ec2_backends[ACCOUNT][REGION]
    (instance,) = answers.all_instances(ec2)
    (reservation,) = ec2.get_reservations_by_instance_ids([instance.ec2_id])
    assert reservation.id == reservation["ReservationId"]  # moto's answers read it
    (found,) = reservation["Instances"]
    assert found["InstanceType"] == "g4dn.xlarge"
    assert found["InstanceLifecycle"] == "spot"
    assert found["Placement"]["AvailabilityZone"] == "us-east-1a"
    assert found["Tags"] == [{"Key": "team", "Value": "a"}]
    assert ec2.describe_instances() == []
    with pytest.raises(FilterNotImplementedError):
        ec2.get_reservations_by_instance_ids([instance.ec2_id], {"tag:team": ["a"]})
    with pytest.raises(InvalidInstanceIdError):
        ec2.get_reservations_by_instance_ids(["i-0123456789abcdef0"])


SMALL = Requirements(2.0, 1024)


@pytest.mark.parametrize(
    ("named", "needed", "found"),
    [
        (["c5.2xlarge"], SMALL, "c5.2xlarge"),
        (["c5"], SMALL, "c5.large"),
        (["c5"], Requirements(6.0, 1024), "c5.2xlarge"),
        (["c5.large", "g4dn.xlarge"], Requirements(2.0, 1024, gpus=1), "g4dn.xlarge"),
        (["optimal"], SMALL, "m4.large"),
        (["c5.large"], Requirements(64.0, 1024), "c5.large"),
        (["p2"], SMALL, "p2"),
        ([], SMALL, None),
    ],
)
def test_the_smallest_type_that_a_job_fits_on(named, needed, found):
    assert instance_type(named, needed) == found


def test_a_cluster_has_always_the_same_instance():
    first, second = (f"arn:aws:ecs:us-east-1:1:cluster/{name}" for name in "ab")
    assert new_arn(first) == new_arn(first)
    assert new_arn(first).startswith("arn:aws:ecs:us-east-1:1:container-instance/a/")
    assert new_arn(first) != new_arn(second)
