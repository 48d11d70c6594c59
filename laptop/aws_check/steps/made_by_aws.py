"""Handles resources that AWS itself creates during a check, and deleted ones it still lists."""

from __future__ import annotations

import re
from typing import Any

from batchmark.aws.batch_targets import NO_ANSWER
from batchmark.aws.boto_clients import Clients, all_pages
from laptop.aws_check.check import Check
from laptop.aws_check.inputs import NAME
from laptop.aws_check.step import StepError

TAG = "Project"  # on everything Terraform creates, and on hosts
OF_THE_CHECK = {"Name": f"tag:{TAG}", "Values": [NAME]}
ENDPOINT_SECONDS = 300  # until an endpoint under deletion releases its security group
# GuardDuty's runtime monitoring creates an endpoint and a security group in a network where a host
# starts, and leaves them (its guide, "Using Infrastructure as Code (IaC) with GuardDuty automated
# security agents", read in November 2026). Newer AWS providers than ours delete them by themselves
# (hashicorp/terraform-provider-aws, pull request 46953, merged in 2026).
GUARDDUTY = {"Name": "tag:GuardDutyManaged", "Values": ["true"]}
# If the account has Container Insights on, ECS creates one per cluster and keeps it. EKS recreates
# its own if logs come late. The names are inferred from AWS's guides.
LOG_GROUPS = (
    f"/aws/ecs/containerinsights/AWSBatch-{NAME}-",
    f"/aws/ecs/containerinsights/{NAME}-",
    f"/aws/eks/{NAME}-",
)
# Resources also listed by their own service, by our name, which their ARN contains; and those that
# EC2 lists by tag, including whatever can't outlive its network.
ASKED_BY_NAME = re.compile(
    r":athena:.*:workgroup/|:batch:.*:(compute-environment|job-queue)/"
    r"|:cloudwatch:.*:alarm:|:cloudwatch:.*:dashboard/"
    r"|:ec2:.*:placement-group/|:ecr:.*:repository/|:eks:|:events:.*:rule/"
    r"|:iam:.*:(instance-profile|policy)/|:logs:.*:log-group:|:s3:::|:sns:|:sqs:|:ssm:.*:parameter/"
)
ASKED_BY_TAG = re.compile(
    r":ec2:.*:(elastic-ip|internet-gateway|launch-template|natgateway|network-acl|route-table"
    r"|security-group|security-group-rule|subnet|vpc|vpc-endpoint)/"
)


def remove_guards(check: Check) -> None:
    """Delete the endpoints and security groups that GuardDuty created in the check's networks.

    They would otherwise block the networks' deletion. If deleting them fails, a message says so.
    """
    ec2 = check.clients("ec2")
    networks = [
        each["VpcId"] for each in all_pages(ec2, "describe_vpcs", "Vpcs", Filters=[OF_THE_CHECK])
    ]
    if not networks:
        return
    there = [{"Name": "vpc-id", "Values": networks}, GUARDDUTY]
    endpoints = _endpoints(ec2, there)
    groups = [
        each["GroupId"]
        for each in all_pages(ec2, "describe_security_groups", "SecurityGroups", Filters=there)
    ]
    if not endpoints and not groups:
        return
    found = ", ".join([*endpoints, *groups])
    try:
        if endpoints:
            ec2.delete_vpc_endpoints(VpcEndpointIds=endpoints)
        check.wait(
            lambda: not _endpoints(ec2, there),
            ENDPOINT_SECONDS,
            lambda: "the endpoint still exists",
        )
        for group in groups:
            ec2.delete_security_group(GroupId=group)
    except (StepError, *NO_ANSWER) as error:
        check.say(
            f"GuardDuty's {found} may block the network's deletion and can't be deleted: "
            f"{error}. Have someone with the required permissions delete them"
        )
    else:
        check.say(f"deleted GuardDuty's {found}, which would have blocked the network's deletion")


def _endpoints(ec2: Any, there: list[dict[str, Any]]) -> list[str]:
    """Return the ids of the matching endpoints that haven't been deleted yet."""
    found = all_pages(ec2, "describe_vpc_endpoints", "VpcEndpoints", Filters=there)
    return [str(each["VpcEndpointId"]) for each in found if each["State"].lower() != "deleted"]


def remove_late_logs(clients: Clients) -> None:
    """Delete the log groups that AWS created for the check's clusters."""
    logs = clients("logs")
    for prefix in LOG_GROUPS:
        for group in all_pages(logs, "describe_log_groups", "logGroups", logGroupNamePrefix=prefix):
            logs.delete_log_group(logGroupName=group["logGroupName"])


def only_listed(found: list[str]) -> bool:
    """Return whether `found` holds only ARNs of deleted resources that are still listed by tag.

    The tagging API seems to keep listing deleted resources for a while; AWS doesn't say how long.
    A resource counts as deleted if another API would have listed it, by name or id, had it existed.
    """
    return all(
        one.startswith("arn:")
        and (
            ASKED_BY_TAG.search(one)
            or (ASKED_BY_NAME.search(one) and NAME in one.replace("_", "-"))
        )
        for one in found
    )
