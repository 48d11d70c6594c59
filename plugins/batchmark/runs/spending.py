"""Records monthly spending in USD, in one small object per run: `costs/<yyyy-mm>/<run>.json`.

The object holds the worst-case cost once the run is planned, and the actual cost once its results
are collected. A run counts towards the month in which it was planned, in UTC.
"""

from __future__ import annotations

from calendar import monthrange
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from fractions import Fraction
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import AwareDatetime, Field, ValidationError

from batchmark.core import formatting
from batchmark.core.clusters.file_system_cost import exact_usd
from batchmark.core.prices import exact
from batchmark.core.record import Record, first_problem
from batchmark.core.run import WorstCase

if TYPE_CHECKING:
    from batchmark.analysis.cost import JobCost
    from batchmark.aws.result_bucket import RunStore

COSTS_FOLDER = "costs/"
FILE_SYSTEM = "file system"  # in place of an id: the most that it can still cost
MOST_USD = 1e12  # far above any run, and far below where sums leave the range of floats

Usd = Annotated[float, Field(ge=0, le=MOST_USD)]


class RunSpending(Record):
    """One run's spending within a month."""

    run_id: str
    planned_at: AwareDatetime
    generation: int = Field(ge=0, description="how many times the run's plan task was cleared")
    reserved_usd: Usd | None = Field(
        description="worst-case cost of the jobs that have not finished; null if unknown"
    )
    finished: bool = False
    job_usd: dict[str, Usd | None] = Field(
        default={},
        description=(
            "cost of finished jobs and file systems by id; the worst-case cost if the actual cost "
            "is unknown; null if that is unknown as well"
        ),
    )

    @property
    def exact_usd(self) -> Fraction:
        """The sum of all known amounts."""
        amounts = (self.reserved_usd, *self.job_usd.values())
        return sum((exact(usd) for usd in amounts if usd is not None), exact(0))

    @property
    def is_known(self) -> bool:
        return None not in (self.reserved_usd, *self.job_usd.values())

    def replanned(self, generation: int) -> RunSpending:
        """Return what remains of this record when its run is planned again.

        After a mere retry, nothing stays reserved, because no job was submitted. A cleared run
        might have jobs whose cost was never settled, so their worst-case cost stays reserved.
        """
        unsettled = not self.finished and generation != self.generation
        update = {
            "generation": generation,
            "finished": False,
            "reserved_usd": self.reserved_usd if unsettled else 0.0,
            # It may stand up another file system.
            "job_usd": {
                name: usd for name, usd in self.job_usd.items() if (name, usd) != (FILE_SYSTEM, 0)
            },
        }
        return self.model_copy(update=update)

    def reserving(self, usd: float | None) -> RunSpending:
        """Return this record, marked as unfinished, with another `usd` reserved."""
        reserved = None
        if usd is not None and self.reserved_usd is not None:
            reserved = float(exact(self.reserved_usd) + exact(usd))
        return self.model_copy(update={"finished": False, "reserved_usd": reserved})

    def settled(
        self, costs: Iterable[JobCost], worst: WorstCase, *, free: bool = False
    ) -> RunSpending:
        """Return this record as finished, adding the jobs' actual cost or, if unknown, worst case.

        Jobs in a local cloud are free, whatever they would cost in AWS.
        """

        def at_most(cost: JobCost) -> float | None:
            return 0.0 if free else worst.usd_of_job(cost.target, cost.nodes)

        job_usd = {
            cost.job_id: at_most(cost) if cost.usd is None else cost.usd
            for cost in costs
            if cost.job_id
        }
        if worst.file_system and FILE_SYSTEM not in self.job_usd:
            job_usd[FILE_SYSTEM] = 0.0 if free else worst.file_system.usd
        update = {"finished": True, "reserved_usd": 0.0, "job_usd": self.job_usd | job_usd}
        return self.model_copy(update=update)

    def with_file_systems(self, usd: dict[str, float | None], *, any_left: bool) -> RunSpending:
        """Return this record with the costs of deleted file systems added, by id.

        Once no file system is left, the amount reserved for them becomes 0.
        """
        none_left: dict[str, float | None] = {} if any_left else {FILE_SYSTEM: 0.0}
        return self.model_copy(update={"job_usd": self.job_usd | usd | none_left})


class MonthSpending(Record):
    """The cost of a month's runs, and what they could still cost."""

    month: str = Field(description="yyyy-mm")
    runs: dict[str, RunSpending] = Field(description="by key")
    unreadable: tuple[str, ...] = Field(description="keys without a valid record, with the reason")

    @property
    def exact_usd(self) -> Fraction:
        return sum((run.exact_usd for run in self.runs.values()), exact(0))

    def without(self, key: str, record: RunSpending | None = None) -> MonthSpending:
        """Return this month with the record at `key` replaced by `record`, or removed if None."""
        runs = {found: run for found, run in self.runs.items() if found != key}
        return self.model_copy(update={"runs": runs | ({key: record} if record else {})})

    def free(self) -> MonthSpending:
        """Return this month for a local cloud, where unfinished jobs cost nothing."""
        runs = {key: run.model_copy(update={"reserved_usd": 0.0}) for key, run in self.runs.items()}
        return self.model_copy(update={"runs": runs})

    @property
    def unpriced(self) -> tuple[str, ...]:
        """The keys of runs that are missing from the sum or only partly included."""
        return tuple(key for key, run in self.runs.items() if not run.is_known)

    def __str__(self) -> str:
        parts = []
        for finished, words in ((True, "finished"), (False, "planned and not finished, at most")):
            runs = [run for run in self.runs.values() if run.finished is finished]
            if runs:
                usd = float(sum((run.exact_usd for run in runs), exact(0)))
                parts.append(f"{len(runs)} {words} {formatting.usd(usd)}")
        if unknown := (*self.unreadable, *self.unpriced):
            parts.append(f"missing or only partly included: {', '.join(unknown)}")
        listed = f" ({'; '.join(parts)})" if parts else ""
        return f"Runs of {self.month}: {formatting.usd(float(self.exact_usd))}{listed}"


def spending_key(store: RunStore, planned_at: datetime) -> str:
    return f"{COSTS_FOLDER}{planned_at.astimezone(UTC):%Y-%m}/{store.name}.json"


def run_spending(store: RunStore, key: str) -> RunSpending | None:
    """Read a run's spending record; None if there is no valid one."""
    return store.record(RunSpending, key)


def month_spending(store: RunStore, key: str) -> MonthSpending:
    """Read the spending records for the month that `key` belongs to."""
    folder = key.rpartition("/")[0] + "/"
    runs, unreadable = {}, []
    for found in store.keys(folder):
        try:
            runs[found] = RunSpending.model_validate_json(store.read_if_there(found) or "")
        except ValidationError as error:
            unreadable.append(f"{found} ({first_problem(error)})")
    month = folder.removeprefix(COSTS_FOLDER).rstrip("/")
    return MonthSpending(month=month, runs=runs, unreadable=tuple(unreadable))


def settle_file_systems(
    store: RunStore,
    gone: Mapping[str, Mapping[str, Any]],
    now: datetime,
    *,
    any_left: bool = False,
) -> float | None:
    """Book the cost of deleted file systems; return the sum in USD, or None if unknown.

    The cost replaces the booked worst case, unless the run still has another file system. `gone`
    maps deleted file systems' ids to their last descriptions. In a local cloud, all are free.
    """
    plan = store.plan()
    layer = plan.worst_case.file_system if plan.worst_case else None
    booked = run_spending(store, plan.spending_key) if plan.spending_key else None
    if layer is None or booked is None or plan.spending_key is None or (any_left and not gone):
        return None
    price = layer.usd_per_gb_month if store.is_aws() else 0.0
    usd: dict[str, float | None] = dict.fromkeys(gone)
    if price is not None:
        for file_system_id, described in gone.items():
            began = described["CreationTime"]
            seconds = max(0.0, (now - began).total_seconds())
            _, days = monthrange(began.year, began.month)
            amount = exact_usd(described["StorageCapacity"], seconds, price, days)
            usd[file_system_id] = float(amount)
    record = booked.with_file_systems(usd, any_left=any_left)
    store.put(plan.spending_key, record.model_dump_json(indent=2))
    known = [amount for amount in usd.values() if amount is not None]
    return sum(known) if len(known) == len(usd) else None
