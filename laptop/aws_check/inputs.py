"""Terraform inputs that define what a check creates."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from laptop.aws_check.account import Account
from laptop.aws_check.estimate import CPU_TYPE, GPU_TYPE, JOB_SECONDS

NAME = "batchmark-check"  # name of the installation
VARIABLES = f"/{NAME}/variables"
SHARED = f"{GPU_TYPE}-shared"
# Jobs are not retried, so that the estimate covers all of them.
ONCE = {"timeout_seconds": JOB_SECONDS, "attempts": 1}


def inputs_of(account: Account, more: Iterable[Mapping[str, Any]] = ()) -> dict[str, Any]:
    """Return inputs for a GPU target that tries Spot first, a CPU target, and the optional parts.

    On a local cloud, both targets fit into the smallest pool, and GPU jobs run on its CPU.
    """
    local = not account.on_aws
    job: dict[str, Any] = ONCE | ({"vcpus": 2, "memory_mib": 4096} if local else {})
    overrides = {
        GPU_TYPE: {**job, "max_vcpus": 4, "allow_cpu_fallback": local},
        CPU_TYPE: {**job, "purchasing": "on_demand"},
    }
    inputs: dict[str, Any] = {
        "name": NAME,
        "region": account.region,
        "local_cloud": local,
        "force_destroy": True,
        "gpu_instance_types": [GPU_TYPE],
        "cpu_instance_types": [CPU_TYPE],
        "shared_targets": {},
        "max_vcpus": 8,
        "target_overrides": overrides,
        "monthly_budget_usd": None,
        "log_retention_days": 1,
        "airflow_variables_prefix": VARIABLES,
        "airflow_principal_arns": [account.principal_arn],
    }
    for added in more:
        for name, value in added.items():
            known = inputs.get(name)
            inputs[name] = {**known, **value} if isinstance(known, dict) else value
    return inputs
