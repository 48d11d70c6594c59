"""The core stack on the local cloud: apply, re-plan clean, change, destroy without remains."""

from contextlib import closing

import pytest

from laptop.aws import AwsClients
from laptop.processes import free_port
from laptop.session import Clock
from laptop.stack import ROOT, Ports, Stack

PROFILE = ROOT / "terraform" / "local.tfvars"

# service -> (call, key of its answer) for each kind of resource that the stack makes
LISTINGS = {
    "batch": [
        ("describe_compute_environments", "computeEnvironments"),
        ("describe_job_queues", "jobQueues"),
    ],
    "ec2": [
        ("describe_internet_gateways", "InternetGateways"),
        ("describe_launch_templates", "LaunchTemplates"),
        ("describe_nat_gateways", "NatGateways"),
        ("describe_vpc_endpoints", "VpcEndpoints"),
    ],
    "ecr": [("describe_repositories", "repositories")],
    "ecs": [("list_clusters", "clusterArns")],
    "iam": [("list_instance_profiles", "InstanceProfiles")],
    "logs": [("describe_log_groups", "logGroups")],
    "s3": [("list_buckets", "Buckets")],
    "sns": [("list_topics", "Topics")],
    "ssm": [("describe_parameters", "Parameters")],
}


def remains(stack):
    """Every resource the server still knows, but for what an empty account has."""
    with closing(AwsClients(stack)) as aws:
        found = {
            call: getattr(aws.client(service), call)()[key]
            for service, calls in LISTINGS.items()
            for call, key in calls
        }
        ours = [{"Name": "is-default", "Values": ["false"]}]
        found["vpcs"] = aws.client("ec2").describe_vpcs(Filters=ours)["Vpcs"]
        found["roles"] = [
            role["RoleName"]
            for role in aws.client("iam").list_roles()["Roles"]
            if not role["Path"].startswith("/aws-service-role/")
        ]
    return {kind: listed for kind, listed in found.items() if listed}


@pytest.mark.timeout(600)
def test_core_stack_applies_replans_clean_and_destroys(tmp_path):
    ports = Ports(airflow=free_port(), cloud=free_port())
    with Stack(tmp_path / "stack", ports, Clock().say) as stack:
        stack.start_cloud()
        assert remains(stack) == {}
        stack.apply()
        assert len(remains(stack)) > len(LISTINGS)
        assert stack.terraform.plan_exit_code(var_file=PROFILE) == 0
        changed = {"volume_size_gib": 80}  # a new launch template version
        stack.terraform.apply(var_file=PROFILE, variables=changed)
        assert stack.terraform.plan_exit_code(var_file=PROFILE, variables=changed) == 0
        stack.terraform.destroy(var_file=PROFILE)
        assert remains(stack) == {}
        assert stack.terraform.outputs() == {}
