"""What instances need: the image, the vCPU quota and routes; and how they are in EC2 and ECS."""

from datetime import timedelta

import pytest

from batchmark.checks.diagnosis.instances import launch_failure
from tests.builders.existing_jobs import definition
from tests.stand_ins.diagnosis_answers import (
    DEFINITION,
    ENVIRONMENT,
    IMAGE,
    INTERNET,
    NOW,
    container,
    environment,
    group_of_batch,
    instance_type,
    job,
    one_environment,
    only,
    quota,
    route_table,
)


@pytest.mark.parametrize("code", ["ImageNotFoundException", "RepositoryNotFoundException"])
def test_an_image_that_ecr_does_not_have(find, aws, code):
    starting = find({"DescribeImages": code}, job=job(status="STARTING"))
    only(starting, "image_missing", certain=True)
    assert f"Image {IMAGE} is not in ECR." in starting.message()
    named = {"registryId": "123456789012", "repositoryName": "batchmark"}
    assert aws.asked("DescribeImages") == [named | {"imageIds": [{"imageTag": "0.1.0"}]}]
    only(find(job=job()), "image_missing", "it will fail", certain=False)


BY_DIGEST = f"sha256:{'0' * 64}"


@pytest.mark.parametrize(
    ("image", "asked"),
    [
        (IMAGE.replace(":0.1.0", f"@{BY_DIGEST}"), [[{"imageDigest": BY_DIGEST}]]),
        ("python:3.11", []),  # of another registry
    ],
)
def test_an_image_is_looked_up_as_its_name_says(find, aws, image, asked):
    assert find(job=job(container=container(image=image))).findings == ()
    assert [each["imageIds"] for each in aws.asked("DescribeImages")] == asked


def test_an_image_that_could_not_be_pulled(find):
    reason = "CannotPullContainerError: pull image manifest has been retried 7 time(s)"
    attempts = [{"container": {"reason": reason}}, {"container": {}}]
    words = f"1 attempt(s) could not pull the image; the last error was: {reason}"
    only(find(job=job(attempts=attempts)), "image_not_pulled", words, certain=True)


def test_what_can_not_be_looked_up_is_reported(ask):
    image = IMAGE.replace("us-east-1", "eu-west-1")
    diagnosis = ask(job=job(container=container(image=image)))
    assert diagnosis.unread == (f"the image in ECR: {image} is in eu-west-1, not in us-east-1",)
    types = {"InstanceTypes": [instance_type("hpc7a.12xlarge", 24)]}
    (unread,) = ask({"DescribeInstanceTypes": types}).unread
    assert unread == "the vCPU service quota: the vCPU quota for hpc7a.12xlarge is unknown"


def several_nodes(described, of_each):
    """As described, but of 20 nodes with a container each."""
    ranges = [{"targetNodes": "0:", "container": of_each}]
    nodes = {"mainNode": 0, "numNodes": 20, "nodeRangeProperties": ranges}
    alone = ("container", "containerProperties")
    kept = {key: value for key, value in described.items() if key not in alone}
    return kept | {"nodeProperties": nodes}


def test_a_quota_below_all_nodes_of_a_job_or_one_instance(find, aws):
    words = f"is 64 vCPUs, but 20 g5.xlarge in {ENVIRONMENT} take 80."
    only(find(job=several_nodes(job(), container())), "service_quota", words, certain=True)
    diagnosis = find({"GetServiceQuota": {"Quota": quota(0)}})
    finding = only(diagnosis, "service_quota", certain=True)
    assert finding.evidence == (
        "Quota 'Running On-Demand G and VT instances' (L-DB2E81BA) is 0 vCPUs, but one g5.xlarge "
        f"in {ENVIRONMENT} takes 4."
    )
    on_spot = one_environment(resources={"type": "SPOT"})
    only(find(on_spot), "service_quota", "(L-3819A6DF) is 0 vCPUs")
    codes = [asked["QuotaCode"] for asked in aws.asked("GetServiceQuota")]
    assert codes[1:] == ["L-DB2E81BA", "L-3819A6DF"]


def test_a_definition_of_several_nodes_says_what_one_asks_for(find):
    of_nodes = several_nodes(definition(type="multinode"), container(vcpus=400))
    changed = {
        "ListJobs": {"jobSummaryList": []},
        "DescribeJobDefinitions": {"jobDefinitions": [of_nodes]},
        "GetServiceQuota": {"Quota": quota(80)},
    }
    found = find(changed, job_definition=DEFINITION).findings
    assert "service_quota" not in [one.cause for one in found]
    assert any("requests 400 vCPUs" in one.evidence for one in found)


@pytest.mark.parametrize(("used", "reached"), [(60, False), (61, True)])
def test_a_quota_that_is_used_up(find, aws, used, reached):
    points = [
        {"Timestamp": NOW - timedelta(minutes=25), "Maximum": 64.0},
        {"Timestamp": NOW - timedelta(minutes=5), "Maximum": float(used)},
    ]
    diagnosis = find({"GetMetricStatistics": {"Datapoints": points}})
    (asked,) = aws.asked("GetMetricStatistics")
    assert asked["Dimensions"][0] == {"Name": "Class", "Value": "G/OnDemand"}
    if reached:
        only(diagnosis, "service_quota", "61 are already in use", certain=False)
    else:
        assert diagnosis.findings == ()


def endpoints(*names):
    found = [{"ServiceName": f"com.amazonaws.us-east-1.{name}"} for name in names]
    return {"DescribeVpcEndpoints": {"VpcEndpoints": found}}


ALL_ENDPOINTS = ("ecs", "ecs-agent", "ecs-telemetry", "ecr.api", "ecr.dkr", "logs", "s3")


def tables(*found):
    return {"DescribeRouteTables": {"RouteTables": list(found)}}


PRIVATE = {"DescribeSubnets": {"Subnets": [{"SubnetId": "subnet-1", "VpcId": "vpc-1"}]}}
NAT = {"DestinationCidrBlock": "0.0.0.0/0", "NatGatewayId": "nat-1", "State": "active"}


@pytest.mark.parametrize(
    ("answers", "evidence"),
    [
        (tables(route_table()), "subnet-1 has no default route, and vpc-1 has no endpoints for"),
        (tables(route_table()) | endpoints(*ALL_ENDPOINTS[:-1]), "vpc-1 has no endpoints for s3."),
        (tables(route_table(NAT | {"State": "blackhole"})), "default route to a deleted target"),
        (PRIVATE, "routes to igw-1, but its instances get no public IP address"),
        (tables(route_table(INTERNET), route_table(subnet="subnet-1")), "no default route"),
    ],
    ids=["no way", "an endpoint missing", "blackhole", "no address", "own table before the main"],
)
def test_a_subnet_without_a_way_out(find, answers, evidence):
    only(find(answers), "subnet_without_route", evidence, certain=False)


@pytest.mark.parametrize(
    "answers",
    [
        tables(route_table(NAT)) | PRIVATE,
        tables(route_table()) | endpoints(*ALL_ENDPOINTS),
        tables(route_table(), route_table(INTERNET, subnet="subnet-1")),
    ],
    ids=["NAT", "endpoints", "own table before the main"],
)
def test_a_subnet_with_a_way_out(find, answers):
    assert find(answers).findings == ()


@pytest.mark.parametrize(
    ("asked", "certain"),
    [
        ({"vcpus": 5}, True),
        ({"gpus": 2}, True),
        ({"memory": 16384}, True),
        ({"memory": 16384 - 31}, True),
        ({"memory": 16384 - 32}, False),
        ({"memory": 15565}, False),
    ],
)
def test_a_job_too_large_for_every_instance(find, asked, certain):
    words = "g5.xlarge with 4 vCPUs, 16384 MiB and 1 GPU(s)"
    diagnosis = find(job=job(container=container(**asked)))
    only(diagnosis, "job_does_not_fit", words, certain=certain)


def test_a_job_that_fits_or_is_of_several_nodes_is_not_too_large_and_older_fields_count(find):
    assert find(job=job(container=container(memory=15564))).findings == ()
    of_nodes = job(nodeProperties={"numNodes": 2, "mainNode": 0, "nodeRangeProperties": []})
    del of_nodes["container"]
    assert find(job=of_nodes).findings == ()
    diagnosis = find(job=job(container={"vcpus": 8, "memory": 1024}))
    only(diagnosis, "job_does_not_fit", "The job requests 8 vCPUs, 1024 MiB and 0 GPU(s)")


def test_a_job_fits_if_any_of_the_environments_types_is_large_enough(find, aws):
    types = [instance_type(), instance_type("g5.12xlarge", 48, 196608, 4)]
    changed = one_environment(resources={"instanceTypes": ["g5"]})
    changed["DescribeInstanceTypes"] = {"InstanceTypes": types}
    assert find(changed, job=job(container=container(gpus=4))).findings == ()
    asked, *_ = aws.asked("DescribeInstanceTypes")
    assert asked["Filters"] == [{"Name": "instance-type", "Values": ["g5.*"]}]


def test_types_that_the_region_lacks_or_batch_chooses_are_reported(find, ask):
    diagnosis = find({"DescribeInstanceTypes": {"InstanceTypes": []}})
    only(diagnosis, "job_does_not_fit", "EC2 doesn't offer this type here")
    diagnosis = ask(one_environment(resources={"instanceTypes": ["optimal"]}))
    text = f"Batch itself chooses the instance types of {ENVIRONMENT} (optimal)"
    assert f"the size of the instance types: {text}" in diagnosis.unread


def container_instance(instance_id="i-1", *, connected=True, tasks=0):
    known = {"ec2InstanceId": instance_id, "agentConnected": connected, "status": "ACTIVE"}
    return known | {"runningTasksCount": tasks}


def cluster(*instances):
    arns = [instance["ec2InstanceId"] for instance in instances]
    return {
        "ListContainerInstances": {"containerInstanceArns": arns},
        "DescribeContainerInstances": {"containerInstances": list(instances)},
    }


def groups(*instance_ids, **group):
    return {"AutoScalingGroups": [group_of_batch(*instance_ids, **group)]}


def running(*instance_ids, minutes=11, **group):
    launched = NOW - timedelta(minutes=minutes)
    instances = [{"InstanceId": name, "LaunchTime": launched} for name in instance_ids]
    return {
        "DescribeAutoScalingGroups": groups(*instance_ids, **group),
        "DescribeInstances": {"Reservations": [{"Instances": instances}]},
    }


def test_all_vcpus_are_taken_by_running_jobs(find):
    def with_desired(vcpus, tasks):
        there = cluster(container_instance(tasks=tasks))
        return find(one_environment(resources={"desiredvCpus": vcpus}) | there)

    words = "is at 16 of at most 16 vCPUs, and 1 job(s) are running there"
    only(with_desired(16, tasks=1), "max_vcpus_reached", words, certain=False)
    assert with_desired(16, tasks=0).findings == with_desired(15, tasks=1).findings == ()


def test_instances_that_never_joined_the_cluster(find, aws):
    words = ("i-1, i-2, i-3 and 1 more", "for more than 10 minutes, but none has joined")
    diagnosis = find(running("i-1", "i-2", "i-3", "i-4"))
    only(diagnosis, "no_container_instance", *words, certain=True)
    (asked,) = aws.asked("DescribeInstances")
    assert asked["Filters"][1] == {"Name": "instance-id", "Values": ["i-1", "i-2", "i-3", "i-4"]}
    for asked in aws.asked("DescribeAutoScalingGroups"):
        assert asked["Filters"] == [{"Name": "tag-key", "Values": ["AWSBatchServiceTag"]}]


def test_a_group_of_another_name_is_known_by_its_tags(find, aws):
    assert find(running("i-1", name=f"AWSBatch-{ENVIRONMENT}-2-asg-0f")).findings == ()
    assert aws.asked("DescribeInstances") == []
    for value in (ENVIRONMENT, environment()["computeEnvironmentArn"]):
        tags = [{"Key": "any", "Value": value}]
        only(find(running("i-1", name="anything", tags=tags)), "no_container_instance")


def test_an_instance_that_still_boots_or_has_joined_is_not_a_cause_and_a_lost_agent_is(find):
    assert find(running("i-1", minutes=9)).findings == ()
    assert find(running("i-1") | cluster(container_instance("i-1"))).findings == ()
    lost, there = container_instance("i-1", connected=False), container_instance("i-2")
    words = f"The ECS agent on i-1 in {ENVIRONMENT} is disconnected."
    only(find(running("i-1") | cluster(lost)), "agent_disconnected", words, certain=True)
    assert find(cluster(lost, there)).findings == ()


def launches(*activities, **group):
    return {
        "DescribeAutoScalingGroups": groups(**group),
        "DescribeScalingActivities": {"Activities": list(activities)},
    }


def activity(message=None, *, minutes=1, description="Launching a new EC2 instance"):
    found = {"ActivityId": "a", "AutoScalingGroupName": "g", "Cause": "At 11:00 it was started"}
    found |= {"Description": description, "StartTime": NOW - timedelta(minutes=minutes)}
    failed = {"StatusCode": "Failed", "StatusMessage": message}
    return found | (failed if message else {"StatusCode": "Successful"})


NO_CAPACITY = "We currently do not have sufficient g5.xlarge capacity in the Availability Zone"


def test_a_launch_that_failed(find):
    failed = launches(activity(NO_CAPACITY), activity(minutes=5))
    words = "at 2026-11-21 11:59:00 UTC, failed: We currently do not have"
    only(find(failed), "no_capacity", words, certain=True)
    spot = one_environment(resources={"type": "SPOT"})
    only(find(failed | spot), "no_spot_capacity")


@pytest.mark.parametrize(
    "answers",
    [
        launches(activity(NO_CAPACITY, minutes=5), activity(minutes=1)),
        launches(activity(NO_CAPACITY, minutes=61)),
        launches(activity(NO_CAPACITY, description="Terminating EC2 instance: i-1")),
        launches(activity(NO_CAPACITY), name="AWSBatch-another-asg-0f"),
    ],
)
def test_launches_that_are_not_a_cause(find, answers):
    assert find(answers).findings == ()


MANY_VCPUS = "You have requested more vCPU capacity than your current vCPU limit of 0 allows for"


@pytest.mark.parametrize(
    ("words", "cause"),
    [
        ("Max spot instance count exceeded. Launching EC2 instance failed.", "service_quota"),
        (MANY_VCPUS, "service_quota"),
        ("There is no Spot capacity available that matches your request.", "no_spot_capacity"),
        (NO_CAPACITY, "no_capacity"),
        ("The security group 'sg-1' does not exist", "launch_failed"),
    ],
)
def test_the_message_of_a_failed_launch_gives_its_cause(words, cause):
    assert launch_failure(words) == cause
