"""What a client of ECS and EC2 learns of a job's task and its instance."""

import pytest


def test_from_a_job_to_its_instance_and_back(cloud):
    job = cloud.finish(cloud.shell("true"))
    container = job["container"]
    described = cloud.batch.describe_compute_environments(
        computeEnvironments=[cloud.compute_environment]
    )
    (environment,) = described["computeEnvironments"]
    ecs, cluster = cloud.client("ecs"), environment["ecsClusterArn"]
    (task,) = ecs.describe_tasks(cluster=cluster, tasks=[container["taskArn"]])["tasks"]
    assert task["lastStatus"] == "STOPPED"
    assert task["startedAt"].timestamp() == pytest.approx(job["startedAt"] / 1000)
    assert task["stoppedAt"].timestamp() == pytest.approx(job["stoppedAt"] / 1000)
    (host,) = ecs.describe_container_instances(
        cluster=cluster, containerInstances=[task["containerInstanceArn"]]
    )["containerInstances"]
    assert {"name": "ecs.instance-type", "value": "g4dn.xlarge"} in host["attributes"]
    assert host["registeredAt"] <= task["createdAt"]
    (found,) = ecs.get_paginator("list_container_instances").paginate(
        cluster=cluster, filter=f"ec2InstanceId == {host['ec2InstanceId']}", status="ACTIVE"
    )
    assert found["containerInstanceArns"] == [host["containerInstanceArn"]]
    ec2 = cloud.client("ec2")
    (reservation,) = ec2.describe_instances(InstanceIds=[host["ec2InstanceId"]])["Reservations"]
    (instance,) = reservation["Instances"]
    assert instance["InstanceType"] == "g4dn.xlarge"
    assert "InstanceLifecycle" not in instance
    assert instance["Placement"]["AvailabilityZone"] == "us-east-1a"
    assert instance["LaunchTime"].replace(microsecond=0) == host["registeredAt"].replace(
        microsecond=0
    )
    assert ec2.describe_instances()["Reservations"] == []
