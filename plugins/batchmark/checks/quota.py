"""Checks whether the account's vCPU quotas allow the targets' instances to start."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from batchmark.aws.batch_targets import (
    NO_ANSWER,
    BatchEnvironment,
    published_environments,
    why_unread,
)
from batchmark.aws.instance_families import Quota, describe_quota, vcpu_quota
from batchmark.checks.records import Check

NAME = "vCPU quota"


def check_quotas(environment: BatchEnvironment) -> Iterator[Check]:
    """Check that each quota allows one job of every target, separately and all at once.

    All nodes of a multi-node job count. A quota that is too small for a target fails only if
    the target can't start with another purchase option either. Other usage of the quota is not
    considered.
    """
    wanted: dict[Quota, dict[str, int]] = defaultdict(dict)
    can_start = set()  # as far as is known
    for name, target in environment.targets.items():
        for purchase in published_environments(target):
            bought = "Spot" if purchase == "spot" else "On-Demand"
            quota = vcpu_quota(target.instance_type, purchase)
            if target.capacity_block:
                bought, quota = "Capacity Block", None
            if quota is None:
                seen = f"The {bought} quota for {target.instance_type} is unknown."
                yield Check(name=NAME, target=name, status="not checked", seen=seen)
                can_start.add(name)
            else:
                vcpus = environment.instance_vcpus[target.instance_type]
                wanted[quota][name] = vcpus * environment.instances_at_once(target)

    values: dict[Quota, float] = {}
    for quota, asked in wanted.items():
        try:
            values[quota] = float(describe_quota(environment.client, quota)["Value"])
        except NO_ANSWER as error:
            seen = f"{quota.name} ({quota.code}): {why_unread(error)}"
            yield Check(name=NAME, target=", ".join(asked), status="not checked", seen=seen)
    can_start |= {
        name
        for quota, asked in wanted.items()
        for name, vcpus in asked.items()
        if vcpus <= values.get(quota, vcpus)
    }
    for quota, value in values.items():
        yield _judge(environment, quota, value, wanted[quota], can_start)


def _judge(
    environment: BatchEnvironment,
    quota: Quota,
    value: float,
    asked: dict[str, int],
    can_start: set[str],
) -> Check:
    seen = f"{quota.name} ({quota.code}): {value:,.0f} vCPUs."
    together = sum(asked.values())
    if together <= value:
        return Check(name=NAME, target=", ".join(asked), status="ok", seen=seen)
    too_large = [name for name, vcpus in asked.items() if vcpus > value]
    stuck = [name for name in asked if name not in can_start]
    if too_large:
        seen += " " + " ".join(_takes(environment, name, asked[name]) for name in too_large)
        if not stuck:
            seen += " Only the other purchase option is left."
    else:
        seen += f" One instance of each takes {together}, so their jobs wait for each other."
    return Check(
        name=NAME,
        target=", ".join(stuck or asked),
        status="fail" if stuck else "warn",
        seen=seen,
        remedy=f"Request at least {together} in the Service Quotas console.",
    )


def _takes(environment: BatchEnvironment, name: str, vcpus: int) -> str:
    nodes = environment.instances_at_once(environment.targets[name])
    if nodes == 1:
        return f"One instance of {name} needs {vcpus:,} vCPUs."
    return (
        f"{nodes} nodes of {name} need {vcpus:,} vCPUs: use fewer nodes or request a higher quota."
    )
