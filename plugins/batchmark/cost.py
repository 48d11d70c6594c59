"""What measured time costs at On-Demand prices, in USD.

Prices are per instance: the whole instance is charged to the job that runs on it.
"""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from pydantic import Field, ValidationError

from batchmark.estimate import Estimate, Record
from batchmark.exceptions import BatchmarkError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from batchmark.pooling import JobRecord, TargetRecord

PRICES_FILE = Path(__file__).with_name("prices.json")
SECONDS_PER_HOUR = 3600
MILLION = 1_000_000

UsdPerHour = Annotated[float, Field(gt=0)]


class PriceTable(Record):
    """Prices seen on one day, and where."""

    currency: str
    region: str
    operating_system: str
    purchase_option: str
    as_of: date
    source: str
    source_url: str
    usd_per_hour: dict[str, UsdPerHour] = Field(description="by EC2 instance type")

    def only(self, instance_types: Iterable[str]) -> PriceTable:
        """This table with the rows of some instance types only."""
        wanted = set(instance_types)
        kept = {name: price for name, price in self.usd_per_hour.items() if name in wanted}
        return self.model_copy(update={"usd_per_hour": kept})


class PriceBasis(Record):
    """The price that a target's time is charged at."""

    instance_type: str
    usd_per_hour: float | None
    measured_on_it: bool = Field(description="the time was measured on this instance type")
    note: str | None = Field(default=None, description="what to know about it; null if nothing")


class Cost(Record):
    """An amount of money, or the reason why it is unknown."""

    usd: float | None
    reason: str | None = None


class JobCost(Cost):
    """One Batch job, from its container's start to its stop."""

    job_id: str
    target: str
    seconds: float


class Efficiency(Record):
    """(CPU price x CPU time) / (GPU price x GPU time): above 1 the GPU target is the cheaper."""

    estimate: Estimate | None
    reason: str | None = Field(default=None, description="why it is unknown")


def load_prices(path: Path = PRICES_FILE) -> PriceTable:
    """Read a price table.

    Raises:
        BatchmarkError: the file is missing or isn't a price table.
    """
    try:
        return PriceTable.model_validate_json(path.read_bytes())
    except (OSError, ValidationError) as error:
        raise BatchmarkError(f"price table {path.name} can't be used: {error}") from error


def price_basis(target: TargetRecord, prices: PriceTable) -> PriceBasis:
    """The price of the instance type that a target stands for, wherever its time was measured."""
    wanted = target.instance_type
    price = prices.usd_per_hour.get(wanted)
    actual = target.environment.instance_type if target.environment else None
    notes = []
    if price is None:
        notes.append(
            f"No price of {wanted} in the table of {prices.region} as of {prices.as_of}; "
            f"add it to {PRICES_FILE.name} to see costs."
        )
    elif target.environment and actual != wanted:
        place = actual or f"a machine outside EC2 ({target.environment.cpu_model})"
        notes.append(
            f"The price of {wanted} was applied to time measured on {place}: "
            f"this is not what {wanted} would cost."
        )
    return PriceBasis(
        instance_type=wanted,
        usd_per_hour=price,
        measured_on_it=actual == wanted,
        note=" ".join(notes) or None,
    )


def efficiency(speedup: Estimate | None, gpu: PriceBasis, cpu: PriceBasis) -> Efficiency:
    """The speedup weighed with both prices, which are taken as exactly known."""
    if speedup is None:
        return Efficiency(estimate=None, reason="the times are not compared")
    if gpu.usd_per_hour is None or cpu.usd_per_hour is None:
        unknown = [basis.instance_type for basis in (gpu, cpu) if basis.usd_per_hour is None]
        return Efficiency(estimate=None, reason=f"no price of {' and '.join(unknown)}")
    return Efficiency(estimate=speedup.scaled(cpu.usd_per_hour / gpu.usd_per_hour))


def usd_per_million_calls(seconds: Estimate, basis: PriceBasis) -> Estimate | None:
    """Cost of a million warm calls one after the other; None without a price."""
    if basis.usd_per_hour is None:
        return None
    return seconds.scaled(basis.usd_per_hour / SECONDS_PER_HOUR * MILLION)


def job_cost(job: JobRecord, target: str, basis: PriceBasis) -> JobCost:
    """From startedAt to stoppedAt; the instance's own start, idle time and disks are not in it."""
    usd = reason = None
    if basis.usd_per_hour is None:
        reason = f"no price of {basis.instance_type}"
    elif not basis.measured_on_it:
        reason = f"it did not run on {basis.instance_type}"
    else:
        usd = job.batch_seconds * basis.usd_per_hour / SECONDS_PER_HOUR
    return JobCost(
        job_id=job.job_id, target=target, seconds=job.batch_seconds, usd=usd, reason=reason
    )


def run_cost(jobs: Iterable[JobCost], lost_jobs: int) -> Cost:
    """The sum over a run's jobs; jobs without a cost or without a result are named as missing."""
    jobs = list(jobs)
    known = [job.usd for job in jobs if job.usd is not None]
    unpriced = len(jobs) - len(known)
    missing = []
    if unpriced:
        missing.append(f"{unpriced} of {len(jobs)} jobs without a cost")
    if lost_jobs:
        missing.append(f"{lost_jobs} without a result")
    reason = f"not in it: {', '.join(missing)}" if missing else None
    return Cost(usd=sum(known) if known else None, reason=reason)
