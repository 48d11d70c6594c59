"""How a multi-node job is told what to measure: options of the job's command, `run`."""

from __future__ import annotations

import shlex
from typing import Any

from batchmark.core.run import ScalingPlan
from batchmark.runs.plans.sharing_options import OPTIONS_VARIABLE

ALL_NODES = "0:"  # as in the job definition, or SubmitJob refuses another number of nodes


def overrides(plan: ScalingPlan | None) -> dict[str, Any]:
    """What a multi-node job is submitted with beside the others' arguments."""
    if plan is None:
        return {}
    environment = [{"name": OPTIONS_VARIABLE, "value": shlex.join(options(plan))}]
    return {
        "node_overrides": {
            "numNodes": plan.nodes,
            "nodePropertyOverrides": [
                {"targetNodes": ALL_NODES, "containerOverrides": {"environment": environment}}
            ],
        }
    }


def options(plan: ScalingPlan) -> list[str]:
    """The options of `run` beside its suite; the number of nodes is Batch's to tell."""
    found = ["--devices", str(plan.devices), "--batches", _list(plan.batches)]
    found += ["--image", str(plan.image), "--data", _list(plan.data), "--steps", str(plan.steps)]
    if "files" in plan.data and not plan.reads_cold:
        found += ["--passes", "warm"]
    found += ["--all-reduce-mib", _list(plan.all_reduce_mib)]
    for name, value in plan.settings.model_dump().items():
        found += [f"--{name.replace('_', '-')}", str(value)]
    if plan.varied:
        found += ["--varied", _list(plan.varied)]
    return found


def _list(items: tuple[object, ...]) -> str:
    return ",".join(map(str, items))
