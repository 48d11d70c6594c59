"""Plans runs of the suite `scaling`, and validates their options before anything costs money.

Each node count is a separate multi-node job. All measure weak scaling: the same batch per device.
With strong scaling, each also measures the batch that keeps the total number of images equal to
that of the smallest node count.

A study varies training settings. Its variants run on the largest node count only, where the run's
own settings provide the baseline, so each variant costs one job.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from batchmark.core import formatting
from batchmark.core.clusters.multi_node import MultiNode
from batchmark.core.config import Config
from batchmark.core.errors import PlanError, did_you_mean
from batchmark.core.run import PlannedJob
from batchmark.core.suites import OWN_DTYPES, SCALING
from batchmark.runs.plans.options import parse_options
from batchmark.runs.plans.planning import check_repeats, planned_job
from batchmark_job.result.scaling import TrainingSettings
from batchmark_job.result.scaling_options import (
    DATA_SOURCES,
    IMAGES_OF_RATE,
    ScalingOptions,
    ScalingRun,
)

WARM = {"passes": ("warm",)}


def plan_scaling(
    nodes: MultiNode, config: Config, wanted: ScalingRun, *, run_name: str, repeats: int = 1
) -> list[PlannedJob]:
    """Plan all jobs in a run; `config` must include the stack's target.

    Each repeat goes from the fewest nodes to the most, then through the variants. The run's
    file system is new, so only the first job makes a cold pass over the files.

    Raises:
        PlanError: a value is invalid.
    """
    check_repeats(repeats)
    plans = _plans(nodes, wanted)
    own_dtype = "bfloat16" if nodes.device == "cuda" else "float32"
    return [
        planned_job(
            config,
            run_name,
            nodes.target,
            folder=_folder(plan),
            suite=SCALING,
            repeat=repeat,
            dtype=own_dtype if wanted.dtype == OWN_DTYPES else wanted.dtype,
            scaling=plan if repeat == 1 and number == 0 else plan.model_copy(update=WARM),
        )
        for repeat in range(1, repeats + 1)
        for number, plan in enumerate(plans)
    ]


def skipped_size_notes(wanted: ScalingRun, jobs: Iterable[PlannedJob]) -> list[str]:
    """Return notes on the node counts at which strong scaling can't be measured."""
    plans = [job.scaling for job in jobs if job.scaling and not job.scaling.variant]
    if not wanted.strong_scaling or len(plans) < 2:
        return []
    images = plans[0].nodes * plans[0].devices * plans[0].batches[0]
    return list(
        dict.fromkeys(
            f"{images} images can't be divided equally among {plan.nodes} nodes x {plan.devices} "
            "devices, so strong scaling is not measured there. Choose a batch that is divisible "
            "by their number."
            for plan in plans[1:]
            if _share(images, plan.nodes * plan.devices) is None
        )
    )


def needs_files(jobs: Iterable[PlannedJob]) -> bool:
    """Whether these jobs need a file system."""
    return any("files" in job.scaling.data for job in jobs if job.scaling)


def _plans(nodes: MultiNode, wanted: ScalingRun) -> list[ScalingOptions]:
    counts = sorted(set(wanted.node_counts))
    if counts[-1] > nodes.most_nodes:
        raise PlanError(
            f"node_counts contains {counts[-1]}, but the stack is limited to {nodes.most_nodes} "
            "nodes: use fewer, or raise most_nodes in terraform/stacks/multi_node"
        )
    devices, batch = _devices(nodes, wanted.devices), wanted.batch
    images = counts[0] * devices * batch

    def on(count: int, trained: ScalingRun, **fields: Any) -> ScalingOptions:
        # By the linear scaling rule.
        rate = trained.learning_rate * (count * devices * batch) / IMAGES_OF_RATE
        return ScalingOptions(
            nodes=count,
            devices=devices,
            image=wanted.image,
            data=tuple(each for each in DATA_SOURCES if each in wanted.data),
            steps=wanted.steps,
            settings=trained.settings.model_copy(update={"learning_rate": rate}),
            **fields,
        )

    all_reduce_mib = tuple(sorted(set(wanted.all_reduce_mib)))
    plans = []
    for count in counts:
        strong = _share(images, count * devices) if wanted.strong_scaling else None
        batches = tuple(dict.fromkeys(filter(None, (batch, strong))))
        plans.append(on(count, wanted, batches=batches, all_reduce_mib=all_reduce_mib))
    for number, changes in enumerate(wanted.study, start=1):
        varied = tuple(name for name in TrainingSettings.model_fields if name in changes)
        variant = {"variant": number, "varied": varied, "batches": (batch,), "all_reduce_mib": ()}
        plans.append(on(counts[-1], _variant(wanted, number, changes), **variant))
    for plan in plans:
        if contradiction := plan.contradiction(str):
            raise PlanError(contradiction)
    return plans


def _share(images: int, devices: int) -> int | None:
    """Return the number of images per device; None if they can't be divided equally."""
    return images // devices if images % devices == 0 else None


def _variant(wanted: ScalingRun, number: int, changes: Mapping[str, object]) -> ScalingRun:
    known = list(TrainingSettings.model_fields)
    if not changes:
        raise PlanError(
            f"object {number} in study is {changes!r}: specify the settings to change, such as "
            '{"learning_rate": 0.2}'
        )
    for name in changes:
        if name not in known:
            raise PlanError(
                f"object {number} in study has an unknown setting "
                f"{name!r}{did_you_mean(name, known)}"
            )
    return parse_options(ScalingRun, {**dict(wanted), **changes}, f"object {number} in study: ")


def _devices(nodes: MultiNode, devices: int | None) -> int:
    if devices is None:
        return nodes.gpus or 1
    most = nodes.gpus if nodes.device == "cuda" else nodes.vcpus
    if devices > most:
        what = formatting.count(most, "GPU" if nodes.device == "cuda" else "vCPU")
        raise PlanError(
            f"devices is {devices}, but {nodes.instance_type} has {what}: use at most "
            f"{most}, or apply terraform/stacks/multi_node with a larger instance_type"
        )
    return devices


def _folder(plan: ScalingOptions) -> str:
    variant = f"/variant-{plan.variant}" if plan.variant else ""
    return f"{SCALING}/on-{plan.nodes}{variant}"
