"""Computes a run's worst-case cost in USD, checks it against the caps, and books it.

In the worst case, every job uses all its attempts, each for its full timeout, at the On-Demand
price. For Spot, Batch never pays more than `bidPercentage` of that (API reference), which Terraform
keeps at 100 or below. A target that falls back from Spot to On-Demand can incur this cost twice. As
elsewhere, costs cover the run time of containers on whole instances, but not boot time, idle
minutes or disks.

An array job counts once, however many children it has. They share one instance, as their compute
environment allows no more, and are placed together, because such a job is submitted only when its
queue is empty. Children that wait for a sibling in vain fail without retries, so none starts after
another has ended.

A multi-node job counts once for each node, plus idle time: the first node can wait for the last as
long as a job can be RUNNABLE, and all nodes are billed until Batch ends them. A run's file
system counts for the longest possible run, in which the jobs run one after the other.

Sums and comparisons are exact, in whole cents. Each target's cost is rounded up, so displayed
amounts add up and are never below those compared with the caps.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import datetime

from batchmark.aws.result_bucket import RunStore
from batchmark.core import formatting
from batchmark.core.clusters.file_system_cost import FileSystemWorst, price_file
from batchmark.core.clusters.multi_node import COLLAPSE_SECONDS, STAND_UP_SECONDS, FileSystem
from batchmark.core.config import Config
from batchmark.core.errors import PlanError
from batchmark.core.names import target_order
from batchmark.core.prices import PriceTable, exact
from batchmark.core.run import JobLimits, PlannedJob, TargetWorst, WorstCase, job_limits
from batchmark.runs.plans.planning import RUNNABLE_SECONDS, longest_seconds
from batchmark.runs.spending import MonthSpending, RunSpending, month_spending

IDLE_SECONDS = 600  # until Batch ends a node that has nothing to do
RUN_CAP = "max_cost_usd"
MONTH_CAP = "monthly_cap_usd"
ASK_FOR_LESS = (
    "Use fewer targets, sizes or repeats, or lower their timeout_seconds or attempts in "
    "Terraform's target_overrides or own_jobs, or a side's timeout_seconds"
)
ASK_FOR_FEWER_NODES = (
    "Use fewer node counts, repeats or variants, or lower timeout_seconds in "
    "terraform/stacks/multi_node"
)


def worst_case(
    config: Config,
    jobs: Iterable[PlannedJob],
    prices: PriceTable,
    now: datetime,
    file_system: FileSystem | None = None,
    *,
    stands: bool = False,
) -> WorstCase:
    """Compute the worst-case cost of a run's jobs at the prices in its region.

    `file_system` is the run's file system, if it has one; `stands` means that it already exists.
    """
    limited = defaultdict(list)
    for job in jobs:
        limits = job.limits or job_limits(config.targets[job.target])
        limited[job.target, job.instance_type, limits].append(job)
    targets = tuple(
        _target_worst(name, some, limits, instance_type, prices)
        for (name, instance_type, limits), some in sorted(
            limited.items(), key=lambda one: target_order(one[0][0])
        )
    )
    layer = None
    if file_system and limited:
        seconds = 0 if stands else STAND_UP_SECONDS + COLLAPSE_SECONDS
        seconds += sum(
            longest_seconds(job, limits) for (_, _, limits), some in limited.items() for job in some
        )
        layer = FileSystemWorst.of(file_system, config.region, seconds)
    stale = prices.staleness(now)
    worst = WorstCase(
        targets=targets,
        file_system=layer,
        usd=None,
        region=prices.region,
        prices_as_of=prices.as_of,
        prices_source=prices.source,
        notes=(
            *([stale] if stale else []),
            *prices.only(target.instance_type for target in targets).all_notes,
        ),
    )
    return worst.model_copy(update={"usd": _usd(worst.cents)})


def _target_worst(
    name: str,
    jobs: Sequence[PlannedJob],
    limits: JobLimits,
    instance_type: str,
    prices: PriceTable,
) -> TargetWorst:
    worst = TargetWorst(
        target=name,
        instance_type=instance_type,
        jobs=len(jobs),
        instances=sum(job.nodes for job in jobs) if any(job.scaling for job in jobs) else None,
        idle_seconds=sum(map(_idle_seconds, jobs)),
        usd_per_hour=prices.on_demand.get(instance_type),
        usd=None,
        **dict(limits),
    )
    return worst.model_copy(update={"usd": _usd(worst.cents)})


def _idle_seconds(job: PlannedJob) -> int:
    """Return a multi-node job's worst-case idle seconds over all its nodes; 0 for other jobs."""
    if job.scaling is None:
        return 0
    waits = RUNNABLE_SECONDS if job.nodes > 1 else 0
    return job.nodes * (waits + IDLE_SECONDS)


def parse_cap(value: object) -> float | None:
    """Parse the run's cap in USD from the trigger form; None for no cap.

    Raises:
        PlanError: the cap is not a finite number above 0.
    """
    if value is None:
        return None
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        with suppress(OverflowError):  # of an int beyond every float
            if value > 0 and math.isfinite(value):
                return value
    raise PlanError(f"{RUN_CAP} must be an amount above 0, or empty for no cap, got {value!r}")


def refusals(
    worst: WorstCase,
    *,
    max_cost_usd: float | None,
    month: MonthSpending | None = None,
    monthly_cap_usd: float | None = None,
) -> tuple[str, ...]:
    """Return the reasons why a run can't be submitted; empty if it can.

    Without a price, the cost has no upper bound, so any cap means refusal. `month`, needed only for
    the monthly cap, is what the month's other runs have cost or can still cost.
    """
    caps = {RUN_CAP: max_cost_usd, MONTH_CAP: monthly_cap_usd}
    names = [name for name, cap in caps.items() if cap is not None]
    if not names:
        return ()
    if worst.cents is None or worst.usd is None:
        return (_unbounded(worst, names),)
    found = []
    if max_cost_usd is not None and worst.cents > 100 * exact(max_cost_usd):
        parts = "; ".join(map(str, worst.parts))
        found.append(
            f"This run can cost up to {formatting.usd(worst.usd)}, above its {RUN_CAP} of "
            f"{_cap(max_cost_usd)}: {parts}. {_ask_for_less(worst)}, or raise {RUN_CAP}."
        )
    if monthly_cap_usd is not None:
        if month is None:
            raise PlanError(
                f"{MONTH_CAP} is {_cap(monthly_cap_usd)}, but the month's spending is unknown"
            )
        found += _month_refusals(worst, worst.cents, worst.usd, month, monthly_cap_usd)
    return tuple(found)


def _ask_for_less(worst: WorstCase) -> str:
    has_nodes = any(target.instances is not None for target in worst.targets)
    return ASK_FOR_FEWER_NODES if has_nodes else ASK_FOR_LESS


def _month_refusals(
    worst: WorstCase, cents: int, usd: float, month: MonthSpending, cap: float
) -> list[str]:
    if unknown := (*month.unreadable, *month.unpriced):
        return [
            f"{MONTH_CAP} is {_cap(cap)}, but {month.month} can't be summed up: "
            f"{', '.join(unknown)} contain no valid amount. Correct them, or delete those of runs "
            "outside AWS."
        ]
    if 100 * month.exact_usd + cents <= 100 * exact(cap):
        return []
    return [
        f"{month}. With up to {formatting.usd(usd)} for this run, that exceeds the {MONTH_CAP} of "
        f"{_cap(cap)}. {_ask_for_less(worst)}, wait for the next month, or raise {MONTH_CAP} in "
        "Terraform."
    ]


def _unbounded(worst: WorstCase, caps: Iterable[str]) -> str:
    names = " ".join(worst.unpriced)
    why = " ".join(worst.notes)
    unknown = (
        "This run's worst-case cost is unknown, so it can't be checked against "
        f"{' and '.join(caps)}"
    )
    if not names and worst.file_system:
        return (
            f"{unknown}: there is no price for a {worst.file_system.kind} file system in "
            f"{worst.region}. Add it to {price_file(worst.region).name}, use synthetic data only, "
            "or run without a cap."
        )
    return (
        f"{unknown}: there is no On-Demand price for {names} in {worst.region}. {why} "
        "Allow Airflow to call "
        f'pricing:GetProducts, add prices with `make prices TYPES="{names}"`, or run without a cap.'
    )


def book(
    store: RunStore,
    key: str,
    record: RunSpending,
    worst: WorstCase,
    *,
    monthly_cap_usd: float | None,
    if_refused: RunSpending,
) -> tuple[str, ...]:
    """Book some jobs' worst-case cost; return any reasons why the monthly cap rules them out.

    The month is summed up again after booking. S3 listings are consistent, so if several runs book
    at once, the last to write sees all others: two runs that together exceed the cap never both
    pass, but both might be refused. `record` is the run's spending without these jobs; `if_refused`
    is stored instead if they are refused.
    """
    _store(store, key, record.reserving(worst.usd))
    if monthly_cap_usd is None:
        return ()
    month = month_spending(store, key).without(key, record)
    reasons = refusals(worst, max_cost_usd=None, month=month, monthly_cap_usd=monthly_cap_usd)
    if reasons:
        _store(store, key, if_refused)
    return reasons


def _store(store: RunStore, key: str, record: RunSpending) -> None:
    store.put(key, record.model_dump_json(indent=2))


def _cap(usd: float) -> str:
    return f"${usd:,.12g}"


def _usd(cents: int | None) -> float | None:
    return None if cents is None else cents / 100
