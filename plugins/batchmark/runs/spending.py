"""What the runs of a month cost, in USD: one small object a run, `costs/<yyyy-mm>/<run>.json`.

Written when a run is planned, with the most that it can cost, and again with what it did cost once
its results are collected. A run counts in the month that it was planned in, by UTC.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from pydantic import AwareDatetime, Field, ValidationError

from batchmark import figures
from batchmark.budget import exact
from batchmark.record import Record

if TYPE_CHECKING:
    from collections.abc import Iterable
    from fractions import Fraction

    from batchmark.budget import WorstCase
    from batchmark.cost import JobCost
    from batchmark.store import RunStore

COSTS_FOLDER = "costs/"


class RunSpending(Record):
    """One run's part in the spending of a month."""

    run_id: str
    planned_at: AwareDatetime
    generation: int = Field(ge=0, description="how often its plan was cleared")
    reserved_usd: float | None = Field(
        description="the most that jobs can cost that are not finished; null if not known"
    )
    finished: bool = False
    job_usd: dict[str, float | None] = Field(
        default={},
        description="of finished jobs, by id; of a job whose cost is not known, the most that it "
        "can be; null if neither is known",
    )

    @property
    def exact_usd(self) -> Fraction:
        """Of all that is known."""
        amounts = (self.reserved_usd, *self.job_usd.values())
        return sum((exact(usd) for usd in amounts if usd is not None), exact(0))

    @property
    def is_known(self) -> bool:
        return None not in (self.reserved_usd, *self.job_usd.values())

    def replanned(self, generation: int) -> RunSpending:
        """What stays of this record where its run is planned once more.

        A retry of the plan has submitted nothing. A clear may have ended jobs that are not booked.
        """
        unbooked = not self.finished and generation != self.generation
        update = {
            "generation": generation,
            "finished": False,
            "reserved_usd": self.reserved_usd if unbooked else 0.0,
        }
        return self.model_copy(update=update)

    def reserving(self, usd: float | None) -> RunSpending:
        """This record with so much more that jobs can cost."""
        reserved = None
        if usd is not None and self.reserved_usd is not None:
            reserved = float(exact(self.reserved_usd) + exact(usd))
        return self.model_copy(update={"reserved_usd": reserved})

    def settled(self, costs: Iterable[JobCost], worst: WorstCase) -> RunSpending:
        """This record with what the run's jobs cost, those of an earlier settlement kept."""
        job_usd = {
            one.job_id: worst.usd_per_job(one.target) if one.usd is None else one.usd
            for one in costs
            if one.job_id
        }
        update = {"finished": True, "reserved_usd": 0.0, "job_usd": self.job_usd | job_usd}
        return self.model_copy(update=update)


class MonthSpending(Record):
    """What the runs of a month cost, and may still cost."""

    month: str = Field(description="yyyy-mm")
    runs: dict[str, RunSpending] = Field(description="by key")
    unreadable: tuple[str, ...] = Field(description="keys that hold no such record")

    @property
    def exact_usd(self) -> Fraction:
        """Of all that is known."""
        return sum((run.exact_usd for run in self.runs.values()), exact(0))

    def without(self, key: str, record: RunSpending | None = None) -> MonthSpending:
        """This month with `record`, or nothing, in the place of the one at `key`."""
        runs = {found: run for found, run in self.runs.items() if found != key}
        return self.model_copy(update={"runs": runs | ({key: record} if record else {})})

    @property
    def unpriced(self) -> tuple[str, ...]:
        """Keys of runs that are not, or only partly, in the sum."""
        return tuple(key for key, run in self.runs.items() if not run.is_known)

    def __str__(self) -> str:
        parts = []
        for finished, words in ((True, "finished"), (False, "planned and not finished, at most")):
            runs = [run for run in self.runs.values() if run.finished is finished]
            if runs:
                usd = float(sum((run.exact_usd for run in runs), exact(0)))
                parts.append(f"{len(runs)} {words} {figures.usd(usd)}")
        if unknown := (*self.unreadable, *self.unpriced):
            parts.append(f"not or only partly in it: {', '.join(unknown)}")
        listed = f" ({'; '.join(parts)})" if parts else ""
        return f"Runs of {self.month}: {figures.usd(float(self.exact_usd))}{listed}"


def spending_key(store: RunStore, planned_at: datetime) -> str:
    """Where a run's record lies."""
    return f"{COSTS_FOLDER}{planned_at.astimezone(UTC):%Y-%m}/{store.name}.json"


def run_spending(store: RunStore, key: str) -> RunSpending | None:
    """None where there is no record, or nothing that is one."""
    try:
        return RunSpending.model_validate_json(store.read_if_there(key) or "")
    except ValidationError:
        return None


def month_spending(store: RunStore, key: str) -> MonthSpending:
    """Sum up the month that the record `key` belongs to."""
    folder = key.rpartition("/")[0] + "/"
    records = {found: run_spending(store, found) for found in store.keys(folder)}
    return MonthSpending(
        month=folder.removeprefix(COSTS_FOLDER).rstrip("/"),
        runs={found: record for found, record in records.items() if record},
        unreadable=tuple(found for found, record in records.items() if record is None),
    )
