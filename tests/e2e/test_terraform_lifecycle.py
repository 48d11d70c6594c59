"""The core stack on the local cloud: apply, re-plan clean, change, destroy without remains."""

from contextlib import closing

import pytest

from batchmark.exceptions import TerraformError
from laptop.aws import AwsClients
from laptop.processes import free_port
from laptop.session import Clock
from laptop.stack import ROOT, Ports, Stack

PROFILE = ROOT / "terraform" / "local.tfvars"

# What lists every target in one document, and so changes in place when one comes or goes.
NAMES_ALL_TARGETS = {
    "aws_ssm_parameter.airflow",
    "module.airflow_access.aws_iam_policy.this",
    "module.monitoring.aws_cloudwatch_dashboard.this",
    "module.monitoring.aws_cloudwatch_event_rule.job_states",
    'module.monitoring.aws_cloudwatch_event_rule.notice["job_failed"]',
    'module.monitoring.aws_cloudwatch_event_rule.notice["queue_blocked"]',
    'module.monitoring.aws_cloudwatch_event_rule.notice["spot_interruption"]',
}

# service -> (call, key of its answer) for each kind of resource that the stack makes
LISTINGS = {
    "athena": [("list_work_groups", "WorkGroups")],
    "batch": [
        ("describe_compute_environments", "computeEnvironments"),
        ("describe_job_queues", "jobQueues"),
    ],
    "cloudwatch": [
        ("describe_alarms", "MetricAlarms"),
        ("list_dashboards", "DashboardEntries"),
    ],
    "ec2": [
        ("describe_internet_gateways", "InternetGateways"),
        ("describe_launch_templates", "LaunchTemplates"),
        ("describe_nat_gateways", "NatGateways"),
        ("describe_vpc_endpoints", "VpcEndpoints"),
        ("describe_flow_logs", "FlowLogs"),
    ],
    "ecr": [("describe_repositories", "repositories")],
    "ecs": [("list_clusters", "clusterArns")],
    "events": [("list_rules", "Rules")],
    "glue": [("get_databases", "DatabaseList")],
    "iam": [("list_instance_profiles", "InstanceProfiles")],
    "kms": [("list_aliases", "Aliases")],
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
        found["list_aliases"] = [
            alias
            for alias in found["list_aliases"]
            if not alias["AliasName"].startswith("alias/aws/")
        ]
        found["list_work_groups"] = [
            group for group in found["list_work_groups"] if group["Name"] != "primary"
        ]
        ours = [{"Name": "is-default", "Values": ["false"]}]
        found["vpcs"] = aws.client("ec2").describe_vpcs(Filters=ours)["Vpcs"]
        found["policies"] = aws.client("iam").list_policies(Scope="Local")["Policies"]
        found["roles"] = [
            role["RoleName"]
            for role in aws.client("iam").list_roles()["Roles"]
            if not role["Path"].startswith("/aws-service-role/")
        ]
        account = aws.client("sts").get_caller_identity()["Account"]
        budgets = aws.client("budgets").describe_budgets(AccountId=account)
        found["budgets"] = budgets.get("Budgets", [])
    return {kind: listed for kind, listed in found.items() if listed}


def open_stack(folder):
    return Stack(folder, Ports(airflow=free_port(), cloud=free_port()), Clock().say)


def actions(changes):
    return set(changes.values())


@pytest.mark.timeout(900)
def test_core_stack_applies_changes_in_place_and_destroys(tmp_path):
    with open_stack(tmp_path / "stack") as stack:
        stack.start_cloud()
        empty = remains(stack)
        assert empty == {}
        stack.apply()
        assert len(remains(stack)) > len(LISTINGS)
        terraform = stack.terraform
        assert terraform.planned_changes(var_file=PROFILE) == {}

        more_vcpus = {
            "target_overrides": {
                "g4dn.xlarge": {"vcpus": 2, "memory_mib": 4096, "allow_cpu_fallback": True},
                "c5.2xlarge": {"vcpus": 2, "memory_mib": 4096, "max_vcpus": 128},
            }
        }
        assert terraform.planned_changes(var_file=PROFILE, variables=more_vcpus) == {
            f'module.batch.aws_batch_compute_environment.this["c5.2xlarge/{purchase}"]': "update"
            for purchase in ("spot", "on_demand")
        }
        terraform.apply(var_file=PROFILE, variables=more_vcpus)
        assert terraform.planned_changes(var_file=PROFILE, variables=more_vcpus) == {}

        more_targets = {**more_vcpus, "cpu_instance_types": ["c5.2xlarge", "m5.2xlarge"]}
        changes = terraform.planned_changes(var_file=PROFILE, variables=more_targets)
        ours = {address: action for address, action in changes.items() if "m5.2xlarge" in address}
        assert actions(ours) == {"create"}
        lists_all_targets = set(changes) - set(ours)
        assert lists_all_targets == NAMES_ALL_TARGETS, "another target's resource changes"
        assert actions({address: changes[address] for address in lists_all_targets}) == {"update"}
        terraform.apply(var_file=PROFILE, variables=more_targets)
        assert terraform.planned_changes(var_file=PROFILE, variables=more_targets) == {}

        changes = terraform.planned_changes(var_file=PROFILE, variables=more_vcpus)
        assert {address for address, action in changes.items() if action == "delete"} == set(ours)
        assert {address for address, action in changes.items() if action != "delete"} == (
            lists_all_targets
        )
        new_template = {**more_vcpus, "volume_size_gib": 80}
        terraform.apply(var_file=PROFILE, variables=new_template)
        assert terraform.planned_changes(var_file=PROFILE, variables=new_template) == {}

        terraform.destroy(var_file=PROFILE)
        assert remains(stack) == {}
        assert terraform.outputs() == {}


@pytest.mark.timeout(600)
def test_a_destroy_after_a_half_apply_ends_clean(tmp_path):
    with open_stack(tmp_path / "stack") as stack, closing(AwsClients(stack)) as aws:
        stack.start_cloud()
        taken = take_the_bucket_name(aws, name="half")
        stack.terraform.init()
        with pytest.raises(TerraformError, match="BucketAlreadyExists"):
            stack.terraform.apply(var_file=PROFILE, variables={"name": "half"})
        assert len(remains(stack)) > 3, "most of the stack was there when the bucket failed"
        stack.terraform.destroy(var_file=PROFILE, variables={"name": "half"})
        assert remains(stack) == {}
        assert taken == [bucket["Name"] for bucket in other_account(aws).list_buckets()["Buckets"]]


def other_account(aws):
    """S3 as another account sees it."""
    role = "arn:aws:iam::222222222222:role/somebody-else"
    answer = aws.client("sts").assume_role(RoleArn=role, RoleSessionName="test")["Credentials"]
    return aws.session.client(
        "s3",
        endpoint_url=aws.client("sts").meta.endpoint_url,
        aws_access_key_id=answer["AccessKeyId"],
        aws_secret_access_key=answer["SecretAccessKey"],
        aws_session_token=answer["SessionToken"],
    )


def take_the_bucket_name(aws, name):
    account = aws.client("sts").get_caller_identity()["Account"]
    bucket = f"{name}-results-{account}-us-east-1"
    other_account(aws).create_bucket(Bucket=bucket)
    return [bucket]
