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
    reserved_usd: float | None = Field(
        description="the most that it can cost, until it is finished; null if not known"
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
        amounts = self.job_usd.values() if self.finished else (self.reserved_usd,)
        return sum((exact(usd) for usd in amounts if usd is not None), exact(0))

    @property
    def is_known(self) -> bool:
        return None not in (self.job_usd.values() if self.finished else (self.reserved_usd,))

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


def spending_key(store: RunStore, planned_at: datetime, generation: int) -> str:
    """Where a run's record lies.

    Args:
        generation: how often the run's plan was cleared. Each has a record of its own, for its
            jobs are others.
    """
    name = f"{store.name}.{generation}" if generation else store.name
    return f"{COSTS_FOLDER}{planned_at.astimezone(UTC):%Y-%m}/{name}.json"


def run_spending(store: RunStore, key: str) -> RunSpending | None:
    """None where there is no record, or nothing that is one."""
    try:
        return RunSpending.model_validate_json(store.read_if_there(key) or "")
    except ValidationError:
        return None


def month_spending(store: RunStore, key: str, *, besides_it: bool = False) -> MonthSpending:
    """Sum up the month that the record `key` belongs to, with or without that record."""
    folder = key.rpartition("/")[0] + "/"
    keys = [found for found in store.keys(folder) if not (besides_it and found == key)]
    records = {found: run_spending(store, found) for found in keys}
    return MonthSpending(
        month=folder.removeprefix(COSTS_FOLDER).rstrip("/"),
        runs={found: record for found, record in records.items() if record},
        unreadable=tuple(found for found, record in records.items() if record is None),
    )
