"""Destroys what a check created, and looks for leftovers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any

from python_terraform import IsFlagged

from batchmark.aws.batch_jobs import live_jobs, terminate_job
from batchmark.aws.batch_targets import NO_ANSWER
from batchmark.aws.boto_clients import Clients, all_pages
from laptop.aws_check.check import LOCK_TIMEOUT, Check
from laptop.aws_check.inputs import NAME
from laptop.aws_check.step import Seen, StepError
from laptop.aws_check.steps.inbox import remove_inbox
from laptop.aws_check.steps.made_by_aws import (
    OF_THE_CHECK,
    TAG,
    only_listed,
    remove_guards,
    remove_late_logs,
)
from laptop.errors import TerraformError
from laptop.stack import init_one_at_a_time
from laptop.terraform import Terraform

GONE_SECONDS = 300  # until AWS stops listing what was deleted; a local cloud does so at once
BY_HAND = "`make aws-check DESTROY=yes`"
# For each service what a check creates: how to list it, and the field with its name.
LISTINGS: dict[str, tuple[tuple[str, str, str], ...]] = {
    "athena": (("list_work_groups", "WorkGroups", "Name"),),
    "batch": (
        ("describe_compute_environments", "computeEnvironments", "computeEnvironmentName"),
        ("describe_job_queues", "jobQueues", "jobQueueName"),
        ("describe_job_definitions", "jobDefinitions", "jobDefinitionName"),
    ),
    "cloudwatch": (
        ("describe_alarms", "MetricAlarms", "AlarmName"),
        ("list_dashboards", "DashboardEntries", "DashboardName"),
    ),
    "ec2": (("describe_placement_groups", "PlacementGroups", "GroupName"),),
    "ecr": (("describe_repositories", "repositories", "repositoryName"),),
    "eks": (("list_clusters", "clusters", ""),),
    "events": (("list_rules", "Rules", "Name"),),
    "glue": (("get_databases", "DatabaseList", "Name"),),
    "iam": (
        ("list_instance_profiles", "InstanceProfiles", "InstanceProfileName"),
        ("list_policies", "Policies", "PolicyName"),
        ("list_roles", "Roles", "RoleName"),
    ),
    "logs": (("describe_log_groups", "logGroups", "logGroupName"),),
    "s3": (("list_buckets", "Buckets", "Name"),),
    "sns": (("list_topics", "Topics", "TopicArn"),),
    "sqs": (("list_queues", "QueueUrls", ""),),
    "ssm": (("describe_parameters", "Parameters", "Name"),),
}
ASKED: dict[str, dict[str, Any]] = {
    "describe_job_definitions": {"status": "ACTIVE"},
    "list_policies": {"Scope": "Local"},
}
# AWS lists these for a while, or as INACTIVE forever, and does not bill them. Inferred from its
# pages on DeregisterJobDefinition and GetResources ("tagged or previously tagged"). A local cloud's
# GetResources keeps listing Glue's databases, which are looked up by name.
KEPT = re.compile(
    r":batch:.*:job-definition/|:ecs:.*:(task-definition|task|cluster|container-instance)/"
    r"|:ec2:.*:(instance|volume|network-interface|spot-instances-request|fleet)/"
    r"|:glue:.*:database/"
)
ALIVE = ("pending", "running", "shutting-down", "stopping", "stopped")
# EC2 resources without a name of ours that outlive hosts: how to list them, and what they are
# called.
WITHOUT_NAMES = {
    "address": ("describe_addresses", "Addresses", "AllocationId"),
    "internet gateway": ("describe_internet_gateways", "InternetGateways", "InternetGatewayId"),
    "launch template": ("describe_launch_templates", "LaunchTemplates", "LaunchTemplateId"),
    "network": ("describe_vpcs", "Vpcs", "VpcId"),
    "volume": ("describe_volumes", "Volumes", "VolumeId"),
}


def destroy(check: Check) -> Seen:
    """Destroy everything that a check created, whatever state the check is in.

    Raises:
        StepError: something is left; the message says how to continue.
    """
    check.processes.stop()
    for remove in (end_jobs, remove_inbox, remove_guards):
        # Terraform ends jobs along with their compute environments; the inbox is searched for
        # later.
        with suppress(*NO_ANSWER):
            remove(check)
    # Optional stacks first: they lie in the core stack and read from it.
    beside = [stack for stack in reversed(check.stacks) if stack.state.exists()]
    failed = [error for stack in beside if (error := _destroy(check, stack))]
    if not failed and (error := _destroy(check, check.terraform)):
        failed.append(error)
    if failed:
        problems = " ".join(map(str, failed))
        raise StepError(
            f"some resources are left; continue with {BY_HAND}. {problems}"
        ) from failed[0]
    return Seen("Terraform destroyed everything it had created")


def _destroy(check: Check, terraform: Terraform) -> TerraformError | None:
    """Destroy a stack, retrying once; return the second error if both attempts fail."""
    try:
        _destroy_once(terraform)
    except TerraformError as first:
        check.say(f"retrying, because AWS may take a while to release resources: {first}")
        with suppress(*NO_ANSWER):
            remove_guards(check)  # AWS created more while hosts ran
        try:
            _destroy_once(terraform)
        except TerraformError as error:
            return error
    return None


def _destroy_once(terraform: Terraform) -> None:
    init_one_at_a_time(terraform)
    terraform.with_inputs("destroy", auto_approve=IsFlagged, lock_timeout=LOCK_TIMEOUT)


def end_jobs(check: Check) -> None:
    """End all of the check's jobs, however they were started."""
    batch = check.clients("batch")
    for queue in all_pages(batch, "describe_job_queues", "jobQueues"):
        if queue["jobQueueName"].startswith(NAME):
            for job in live_jobs(batch, queue["jobQueueArn"]):
                terminate_job(batch, job["jobId"], "the check is over")


def nothing_left(check: Check) -> Seen:
    """Remove logs that AWS wrote late, and look for leftovers by tag and name."""
    found: list[str] = []

    def gone() -> bool:
        with suppress(*NO_ANSWER):  # searches for the log groups again
            remove_late_logs(check.clients)
        try:
            found[:] = leftovers(check.clients)
        except NO_ANSWER as error:
            found[:] = found or [f"can't be listed: {error}"]
        return not found

    seconds = GONE_SECONDS if check.account.on_aws else 0
    try:
        check.wait(gone, seconds, lambda: f"continue with {BY_HAND}; left: {', '.join(found)}")
    except StepError:
        if not only_listed(found):
            raise
        return Seen(
            f"deleted according to their services, but still listed by tag: {', '.join(found)}"
        )
    return Seen(f"no resource has the tag {TAG}={NAME} or {NAME} in its name")


def leftovers(clients: Clients) -> list[str]:
    """List what checks left behind in an account: names, ARNs, or ids of EC2 resources."""
    return sorted({*_named(clients), *_tagged(clients), *_in_ec2(clients)})


def _named(clients: Clients) -> Iterator[str]:
    for service, calls in LISTINGS.items():
        client = clients(service)
        for operation, field, name in calls:
            entries = _listed(client, operation, field, ASKED.get(operation, {}))
            there = (entry for entry in entries if not name or entry.get("status") != "DELETED")
            names = (str(entry[name] if name else entry) for entry in there)
            yield from (f"{service} {found}" for found in names if _is_ours(service, found))


def _listed(client: Any, operation: str, field: str, asked: dict[str, Any]) -> Iterable[Any]:
    if client.can_paginate(operation):
        return all_pages(client, operation, field, **asked)
    answer: Iterable[Any] = getattr(client, operation)(**asked).get(field, ())
    return answer


def _is_ours(service: str, name: str) -> bool:
    plain = name.replace("_", "-")  # Glue and Athena names have no hyphens
    # A user's own role or policy may contain the name: `deployer-of-batchmark-check-compute`.
    return plain.startswith(NAME) if service == "iam" else NAME in plain


def _tagged(clients: Clients) -> Iterator[str]:
    asked = {"TagFilters": [{"Key": TAG, "Values": [NAME]}]}
    tagging = clients("resourcegroupstaggingapi")
    for entry in all_pages(tagging, "get_resources", "ResourceTagMappingList", **asked):
        if not KEPT.search(entry["ResourceARN"]):
            yield str(entry["ResourceARN"])


def _in_ec2(clients: Clients) -> Iterator[str]:
    """Find hosts and unnamed resources by tag."""
    our_own = {"Filters": [OF_THE_CHECK]}
    alive = {"Name": "instance-state-name", "Values": list(ALIVE)}
    ec2 = clients("ec2")
    for each in all_pages(ec2, "describe_instances", "Reservations", Filters=[OF_THE_CHECK, alive]):
        yield from (f"instance {instance['InstanceId']}" for instance in each["Instances"])
    for kind, (operation, field, name) in WITHOUT_NAMES.items():
        yield from (f"{kind} {each[name]}" for each in _listed(ec2, operation, field, our_own))


def hosts(clients: Clients) -> list[str]:
    """List the check's instances that have not been terminated."""
    return [found for found in _in_ec2(clients) if found.startswith("instance ")]
