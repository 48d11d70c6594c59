"""The image in ECR, earlier attempts to pull it, the vCPU quota, and routes of the subnets."""

from datetime import timedelta

import pytest

from tests.builders.existing_jobs import definition
from tests.stand_ins.diagnosis_answers import (
    DEFINITION,
    ENVIRONMENT,
    IMAGE,
    INTERNET,
    NOW,
    container,
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
    assert codes == ["L-DB2E81BA", "L-3819A6DF"]


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
