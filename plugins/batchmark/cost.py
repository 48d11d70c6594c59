"""What measured time costs, in USD.

Prices are per instance: the whole instance is charged to the job that runs on it, at the price it
was bought at. Time that was measured on another machine than the priced one has no price.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field

from batchmark.config import PurchaseOption
from batchmark.estimate import Estimate
from batchmark.record import Record

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from batchmark.config import Target
    from batchmark.pooling import JobRecord, TargetRecord
    from batchmark.prices import PriceTable

SECONDS_PER_HOUR = 3600
MILLION = 1_000_000


class PriceBasis(Record):
    """The price that a target's time is charged at."""

    instance_type: str
    purchase_option: PurchaseOption | None = Field(
        default=None, description="how all its jobs' instances were bought; null if unknown"
    )
    usd_per_hour: float | None = Field(description="null where no dollars may be shown")
    measured_on_it: bool = Field(description="the time was measured on this instance type")
    note: str | None = Field(
        default=None, description="why there is no price, or what to know about it"
    )


class Cost(Record):
    """An amount of money, or the reason why it is unknown."""

    usd: float | None
    reason: str | None = None


class JobCost(Cost):
    """One Batch job, from its container's start to its stop."""

    job_id: str
    target: str
    purchase_option: PurchaseOption | None
    seconds: float


class Efficiency(Record):
    """(CPU price x CPU time) / (GPU price x GPU time): above 1 the GPU target is the cheaper."""

    estimate: Estimate | None
    reason: str | None = Field(default=None, description="why it is unknown")


def purchase_option(target: Target, compute_environment: str | None) -> PurchaseOption | None:
    """How the instance of a job was bought; None where its compute environment is none of ours.

    Args:
        target: what the job was submitted to.
        compute_environment: where the job says it ran; None outside Batch.
    """
    ours = target.compute_environments
    if compute_environment is None:
        return None
    if compute_environment == ours.spot:
        return "spot"
    return "on_demand" if compute_environment == ours.on_demand else None


def price_basis(target: TargetRecord, prices: PriceTable) -> PriceBasis:
    """The price of what a target's jobs ran on, if that is what the target stands for."""
    return _basis(target.instance_type, target.jobs, prices)


def _basis(wanted: str, jobs: Sequence[JobRecord], prices: PriceTable) -> PriceBasis:
    seen_types = {job.instance_type for job in jobs}
    options = {job.purchase_option for job in jobs}
    option = next(iter(options)) if len(options) == 1 else None
    where_and_when = f"in {prices.region} as of {prices.as_of}"
    usd = note = None
    if elsewhere := sorted(name or "a machine outside EC2" for name in seen_types - {wanted}):
        note = f"No dollars for {wanted}: its time was measured on {' and '.join(elsewhere)}."
    elif not jobs:
        note = f"No dollars for {wanted}: none of its jobs left a result."
    elif len(options) > 1:
        note = f"No one price for {wanted}: its jobs' instances were not all bought the same way."
    elif option == "spot" and (spot := prices.spot.get(wanted)):
        usd = spot.usd_per_hour
        note = (
            f"{wanted} ran on Spot and is charged at the median of {len(spot.zones)} zone"
            f"{'' if len(spot.zones) == 1 else 's'}, which range from {spot.lowest_usd_per_hour:g} "
            f"to {spot.highest_usd_per_hour:g} USD per hour, as of {spot.observed_at:%Y-%m-%d}."
        )
    elif option == "spot":
        note = f"{wanted} ran on Spot, and there is no Spot price of it {where_and_when}."
    elif (usd := prices.on_demand.get(wanted)) is None:
        note = (
            f"There is no On-Demand price of {wanted} {where_and_when}; `make prices` can add it "
            "to the committed table."
        )
    elif option is None:
        note = f"How {wanted} was bought is unknown; it is charged at the On-Demand price."
    return PriceBasis(
        instance_type=wanted,
        purchase_option=option,
        usd_per_hour=usd,
        measured_on_it=seen_types == {wanted},
        note=note,
    )


def efficiency(speedup: Estimate | None, gpu: PriceBasis, cpu: PriceBasis) -> Efficiency:
    """The speedup weighed with both prices, which are taken as exactly known."""
    if speedup is None:
        return Efficiency(estimate=None, reason="the times are not compared")
    if gpu.usd_per_hour is None or cpu.usd_per_hour is None:
        notes = [basis.note for basis in (gpu, cpu) if basis.usd_per_hour is None and basis.note]
        return Efficiency(estimate=None, reason=" ".join(notes))
    return Efficiency(estimate=speedup.scaled(cpu.usd_per_hour / gpu.usd_per_hour))


def usd_per_million_calls(seconds: Estimate, basis: PriceBasis) -> Estimate | None:
    """Cost of a million warm calls one after the other; None without a price."""
    if basis.usd_per_hour is None:
        return None
    return seconds.scaled(basis.usd_per_hour / SECONDS_PER_HOUR * MILLION)


def job_cost(job: JobRecord, target: TargetRecord, prices: PriceTable) -> JobCost:
    """From startedAt to stoppedAt; the instance's own start, idle time and disks are not in it."""
    basis = _basis(target.instance_type, [job], prices)
    usd = basis.usd_per_hour
    return JobCost(
        job_id=job.job_id,
        target=target.target,
        purchase_option=job.purchase_option,
        seconds=job.batch_seconds,
        usd=None if usd is None else job.batch_seconds * usd / SECONDS_PER_HOUR,
        reason=basis.note if usd is None else None,
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
