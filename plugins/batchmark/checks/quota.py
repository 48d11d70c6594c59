"""Whether the account's vCPU quotas let the targets' instances start."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from batchmark.batch_environment import (
    NO_ANSWER,
    BatchEnvironment,
    published_environments,
    why_unread,
)
from batchmark.environment_records import Check
from batchmark.vcpu_quotas import Quota, describe_quota, vcpu_quota

NAME = "vCPU quota"


def check_quotas(environment: BatchEnvironment) -> Iterator[Check]:
    """One check per quota: each target's instance, and one instance of all its targets at once.

    A quota too small for a target fails only where it leaves the target no other way to buy.
    What else uses the quota is not known here.
    """
    wanted: dict[Quota, dict[str, int]] = defaultdict(dict)
    for name, target in environment.targets.items():
        for purchase in published_environments(target):
            quota = vcpu_quota(target.instance_type, purchase)
            if quota is None:
                seen = f"No quota of {target.instance_type} is known here."
                yield Check(name=NAME, target=name, status="not checked", seen=seen)
            else:
                wanted[quota][name] = environment.instance_vcpus[target.instance_type]

    values: dict[Quota, float] = {}
    for quota, asked in wanted.items():
        try:
            values[quota] = float(describe_quota(environment.client, quota)["Value"])
        except NO_ANSWER as error:
            yield Check(
                name=NAME,
                target=", ".join(asked),
                status="not checked",
                seen=f"{quota.name} ({quota.code}): {why_unread(error)}",
            )
    can_start = {
        name
        for quota, asked in wanted.items()
        for name, vcpus in asked.items()
        if vcpus <= values.get(quota, vcpus)
    }
    for quota, value in values.items():
        yield _judge(quota, value, wanted[quota], can_start)


def _judge(quota: Quota, value: float, asked: dict[str, int], can_start: set[str]) -> Check:
    too_large = [name for name, vcpus in asked.items() if vcpus > value]
    stuck = [name for name in too_large if name not in can_start]
    together = sum(asked.values())
    seen = f"{quota.name} ({quota.code}): {value:,.0f} vCPUs."
    remedy = f"Ask for at least {together} in the Service Quotas console."
    if too_large:
        needs = ", ".join(f"{name} takes {asked[name]}" for name in too_large)
        seen += f" One instance of {needs}."
        if not stuck:
            seen += " Only its other way to buy is left."
    elif together > value:
        seen += f" One instance of each takes {together}: their jobs wait for each other."
    else:
        remedy = ""
    return Check(
        name=NAME,
        target=", ".join(stuck or asked),
        status="fail" if stuck else "warn" if remedy else "ok",
        seen=seen,
        remedy=remedy,
    )
