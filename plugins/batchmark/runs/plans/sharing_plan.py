"""Plans a run of the suite `sharing`: what its form asks for, checked before anything costs money.

A target with its instance alone runs one job, in which processes share the device in every mode.
A target whose jobs share an instance runs one array job per number of replicas, in its own mode.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import TypeVar

from batchmark.core.config import Config, Target
from batchmark.core.errors import PlanError, meant
from batchmark.core.run import PlannedJob, SharingPlan
from batchmark.core.suites import (
    MOST_MPS_CLIENTS,
    MOST_REPLICAS,
    OWN_DTYPES,
    OWN_TASK,
    SHARING,
    TASKS,
)
from batchmark.runs.plans.planning import check_repeats, check_targets, planned_job
from batchmark_job.result.sharing import Disturbance, SharingMode

_Choice = TypeVar("_Choice", bound=StrEnum)


def sharing_plan(
    *,
    modes: Sequence[str],
    replicas: Sequence[int],
    task: str,
    axes: str,
    disturbances: Sequence[str] = (),
    mps_threads: int | None = None,
    mps_memory_mib: int | None = None,
) -> SharingPlan:
    """What all targets are asked for.

    Raises:
        PlanError: a name is unknown, or a number is out of range.
    """
    name, own = task.removeprefix(OWN_TASK).strip(), task.startswith(OWN_TASK)
    _check_task(name, own=own)
    sizes = _parsed(axes)
    if not own:
        _check_axes(name, sizes)
    chosen = _chosen("modes", modes, SharingMode)
    limits = {"mps_threads": mps_threads, "mps_memory_mib": mps_memory_mib}
    given = [f"{field} is {limit}" for field, limit in limits.items() if limit is not None]
    if given and SharingMode.MPS not in chosen:
        raise PlanError(f"{given[0]}, and modes are {_list(chosen)}: add mps, or leave it empty")
    counts = _counts(replicas)
    if SharingMode.MPS in chosen and counts[-1] > MOST_MPS_CLIENTS:
        raise PlanError(
            f"replicas has {counts[-1]}, and MPS takes {MOST_MPS_CLIENTS} clients on a GPU: give "
            f"1 to {MOST_MPS_CLIENTS}, or leave mps out of modes"
        )
    return SharingPlan(
        form="processes",
        modes=chosen,
        mps_threads=mps_threads,
        mps_memory_mib=mps_memory_mib,
        replicas=counts,
        task=name,
        axes=sizes,
        disturbances=_chosen("disturbances", disturbances, Disturbance) if disturbances else (),
    )


def plan_sharing(
    config: Config,
    wanted: SharingPlan,
    *,
    run_name: str,
    targets: Sequence[str] = (),
    repeats: int = 1,
) -> list[PlannedJob]:
    """All jobs of a run; no targets means all to which the plan applies.

    Raises:
        PlanError: a target is unknown, or nothing of the plan applies to one that is named.
    """
    check_repeats(repeats)
    plans = {}
    for name in check_targets(config, targets, shared_too=True):
        found = _plans(name, config.targets[name], wanted)
        if isinstance(found, list):
            plans[name] = found
        elif targets:
            raise PlanError(found)
    if not plans:
        raise PlanError(
            f"nothing to run: no target fits the modes {_list(wanted.modes)} and the replicas "
            f"{_list(wanted.replicas)}; Terraform made {_list(config.targets)}"
        )
    if wanted.disturbances and all(config.targets[name].sharing for name in plans):
        raise PlanError(
            f"disturbances are {_list(wanted.disturbances)}, and replicas are disturbed within one "
            f"job only: add a target that does not share its instance, or ask for none"
        )
    return [
        planned_job(
            config,
            run_name,
            name,
            folder=_folder(plan),
            suite=SHARING,
            repeat=repeat,
            dtype=OWN_DTYPES,
            sharing=plan,
        )
        for repeat in range(1, repeats + 1)
        for name, of_target in plans.items()
        for plan in of_target
    ]


def left_out(config: Config, wanted: SharingPlan, jobs: Iterable[PlannedJob]) -> list[str]:
    """Which numbers of replicas a run's targets have no room for, in words."""
    found = []
    for name in dict.fromkeys(job.target for job in jobs):
        most = config.targets[name].max_replicas
        if most and (above := [count for count in wanted.replicas if count > most]):
            found.append(
                f"{name} has room for {most} replicas, so it measures none with {_list(above)}. "
                "For these, raise its max_replicas in Terraform's shared_targets."
            )
    return found


def _plans(name: str, target: Target, wanted: SharingPlan) -> list[SharingPlan] | str:
    """The plan of each of a target's jobs, or why it has none."""
    if target.sharing is None:
        return [wanted]
    if target.sharing not in wanted.modes:
        return (
            f"{name} shares its instance by {target.sharing}, and modes are "
            f"{_list(wanted.modes)}: add that mode, or leave the target out"
        )
    most = target.max_replicas or 1
    counts = [each for each in wanted.replicas if each <= most]
    if not counts:
        return (
            f"{name} has room for {most} replicas, and replicas are {_list(wanted.replicas)}: "
            "ask for fewer, or raise its max_replicas in Terraform's shared_targets"
        )
    return [
        wanted.model_copy(
            update={
                "form": "jobs",
                "modes": (SharingMode(target.sharing),),
                "replicas": (count,),
                "disturbances": (),
            }
        )
        for count in counts
    ]


def _folder(plan: SharingPlan) -> str:
    return SHARING if plan.apart is None else f"{SHARING}/of-{plan.apart}"


def _check_task(name: str, *, own: bool) -> None:
    if own:
        # The image alone knows the user's own workloads.
        if name in TASKS:
            raise PlanError(f"task {name!r} is no workload of your own: leave out {OWN_TASK!r}")
        if not re.fullmatch("[a-z][a-z0-9_]*", name):
            raise PlanError(
                f"task {OWN_TASK + name!r} names no workload: give the name of its file in "
                f"own_workloads without .py, of a-z, 0-9 and _, such as {OWN_TASK}softmax"
            )
    elif name not in TASKS:
        raise PlanError(
            f"unknown task {name!r}{meant(name, TASKS)}. One of your own is {OWN_TASK}NAME, such "
            f"as {OWN_TASK}softmax"
        )


def _parsed(axes: str) -> dict[str, int]:
    """Sizes as `NAME=N`, with commas or spaces between them."""
    sizes = {}
    for part in re.split(r"[,\s]+", axes.strip()) if axes.strip() else []:
        name, _, value = part.partition("=")
        if not re.fullmatch(r"[A-Za-z_]\w*", name) or not re.fullmatch(r"[1-9]\d{0,11}", value):
            raise PlanError(f"axes has {part!r}: give a name and a whole number, such as batch=32")
        if name in sizes:
            raise PlanError(f"axes has {name} twice: give each once; a replica has one size")
        sizes[name] = int(value)
    return sizes


def _check_axes(task: str, sizes: dict[str, int]) -> None:
    known = TASKS[task]
    for name, value in sizes.items():
        if name not in known:
            raise PlanError(f"axes has {name}={value}, and {task} has {_list(known)}")
        if not known[name].least <= value <= known[name].most:
            raise PlanError(
                f"{task} can't have {name}={value}; give {known[name].least} to {known[name].most}"
            )
    for name, axis in known.items():
        if name not in sizes and not axis.is_optional:
            raise PlanError(f"{task} needs its {name}: give it in axes, such as {name}=32")


def _counts(replicas: Sequence[int]) -> tuple[int, ...]:
    for count in replicas:
        if isinstance(count, bool) or not isinstance(count, int):
            raise PlanError(f"replicas must be whole numbers, got {count!r}")
        if not 1 <= count <= MOST_REPLICAS:
            raise PlanError(f"replicas must be from 1 to {MOST_REPLICAS}, got {count}")
    if not replicas:
        raise PlanError("replicas is empty: give some numbers, such as 1, 2 and 5")
    return tuple(sorted(set(replicas)))


def _chosen(field: str, names: Sequence[str], known: type[_Choice]) -> tuple[_Choice, ...]:
    """The members named, each once, in the order of their definition."""
    unknown = [name for name in names if name not in list(known)]
    if unknown or not names:
        problem = f"has {unknown[0]!r}" if unknown else "is empty"
        raise PlanError(f"{field} {problem}; known: {_list(known)}")
    return tuple(each for each in known if each in names)


def _list(items: Iterable[object]) -> str:
    return ", ".join(map(str, items)) or "none"
