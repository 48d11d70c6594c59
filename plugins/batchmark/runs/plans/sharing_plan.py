"""Plans runs of the suite `sharing`, and validates their options before anything costs money.

On an ordinary target, one job measures all modes, using processes that share the device. A target
whose jobs share an instance runs one array job per replica count, in the target's mode.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from batchmark.core.config import Config, Target
from batchmark.core.errors import PlanError, did_you_mean
from batchmark.core.run import PlannedJob
from batchmark.core.suites import OWN_DTYPES, OWN_TASK, SHARING, TASKS
from batchmark.runs.plans.options import parse_options
from batchmark.runs.plans.planning import check_repeats, check_targets, planned_job
from batchmark_job.result.sharing import Disturbance, SharingMode
from batchmark_job.result.sharing_options import SharingOptions

NO_LIMITS = {"mps_threads": None, "mps_memory_mib": None}


def sharing_options(params: Mapping[str, Any]) -> SharingOptions:
    """Parse the form's options, which apply to all targets.

    Raises:
        PlanError: an option is invalid.
    """
    task = params["task"]
    name, own = task.removeprefix(OWN_TASK).strip(), task.startswith(OWN_TASK)
    _check_task(name, own=own)
    sizes = _parsed(params["axes"] or "")
    if not own:
        _check_axes(name, sizes)
    options = parse_options(SharingOptions, {**params, "task": name, "axes": sizes})
    return options.model_copy(
        update={
            "modes": tuple(mode for mode in SharingMode if mode in options.modes),
            "replicas": tuple(sorted(set(options.replicas))),
            "disturbances": tuple(each for each in Disturbance if each in options.disturbances),
        }
    )


def plan_sharing(
    config: Config,
    wanted: SharingOptions,
    *,
    run_name: str,
    targets: Sequence[str] = (),
    repeats: int = 1,
) -> list[PlannedJob]:
    """Plan all jobs in a run; by default, on all targets to which the options apply.

    Raises:
        PlanError: a target is unknown, or the options don't apply to a named target.
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
            f"{_list(wanted.replicas)}; Terraform created {_list(config.targets)}"
        )
    if wanted.disturbances and all(config.targets[name].sharing for name in plans):
        raise PlanError(
            f"disturbances are {_list(wanted.disturbances)}, but replicas can only be disturbed "
            "within one job: add a target that does not share its instance, or set no disturbances"
        )
    return [
        planned_job(
            config,
            run_name,
            name,
            folder=SHARING if (n := plan.separate_replicas) is None else f"{SHARING}/of-{n}",
            suite=SHARING,
            repeat=repeat,
            dtype=OWN_DTYPES,
            sharing=plan,
        )
        for repeat in range(1, repeats + 1)
        for name, of_target in plans.items()
        for plan in of_target
    ]


def skipped_size_notes(
    config: Config, wanted: SharingOptions, jobs: Iterable[PlannedJob]
) -> list[str]:
    """Return notes on replica counts that are too large for a target."""
    found = []
    for name in dict.fromkeys(job.target for job in jobs):
        most = config.targets[name].max_replicas
        if most and (above := [count for count in wanted.replicas if count > most]):
            found.append(
                f"{name} has room for {most} replicas, so it does not measure {_list(above)}. For "
                "these, raise its max_replicas in Terraform's shared_targets."
            )
    return found


def _plans(name: str, target: Target, wanted: SharingOptions) -> list[SharingOptions] | str:
    """Return the plans for a target's jobs, or the reason why there are none."""
    if target.sharing is None:
        return [wanted]
    if target.sharing not in wanted.modes:
        return (
            f"{name} shares its instance by {target.sharing}, but modes are {_list(wanted.modes)}: "
            "add that mode, or omit the target"
        )
    most = target.max_replicas or 1
    counts = [each for each in wanted.replicas if each <= most]
    if not counts:
        return (
            f"{name} has room for {most} replicas, but replicas are {_list(wanted.replicas)}: use "
            "fewer, or raise its max_replicas in Terraform's shared_targets"
        )
    return [
        wanted.model_copy(
            update={
                "form": "jobs",
                "modes": (SharingMode(target.sharing),),
                "replicas": (count,),
                "disturbances": (),
                **({} if target.sharing == "mps" else NO_LIMITS),
            }
        )
        for count in counts
    ]


def _check_task(name: str, *, own: bool) -> None:
    if own:
        # The image alone knows the user's own workloads.
        if name in TASKS:
            raise PlanError(
                f"task {name!r} is not one of your own workloads: omit the prefix {OWN_TASK!r}"
            )
        if not re.fullmatch("[a-z][a-z0-9_]*", name):
            raise PlanError(
                f"task {OWN_TASK + name!r} is not a valid workload name: use the name of its file "
                "in own_workloads without .py, consisting of a-z, 0-9 and _, such as "
                f"{OWN_TASK}softmax"
            )
    elif name not in TASKS:
        raise PlanError(
            f"unknown task {name!r}{did_you_mean(name, TASKS)}. Your own tasks are "
            f"{OWN_TASK}NAME, such as {OWN_TASK}softmax"
        )


def _parsed(axes: str) -> dict[str, int]:
    """Parse sizes given as `NAME=N`, separated by commas or spaces."""
    sizes = {}
    for part in re.split(r"[,\s]+", axes.strip()) if axes.strip() else []:
        name, _, value = part.partition("=")
        if not re.fullmatch(r"[A-Za-z_]\w*", name) or not re.fullmatch(r"[1-9]\d{0,11}", value):
            raise PlanError(
                f"axes contains {part!r}: use a name and a whole number, such as batch=32"
            )
        if name in sizes:
            raise PlanError(f"axes contains {name} twice: set each axis only once")
        sizes[name] = int(value)
    return sizes


def _check_axes(task: str, sizes: dict[str, int]) -> None:
    known = TASKS[task]
    for name, value in sizes.items():
        if name not in known:
            raise PlanError(
                f"axes contains {name}={value}, but the axes of {task} are {_list(known)}"
            )
        if not known[name].least <= value <= known[name].most:
            raise PlanError(
                f"{task} can't have {name}={value}: use {known[name].least} to {known[name].most}"
            )
    for name, axis in known.items():
        if name not in sizes and not axis.is_optional:
            raise PlanError(f"{task} needs {name}: set it in axes, such as {name}=32")


def _list(items: Iterable[object]) -> str:
    return ", ".join(map(str, items)) or "none"
