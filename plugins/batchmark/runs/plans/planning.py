"""Plans a run's jobs, and their Batch submissions, from its parameters.

Within a run, the jobs of a target whose jobs share an instance run one after the other. So do
users' own jobs that use the same queue, or queues with a common compute environment.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, get_args

from batchmark.aws.batch_targets import published_queues
from batchmark.aws.instance_families import Quota, vcpu_quota
from batchmark.aws.job_description import RETRY_RULES
from batchmark.core.config import Config, PurchaseOption, Target
from batchmark.core.errors import PlanError
from batchmark.core.names import INSTALLATION_TAG, RUN_ID_TAG, RUN_TAG, names_of_task, slug
from batchmark.core.run import JobLimits, PlannedJob, Purpose, job_limits
from batchmark.core.suites import DTYPES, MAX_REPEATS, OWN_DTYPES, SCALING, SUITES
from batchmark.runs.plans.options import overrides
from batchmark.runs.result_documents import ExpectedDocument

# Distances to the earlier jobs that show how many are still ahead; polled at most every 5 minutes.
AHEAD = (2, 4, 8, 16, 32)
# For an instance, while nothing else uses its capacity.
RUNNABLE_SECONDS = 3600
# For waiting in the queue and starting instances, in addition to the attempts.
LONGEST_WAIT_SECONDS = 6 * 3600


def plan_jobs(
    config: Config,
    *,
    run_name: str,
    suite: str,
    targets: Sequence[str] = (),
    repeats: int = 1,
    dtype: str = OWN_DTYPES,
    need_both_devices: bool = True,
    purpose: Purpose = "scheduled",
) -> list[PlannedJob]:
    """Plan all jobs in a run; by default, on all targets whose jobs don't share an instance.

    `run_name` is the name of the run's folder.

    Repeats are the outer loop, so that a target's repeats are spread across the run.

    Raises:
        PlanError: a name is unknown, a number is out of range, or there is nothing to compare.
    """
    if suite not in SUITES:
        raise PlanError(f"unknown suite {suite!r}; known: {', '.join(SUITES)}")
    if suite == SCALING:
        raise PlanError(
            f"suite {suite!r} needs multi-node jobs: run the DAG distributed_training_benchmark"
        )
    if dtype not in (OWN_DTYPES, *DTYPES):
        raise PlanError(f"unknown dtype {dtype!r}; known: {OWN_DTYPES}, {', '.join(DTYPES)}")
    check_repeats(repeats)
    chosen = check_targets(config, targets, need_both_devices=need_both_devices)
    return [
        planned_job(
            config, run_name, name, suite=suite, repeat=repeat, dtype=dtype, purpose=purpose
        )
        for repeat in range(1, repeats + 1)
        for name in chosen
    ]


def check_repeats(repeats: object) -> None:
    if isinstance(repeats, bool) or not isinstance(repeats, int) or not 1 <= repeats <= MAX_REPEATS:
        raise PlanError(f"repeats must be a whole number from 1 to {MAX_REPEATS}, got {repeats!r}")


def planned_job(
    config: Config, run_name: str, target: str, *, folder: str = "", **fields: Any
) -> PlannedJob:
    """Plan a job on a target.

    Args:
        folder: result folder within the target's folder; defaults to the suite's name.
        fields: other fields of PlannedJob, including suite and repeat; `limits` defaults to the
        target's limits.
    """
    chosen = config.targets[target]
    place = f"{target}/{folder or fields['suite']}/{fields['repeat']}"
    return PlannedJob(
        target=target,
        device=chosen.device,
        instance_type=chosen.instance_type,
        result_prefix=f"s3://{config.bucket}/raw/{run_name}/{place}/",
        **{"limits": job_limits(chosen)} | fields,
    )


def check_targets(
    config: Config,
    targets: Sequence[str],
    *,
    need_both_devices: bool = False,
    shared_too: bool = False,
) -> list[str]:
    """Validate and return the targets to run, in configuration order.

    By default, all targets run except (unless `shared_too`) those whose jobs share an instance.

    Raises:
        PlanError: a name is unknown, there is no target, or one of the two devices is missing.
    """
    known = ", ".join(config.targets) or "none"
    unknown = [name for name in targets if name not in config.targets]
    if unknown:
        raise PlanError(f"unknown target {unknown[0]!r}; Terraform created: {known}")
    chosen = [
        name
        for name, target in config.targets.items()
        if (name in targets if targets else shared_too or target.sharing is None)
    ]
    if not chosen:
        raise PlanError(
            "there are no targets to run: Terraform created none, or only ones whose jobs share an "
            "instance"
        )
    missing = {"cuda", "cpu"} - {config.targets[name].device for name in chosen}
    if need_both_devices and missing:
        raise PlanError(
            f"there is no {missing.pop()} target among {', '.join(chosen)}: a comparison needs at "
            f"least one target for each device; Terraform created: {known}"
        )
    return chosen


def names_of_job(config_name: str, run_id: str, job: PlannedJob) -> str:
    """Return the prefix of a planned job's names in Batch; clearing tasks does not change it."""
    return names_of_task(_label(config_name, job), run_id)


def _label(config_name: str, job: PlannedJob) -> str:
    return f"{config_name}-{job.target}-{job.name}".replace(".", "-")


def _queues_of_same_quota(config: Config, name: str) -> list[str]:
    """Return the queues of other targets that count against the same vCPU quotas."""

    def quotas(target: Target) -> set[Quota | None]:
        return {vcpu_quota(target.instance_type, purchase) for purchase in get_args(PurchaseOption)}

    counted = quotas(config.targets[name]) - {None}
    return published_queues(
        {
            other: target
            for other, target in config.targets.items()
            if other != name and counted & quotas(target)
        }
    )


def all_operator_kwargs(
    config: Config, run_id: str, jobs: Sequence[PlannedJob]
) -> list[dict[str, Any]]:
    """Return BenchmarkJobOperator's arguments for each job, in the order of the mapped tasks."""
    arguments, before = [], defaultdict[int, list[int]](list)
    rows = _rows({job.target: config.targets[job.target] for job in jobs})
    for index, job in enumerate(jobs):
        in_turn = before[rows[job.target]] if _in_turn(config, job) else []
        first = _first_of_side(jobs[:index], job)
        arguments.append(operator_kwargs(config, run_id, job, before=in_turn, first=first))
        in_turn.append(index)
    return arguments


def _rows(targets: Mapping[str, Target]) -> dict[str, int]:
    """Number the targets so that those whose jobs can run on the same instances share a number."""
    rows: list[set[str]] = []
    for target in targets.values():
        own = {target.job_queue, *target.compute_environments.names}
        met = [row for row in rows if row & own]
        rows = [*(row for row in rows if row not in met), own.union(*met)]
    return {
        name: next(number for number, row in enumerate(rows) if target.job_queue in row)
        for name, target in targets.items()
    }


def _in_turn(config: Config, job: PlannedJob) -> bool:
    """Whether the job is submitted only after earlier jobs on the same instances have ended."""
    return config.targets[job.target].sharing is not None or job.own_job is not None


def _first_of_side(before: Sequence[PlannedJob], job: PlannedJob) -> int | None:
    """Return the index of the target's first own job that is no larger than this one, if any.

    A failure at a larger size would say nothing about this one.
    """
    if (own := job.own_job) is None:
        return None
    return next(
        (
            index
            for index, other in enumerate(before)
            if other.target == job.target
            and other.own_job
            and (other.own_job.size or 0.0) <= (own.size or 0.0)
        ),
        None,
    )


def longest_seconds(job: PlannedJob, limits: JobLimits) -> int:
    """Return the longest time that a job can take from its submission to its end.

    All its earlier repeats can run first, one by one, unless it is submitted after they have ended,
    as multi-node jobs and users' own jobs are.
    """
    turns = 1 if job.scaling or job.own_job else job.repeat
    return LONGEST_WAIT_SECONDS + turns * limits.attempts * limits.timeout_seconds


def operator_kwargs(
    config: Config,
    run_id: str,
    job: PlannedJob,
    before: Sequence[int] = (),
    first: int | None = None,
) -> dict[str, Any]:
    """Return BenchmarkJobOperator's arguments for this job.

    `before` are the map indexes of the jobs that must end first. If the job with the map index
    `first` fails because of its own error, this one is skipped.
    """
    target = config.targets[job.target]
    limits = job.limits or job_limits(target)
    tags = {
        INSTALLATION_TAG: config.name,
        RUN_TAG: slug(run_id),
        "batchmark:target": job.target,
        "batchmark:suite": job.suite,
    }
    parameters = {
        "suite": job.suite,
        "dtype": job.dtype,
        "run_id": run_id,
        "output": job.result_prefix,
    }
    if job.own_job:  # its parameters are its own, so they can't name the run
        tags[RUN_ID_TAG] = run_id
        parameters = job.own_job.parameters
    return {
        "job_name": _label(config.name, job),
        "job_queue": target.job_queue,
        "on_demand_queue": target.on_demand_queue if limits.submissions > 1 else None,
        "job_definition": job.own_job.job_definition if job.own_job else target.job_definition,
        "region_name": config.region,
        "longest_seconds": longest_seconds(job, limits),
        # They override the definition's, which the caps have not seen.
        "submit_job_timeout": limits.timeout_seconds,
        "retry_strategy": {"attempts": limits.attempts, "evaluateOnExit": list(RETRY_RULES)},
        "queues_of_same_quota": _queues_of_same_quota(config, job.target),
        "document": ExpectedDocument.of(run_id, job).model_dump(mode="json"),
        "environment": job.own_job.environment if job.own_job else {},
        "in_turn": _in_turn(config, job),
        "alone": target.sharing is not None,
        "after": before[-1] if before else None,
        "ahead": [before[-distance] for distance in AHEAD if distance <= len(before)],
        "first": first,
        "turn": len(before) + 1,
        **overrides(job),
        "events_log_group": config.events_log_group,
        "parameters": parameters,
        "tags": tags,
    }
