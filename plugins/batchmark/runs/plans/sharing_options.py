"""How a job is told what shall share its device: options of the job's command, `run`."""

from __future__ import annotations

import shlex
from typing import Any

from batchmark.core.run import SharingPlan
from batchmark_job.result.sharing import SharingMode

OPTIONS_VARIABLE = "BATCHMARK_OPTIONS"  # further options of `run`, split as a shell does
SMALLEST_ARRAY = 2  # by SubmitJob


def overrides(plan: SharingPlan | None) -> dict[str, Any]:
    """What a job that shares its device is submitted with beside the others' arguments."""
    if plan is None:
        return {}
    environment = [{"name": OPTIONS_VARIABLE, "value": shlex.join(options(plan))}]
    found: dict[str, Any] = {"container_overrides": {"environment": environment}}
    if plan.form == "jobs" and plan.apart and plan.apart >= SMALLEST_ARRAY:
        found["array_properties"] = {"size": plan.apart}
    return found


def options(plan: SharingPlan) -> list[str]:
    """The options of `run` beside its suite."""
    found = ["--task", plan.task]
    for name, value in plan.axes.items():
        found += ["--axis", f"{name}={value}"]
    found += ["--modes", ",".join(plan.modes), "--replicas", ",".join(map(str, plan.replicas))]
    if plan.disturbances:
        found += ["--disturbances", ",".join(plan.disturbances)]
    if plan.form != "processes":
        found += ["--form", plan.form]
    limits = {"--mps-threads": plan.mps_threads, "--mps-memory": plan.mps_memory_mib}
    for name, limit in limits.items() if SharingMode.MPS in plan.modes else ():
        found += [name, str(limit)] if limit is not None else []
    return found
