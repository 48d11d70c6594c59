"""Plans runs of users' own jobs, and validates their options before anything costs money.

Each Batch job measures one target or side at one size, once. The order within a repeat is shuffled,
so that changes during a run, such as load on a shared network, affect all sides alike. First, each
queue runs one extra job of the smallest size to start its instance, so that later jobs find it
warm. A job is skipped if the first job of its target or side, at the same or a smaller size,
failed because of its own error.
"""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from batchmark.core.config import Config
from batchmark.core.errors import ConfigError, PlanError, did_you_mean
from batchmark.core.own_jobs import ComparisonRun, JobSize, OwnJob, OwnJobPlan, OwnJobRun, OwnJobs
from batchmark.core.run import JobLimits, PlannedJob, job_limits
from batchmark.core.suites import OWN_DTYPES, OWN_JOB
from batchmark.runs.own_jobs.sides import FoundSide
from batchmark.runs.own_jobs.wrapper import container_overrides
from batchmark.runs.plans.options import parse_options
from batchmark.runs.plans.planning import check_targets, planned_job
from batchmark_job.result.version import GivenVersion

MOST_JOBS = 500  # each waits in a triggerer, which has room for 1,000 by default, other runs' too
RESULT = ("shell", "check", "output", "output_sha256")  # how it is judged, as own_jobs says it
_PLACEHOLDER = re.compile(r"Ref::([A-Za-z0-9_-]+)")


class _OnTarget(NamedTuple):
    """A target or side, with the plan for its jobs of all sizes or, later, of one size."""

    target: str
    plan: OwnJobPlan  # its command has placeholders, its parameters are their values
    limits: JobLimits
    version: GivenVersion | None = None  # that it has where the run's form gives none


def parse_own_job_run(own_jobs: OwnJobs, params: Mapping[str, Any]) -> OwnJobRun:
    """Parse the form that runs a user's own job.

    Raises:
        PlanError: an option is invalid; for sizes, the message lists those in Terraform.
    """
    try:
        return parse_options(OwnJobRun, params)
    except PlanError as error:
        job = own_jobs.jobs.get(str(params.get("job")))
        if job and job.axis and str(error).startswith("sizes "):
            known = ", ".join(map(str, job.axis.sizes))
            raise PlanError(f"{error}; the sizes in Terraform are {known}") from error
        raise


def plan_own_jobs(
    config: Config,
    own_jobs: OwnJobs,
    wanted: OwnJobRun,
    *,
    run_name: str,
) -> list[PlannedJob]:
    """Plan all jobs in a run of a user's own job; by default, it covers all sizes and targets.

    Raises:
        PlanError: a name is unknown, or a placeholder has no value.
        ConfigError: `own_jobs` belongs to another installation.
    """
    name = wanted.job or ""
    job = chosen_job(config, own_jobs, name)
    axis = job.axis.parameter if job.axis else None
    of_targets = []
    for target in own_targets(config, name, job, wanted.targets):
        plan = OwnJobPlan(
            name=name,
            job_definition=job.job_definitions[target],
            axis=axis,
            deadline_seconds=wanted.deadline_seconds,
            **job.model_dump(include={"command", "parameters", *RESULT}),
        )
        changes = {"attempts": job.attempts, "timeout_seconds": job.timeout_seconds}
        limits = job_limits(config.targets[target]).model_copy(update=changes)
        of_targets.append(_OnTarget(target, plan, limits, job.version))
    sizes = _sizes(axis, wanted.sizes or (job.axis.sizes if job.axis else ()))
    return _planned(config, of_targets, sizes, run_name=run_name, repeats=wanted.repeats)


def plan_comparison(
    config: Config,
    found: Mapping[str, FoundSide],
    wanted: ComparisonRun,
    *,
    run_name: str,
) -> list[PlannedJob]:
    """Plan all jobs in a comparison of existing jobs; `config` must include the sides as targets.

    Raises:
        PlanError: as in `plan_own_jobs`.
    """
    of_sides = [
        _OnTarget(side, _plan_of(each, wanted), job_limits(each.target), each.side.version)
        for side, each in found.items()
    ]
    sizes = _sizes(wanted.parameter, wanted.sizes)
    return _planned(config, of_sides, sizes, run_name=run_name, repeats=wanted.repeats)


def chosen_job(config: Config, own_jobs: OwnJobs, name: str) -> OwnJob:
    """Look up a user's own job by name.

    Raises:
        PlanError, ConfigError: as in `plan_own_jobs`.
    """
    if (own_jobs.name, own_jobs.region) != (config.name, config.region):
        raise ConfigError(
            f"your own jobs belong to installation {own_jobs.name!r} in {own_jobs.region}, but "
            f"this Airflow belongs to {config.name!r} in {config.region}: apply Terraform again"
        )
    if name not in own_jobs.jobs:
        raise PlanError(f"unknown own job {name!r}{did_you_mean(name, own_jobs.jobs)}")
    return own_jobs.jobs[name]


def own_targets(config: Config, name: str, job: OwnJob, targets: Sequence[str] = ()) -> list[str]:
    """Return the targets for a run of a user's own job, in configuration order.

    Raises:
        PlanError: the job has no definition for a target, or a target's jobs share an instance.
    """
    for target in targets:
        if target not in job.job_definitions:
            raise PlanError(
                f"{name} has no target {target!r}{did_you_mean(target, job.job_definitions)}"
            )
    chosen = check_targets(config, list(targets or job.job_definitions))
    for target in chosen:
        if config.targets[target].sharing:
            raise PlanError(
                f"jobs on {target} share an instance, which would disturb {name}: remove the "
                "target from targets, in the form or in Terraform's own_jobs"
            )
    return chosen


def _plan_of(found: FoundSide, wanted: ComparisonRun) -> OwnJobPlan:
    side = found.side
    named = _placeholders([*found.command, side.check or "", side.output or ""])
    for parameter in side.parameters:
        if parameter not in named:
            raise PlanError(
                f"side {side.name!r} sets parameter {parameter!r}, which its command does not "
                f"use{did_you_mean(parameter, named)}"
            )
    return OwnJobPlan(
        name=wanted.name,
        job_definition=found.target.job_definition,
        command=found.command,
        parameters=found.parameters,
        axis=wanted.parameter,
        deadline_seconds=wanted.deadline_seconds,
        existing=True,
        **side.model_dump(include={"environment", "vcpus", "memory_mib", "gpus", *RESULT}),
    )


def _planned(
    config: Config,
    of_targets: Sequence[_OnTarget],
    sizes: Sequence[JobSize | None],
    *,
    run_name: str,
    repeats: int,
) -> list[PlannedJob]:
    once = [
        each._replace(plan=_at(each.target, each.plan, size))
        for size in sizes
        for each in of_targets
    ]
    order = [
        (each, repeat)
        for repeat in range(1, repeats + 1)
        for each in random.Random(f"{run_name} {repeat}").sample(once, len(once))
    ]
    first: dict[str, _OnTarget] = {}
    for each in once:
        first.setdefault(config.targets[each.target].job_queue, each)
    order = [*((each, repeats + 1) for each in first.values()), *order]
    if len(order) > MOST_JOBS:
        raise PlanError(
            f"{len(order):,} jobs exceed the limit of {MOST_JOBS:,} per run: use fewer repeats, "
            "sizes or targets"
        )
    return [_job(config, run_name, each, repeat) for each, repeat in order]


def _job(config: Config, run_name: str, each: _OnTarget, repeat: int) -> PlannedJob:
    suite = f"{OWN_JOB}{each.plan.name}"
    folder = f"{suite}-{each.plan.axis}-{each.plan.size}" if each.plan.axis else suite
    return planned_job(
        config,
        run_name,
        each.target,
        folder=folder,
        suite=suite,
        repeat=repeat,
        dtype=OWN_DTYPES,
        limits=each.limits,
        own_job=each.plan,
        version=each.version,
    )


def _at(target: str, plan: OwnJobPlan, size: JobSize | None) -> OwnJobPlan:
    """Build the plan for one size, with all placeholders filled in."""
    values = plan.parameters | ({plan.axis: str(size)} if plan.axis else {})
    texts = {"command": plan.command, "check": (plan.check or "",), "output": (plan.output or "",)}
    used = {what: _placeholders(words) for what, words in texts.items()}
    if plan.shell and not plan.command:
        raise PlanError(
            f"{target} uses its image's default command, which is unknown: specify a command, or "
            "set shell to false, which yields less information"
        )
    if plan.axis and plan.axis not in used["command"]:
        raise PlanError(
            f"the command of {target} does not contain Ref::{plan.axis}, so sizes would have no "
            f"effect{did_you_mean(plan.axis, used['command'])}"
        )
    for what, names in used.items():
        if missing := [name for name in names if name not in values]:
            raise PlanError(
                f"the {what} of {target} contains Ref::{missing[0]}, which has no value: set it in "
                "parameters"
            )

    def fill(text: str) -> str:
        return _PLACEHOLDER.sub(lambda match: values[match[1]], text)

    for number, word in enumerate(plan.command, start=1):
        if not fill(word):
            raise PlanError(
                f"word {number} of the command of {target}, {word!r}, is empty, which Batch "
                "rejects: omit it, or give its parameter a value"
            )
    filled = plan.model_copy(
        update={
            "command": tuple(map(fill, plan.command)),
            "check": plan.check and fill(plan.check),
            "output": plan.output and fill(plan.output),
            "parameters": {name: values[name] for names in used.values() for name in names},
            "size": size,
        }
    )
    container_overrides(filled)  # refuses what is too long
    return filled


def _placeholders(words: Sequence[str]) -> list[str]:
    return list(dict.fromkeys(name for word in words for name in _PLACEHOLDER.findall(word)))


def _sizes(axis: str | None, sizes: Sequence[JobSize]) -> Sequence[JobSize | None]:
    """Return the sizes, smallest first; a single None if there is no axis."""
    if axis is None:
        if sizes:
            raise PlanError(
                f"sizes contains {sizes[0]!r}, but the job has no axis: choose a parameter of its "
                "command as the axis"
            )
        return [None]
    # A whole number as one, so that a command gets 64, not 64.0.
    return sorted({int(each) if each == int(each) else each for each in sizes})
