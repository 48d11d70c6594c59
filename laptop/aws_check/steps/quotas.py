"""Checks in advance whether the account is allowed to start the hosts that a check needs."""

from __future__ import annotations

from batchmark.aws.batch_targets import BatchEnvironment
from batchmark.aws.boto_clients import all_pages
from batchmark.checks.quota import check_quotas
from batchmark.core.config import ComputeEnvironments, Config, PurchaseOption, Target
from batchmark.core.formatting import count
from laptop.aws_check.check import Check, judge_answers
from laptop.aws_check.estimate import CPU_TYPE, GPU_TYPE
from laptop.aws_check.inputs import NAME
from laptop.aws_check.step import Seen, StepError

PLANNED = "planned"  # placeholders for the names that Terraform will give


def quotas(check: Check, instance_type: str, purchase: PurchaseOption) -> Seen:
    """Check an instance type's quota for a purchase option before Terraform creates anything."""
    environments = ComputeEnvironments(
        spot=PLANNED if purchase == "spot" else None,
        on_demand=PLANNED if purchase == "on_demand" else None,
    )
    target = Target(
        device="cuda" if instance_type == GPU_TYPE else "cpu",
        instance_type=instance_type,
        vcpus=1,
        memory_mib=1,
        gpus=0,
        job_queue=PLANNED,
        on_demand_queue=None,
        job_definition=PLANNED,
        compute_environments=environments,
        timeout_seconds=60,
        attempts=1,
        allow_cpu_fallback=False,
    )
    targets = {instance_type: target}
    config = Config(
        schema_version=1,
        name=NAME,
        region=check.account.region,
        bucket=PLANNED,
        targets=targets,
    )
    return judge_answers(check_quotas(BatchEnvironment(config, targets, check.clients)))


def zones(check: Check) -> Seen:
    """Count the availability zones that offer each of the check's instance types."""
    types = [GPU_TYPE, CPU_TYPE]
    offers = all_pages(
        check.clients("ec2"),
        "describe_instance_type_offerings",
        "InstanceTypeOfferings",
        LocationType="availability-zone",
        Filters=[{"Name": "instance-type", "Values": types}],
    )
    found = [offer["InstanceType"] for offer in offers]
    counts = {name: found.count(name) for name in types}
    told = ", ".join(f"{name} in {count(number, 'zone')}" for name, number in counts.items())
    if missing := [name for name, number in counts.items() if not number]:
        raise StepError(
            f"{told}; not offered in this region: {', '.join(missing)} (choose another region with "
            "REGION=)"
        )
    return Seen(told)
