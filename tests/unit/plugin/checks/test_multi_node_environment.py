"""What is checked of the multi-node stack before a run."""

import json

import pytest

from batchmark.aws.batch_targets import BatchEnvironment, container_of
from batchmark.checks.environment import check_compute_environments, check_job_definitions
from batchmark.checks.image import check_images
from batchmark.checks.machine_image import check_amis
from batchmark.checks.quota import check_quotas
from tests.builders import existing_jobs
from tests.builders.installations import configured
from tests.builders.scaling import stack
from tests.stand_ins.guarded_account import AMI_FOLDERS, ami_document, ami_of
from tests.stand_ins.stubbed_clients import StubbedClients

NODES = stack()
CONTAINER = {"image": "elsewhere/job:1", "jobRoleArn": "arn:role"}
DEFINITION = existing_jobs.definition(
    jobDefinitionArn=NODES.job_definition,
    type="multinode",
    timeout={"attemptDurationSeconds": NODES.timeout_seconds},
    nodeProperties={
        "numNodes": 1,
        "mainNode": 0,
        "nodeRangeProperties": [{"targetNodes": "0:", "container": CONTAINER}],
    },
)
del DEFINITION["containerProperties"]


def environment_with(**resources):
    """Batch's answer."""
    there = existing_jobs.environment("nodes", resources=resources)
    return "batch", "describe_compute_environments", {"computeEnvironments": [there]}


def environment(nodes=1):
    config = NODES.joined_to(configured())
    clients = StubbedClients(config.region)
    targets = {NODES.target: config.targets[NODES.target]}
    return BatchEnvironment(config, targets, clients, nodes), clients


@pytest.mark.parametrize(
    ("changes", "status", "seen"),
    [
        ({}, "ok", "resize:7 is ACTIVE."),
        ({"timeout": {"attemptDurationSeconds": 60}}, "warn", "it has 60 seconds per attempt, but"),
        ({"retryStrategy": {"attempts": 3}}, "warn", "3 attempts, but the published value is 1"),
    ],
)
def test_a_definition_of_nodes_is_compared_in_what_is_published(changes, status, seen):
    checked, clients = environment()
    there = {"jobDefinitions": [DEFINITION | changes]}
    for _ in range(2):
        clients.answer("batch", "describe_job_definitions", there)
    (check,) = check_job_definitions(checked)
    assert check.status == status
    assert seen in check.seen


@pytest.mark.parametrize(("nodes", "status"), [(1, "ok"), (20, "ok"), (21, "fail")])
def test_the_compute_environment_must_have_room_for_all_nodes(nodes, status):
    checked, clients = environment(nodes)
    clients.answer(*environment_with(maxvCpus=1920))
    (check,) = check_compute_environments(checked)
    assert check.status == status
    if status == "fail":
        assert check.seen == ("nodes is limited to 1920 vCPUs, but each of 21 nodes needs 96.")
        assert check.remedy == "Raise most_nodes in terraform/stacks/multi_node."


def test_an_ami_that_ecs_recommends_no_longer_is_renewed_by_the_stack():
    checked, clients = environment()
    clients.answer(*environment_with(ec2Configuration=[ami_of("g5.xlarge", "ami-01")]))
    name = f"{AMI_FOLDERS['ECS_AL2023_NVIDIA']}recommended"
    newest = {"Name": name, "Value": json.dumps(ami_document())}
    clients.answer("ssm", "get_parameters", {"Parameters": [newest]})
    (check,) = check_amis(checked)
    assert (check.target, check.status) == (NODES.target, "warn")
    assert "`terraform apply` in terraform/stacks/multi_node" in check.remedy
    given = stack(given_ami=True)
    assert given.joined_to(configured()).targets[given.target].given_ami


@pytest.mark.parametrize(
    ("nodes", "value", "status"),
    [(20, 1920.0, "ok"), (20, 1919.0, "fail"), (1, 96.0, "ok"), (4, 96.0, "fail")],
)
def test_a_quota_must_have_the_vcpus_of_all_nodes(nodes, value, status):
    checked, clients = environment(nodes)
    types = [{"InstanceType": "p4d.24xlarge", "VCpuInfo": {"DefaultVCpus": 96}}]
    clients.answer("ec2", "describe_instance_types", {"InstanceTypes": types})
    clients.answer("service-quotas", "get_service_quota", {"Quota": {"Value": value}})
    (check,) = check_quotas(checked)
    assert (check.target, check.status) == (NODES.target, status)
    assert "Running On-Demand P instances (L-417A185B)" in check.seen
    if status == "fail":
        vcpus = 96 * nodes
        said = f"{nodes} nodes of {NODES.target} need {vcpus:,} vCPUs: use fewer nodes"
        assert said in check.seen
        assert check.remedy == f"Request at least {vcpus} in the Service Quotas console."


def test_the_image_is_that_of_the_nodes_and_a_definition_that_is_gone_has_no_container():
    assert container_of({}) == {}
    checked, clients = environment()
    clients.answer("batch", "describe_job_definitions", {"jobDefinitions": [DEFINITION]})
    (check,) = check_images(checked)
    assert check.seen.startswith("'elsewhere/job:1' is not an ECR image")
    assert checked.container_of(checked.targets[NODES.target]) == CONTAINER
