"""Plans a run of the suite `scaling`: what its form asks for, checked before anything costs money.

Each number of nodes is a multi-node job of its own. All measure weak scaling: the same batch on
each device. With strong scaling, each also measures the batch that keeps the images of all devices
together at those of the fewest nodes.

A study varies the settings of the training. Its variants run on the most nodes only: what they are
compared with, the run's own settings, is measured there, too, and so they cost a job each.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from pydantic import ValidationError

from batchmark.core.clusters.multi_node import MultiNode
from batchmark.core.config import Config
from batchmark.core.errors import PlanError, meant
from batchmark.core.record import first_problem
from batchmark.core.run import DataSource, PlannedJob, ScalingPlan
from batchmark.core.suites import DATA_SOURCES, IMAGES_OF_RATE, LEAST_STEPS, OWN_DTYPES, SCALING
from batchmark.runs.plans.planning import check_repeats, planned_job
from batchmark_job.result.scaling import TrainingSettings
from batchmark_job.result.values import MOST_SAMPLES

DTYPES = ("bfloat16", "float32")
# The most that each of the form's numbers may be, and the least where that is not 1.
LEAST = {"steps": LEAST_STEPS}
MOST = {
    "devices": 64,
    "batch": 65_536,
    "steps": MOST_SAMPLES,
    "node_counts": 1_000,
    "all_reduce_mib": 16_384,
}
LEAST_IMAGE, MOST_IMAGE = 32, 1024
MOST_VARIANTS = 20


class Wanted(NamedTuple):
    """What a run asks for; its fields are those of the form."""

    node_counts: Sequence[int]
    data: Sequence[str]
    settings: Mapping[str, object]
    devices: int | None = None
    batch: int = 64
    strong: bool = True
    image: int = 224
    steps: int = 50
    all_reduce_mib: Sequence[int] = ()
    dtype: str = OWN_DTYPES
    study: Sequence[Mapping[str, object]] = ()
    repeats: int = 1


def plan_scaling(
    nodes: MultiNode, config: Config, wanted: Wanted, *, run_name: str
) -> list[PlannedJob]:
    """All jobs of a run, those of the fewest nodes first; `config` has the stack's target.

    The file system is the run's own, so the first job is the one that reads it cold.

    Raises:
        PlanError: a value can't be had.
    """
    check_repeats(wanted.repeats)
    plans = _plans(nodes, wanted)
    dtype = _dtype(nodes, wanted.dtype)
    return [
        planned_job(
            config,
            run_name,
            nodes.target,
            folder=_folder(plan),
            suite=SCALING,
            repeat=repeat,
            dtype=dtype,
            scaling=plan.model_copy(update={"reads_cold": repeat == 1 and number == 0}),
        )
        for repeat in range(1, wanted.repeats + 1)
        for number, plan in enumerate(plans)
    ]


def left_out(wanted: Wanted, jobs: Iterable[PlannedJob]) -> list[str]:
    """The numbers of nodes without a point of strong scaling, in words."""
    plans = [job.scaling for job in jobs if job.scaling and not job.scaling.variant]
    if not wanted.strong or len(plans) < 2:
        return []
    images = plans[0].nodes * plans[0].devices * plans[0].batches[0]
    return list(
        dict.fromkeys(
            f"{plan.nodes} nodes x {plan.devices} devices have no equal share of {images} images, "
            "so they measure no strong scaling. For that, choose a batch that their number divides."
            for plan in plans[1:]
            if _share(images, plan.nodes * plan.devices) is None
        )
    )


def needs_files(jobs: Iterable[PlannedJob]) -> bool:
    """Whether a file system must be stood up for these jobs."""
    return any("files" in job.scaling.data for job in jobs if job.scaling)


def _plans(nodes: MultiNode, wanted: Wanted) -> list[ScalingPlan]:
    counts = _numbers("node_counts", wanted.node_counts)
    if counts[-1] > nodes.most_nodes:
        raise PlanError(
            f"node_counts has {counts[-1]}, and the stack has room for {nodes.most_nodes} nodes: "
            "ask for fewer, or raise most_nodes in terraform/stacks/multi_node"
        )
    devices, batch = _devices(nodes, wanted.devices), _number("batch", wanted.batch)
    images = counts[0] * devices * batch
    own = _settings(wanted.settings)
    common: dict[str, Any] = {
        "devices": devices,
        "image": _image(wanted.image),
        "data": _data(wanted.data),
        "steps": _number("steps", wanted.steps),
    }
    sizes = _numbers("all_reduce_mib", wanted.all_reduce_mib) if wanted.all_reduce_mib else ()
    plans = []
    for count in counts:
        strong = _share(images, count * devices) if wanted.strong else None
        plans.append(
            ScalingPlan(
                nodes=count,
                batches=tuple(dict.fromkeys(filter(None, (batch, strong)))),
                all_reduce_mib=sizes,
                settings=_of_batch(own, count * devices * batch),
                **common,
            )
        )
    most = counts[-1]
    for number, changes in enumerate(_study(wanted.study), start=1):
        varied = _settings({**wanted.settings, **changes}, f"study's object {number}: ")
        plans.append(
            ScalingPlan(
                nodes=most,
                batches=(batch,),
                settings=_of_batch(varied, most * devices * batch),
                variant=number,
                varied=tuple(name for name in TrainingSettings.model_fields if name in changes),
                **common,
            )
        )
    return plans


def _share(images: int, devices: int) -> int | None:
    """The images of each device; None if they can't have equal ones."""
    return images // devices if images % devices == 0 else None


def _of_batch(settings: TrainingSettings, images: int) -> TrainingSettings:
    """The settings with the rate of so many images per step, by the linear scaling rule."""
    rate = settings.learning_rate * images / IMAGES_OF_RATE
    return settings.model_copy(update={"learning_rate": rate})


def _settings(given: Mapping[str, object], where: str = "") -> TrainingSettings:
    for name, value in given.items():
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if not is_number or not math.isfinite(float(str(value))):
            raise PlanError(f"{where}{name} must be a number, got {value!r}")
    try:
        settings = TrainingSettings.model_validate(given)
    except ValidationError as error:
        problem = error.errors()[0]
        raise PlanError(
            f"{where}{first_problem(error)}, got {problem['input']!r}: give a number in that range"
        ) from error
    if settings.warmup_epochs > settings.epochs:
        raise PlanError(
            f"{where}warmup_epochs is {settings.warmup_epochs}, and epochs {settings.epochs}: the "
            "rate must reach its height before it ends, so give fewer"
        )
    return settings


def _study(study: Sequence[Mapping[str, object]]) -> Sequence[Mapping[str, object]]:
    known = list(TrainingSettings.model_fields)
    if not isinstance(study, list | tuple):
        raise PlanError(f'study must be a list such as [{{"learning_rate": 0.2}}], got {study!r}')
    if len(study) > MOST_VARIANTS:
        raise PlanError(f"study has {len(study)} objects: give {MOST_VARIANTS} at most")
    for number, changes in enumerate(study, start=1):
        if not isinstance(changes, Mapping) or not changes:
            raise PlanError(
                f"study's object {number} is {changes!r}: give settings to change, such as "
                '{"learning_rate": 0.2}'
            )
        for name in changes:
            if name not in known:
                raise PlanError(f"study's object {number} has {name!r}{meant(str(name), known)}")
    return study


def _devices(nodes: MultiNode, devices: int | None) -> int:
    if devices is None:
        return nodes.gpus or 1
    wanted = _number("devices", devices)
    most = nodes.gpus if nodes.device == "cuda" else nodes.vcpus
    if wanted > most:
        what = "GPUs" if nodes.device == "cuda" else "vCPUs"
        raise PlanError(
            f"devices is {wanted}, and {nodes.instance_type} has {most} {what}: ask for {most} at "
            "most, or apply terraform/stacks/multi_node with a larger instance_type"
        )
    return wanted


def _dtype(nodes: MultiNode, dtype: str) -> str:
    if dtype == OWN_DTYPES:
        return "bfloat16" if nodes.device == "cuda" else "float32"
    if dtype not in DTYPES:
        raise PlanError(f"unknown dtype {dtype!r}; known: {OWN_DTYPES}, {_list(DTYPES)}")
    return dtype


def _data(data: Sequence[str]) -> tuple[DataSource, ...]:
    unknown = [name for name in data if name not in DATA_SOURCES]
    if unknown or not data:
        problem = f"has {unknown[0]!r}" if unknown else "is empty"
        raise PlanError(f"data {problem}; known: {_list(DATA_SOURCES)}")
    sources: tuple[DataSource, ...] = ("synthetic", "files")
    return tuple(each for each in sources if each in data)


def _image(pixels: int) -> int:
    if isinstance(pixels, bool) or not isinstance(pixels, int):
        raise PlanError(f"image must be a whole number, got {pixels!r}")
    if not LEAST_IMAGE <= pixels <= MOST_IMAGE:
        raise PlanError(f"image must be from {LEAST_IMAGE} to {MOST_IMAGE} pixels, got {pixels}")
    return pixels


def _numbers(field: str, values: Sequence[int]) -> tuple[int, ...]:
    if not values:
        raise PlanError(f"{field} is empty: give some numbers, such as 1, 2 and 4")
    return tuple(sorted({_number(field, value) for value in values}))


def _number(field: str, value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise PlanError(f"{field} takes whole numbers, got {value!r}")
    least, most = LEAST.get(field, 1), MOST[field]
    if not least <= value <= most:
        raise PlanError(f"{field} takes numbers from {least} to {most}, got {value}")
    return value


def _folder(plan: ScalingPlan) -> str:
    variant = f"/variant-{plan.variant}" if plan.variant else ""
    return f"{SCALING}/on-{plan.nodes}{variant}"


def _list(items: Iterable[object]) -> str:
    return ", ".join(map(str, items))
