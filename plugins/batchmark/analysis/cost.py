"""Converts measured time to USD.

A job is charged for its whole instance, and a multi-node job for all its nodes. Array-job children
that share an instance are charged for it once.

Targets are compared at On-Demand prices, regardless of how their instances were bought; a job's own
cost uses the price paid. Time measured on a machine of another type than the target's gets
no price.
"""

from __future__ import annotations

import math

from pydantic import Field

from batchmark.analysis.pooling import TargetRecord
from batchmark.core.config import PurchaseOption
from batchmark.core.formatting import count
from batchmark.core.intervals import Estimate
from batchmark.core.prices import MILLION, SECONDS_PER_HOUR, PriceTable
from batchmark.core.record import Record
from batchmark.core.run import CollectedJob, CollectedRun, LostJob, WorstCase

BOOT_AND_IDLING = (2, 15)  # minutes of an instance; docs/runbook.md says of what
EARLIER_ATTEMPTS = (
    "Earlier attempts are charged like the last one because Batch does not report how their "
    "instances were purchased."
)


def boot_and_idling_usd(worst: WorstCase) -> list[float]:
    """Return the least and the most USD that one instance of each target boots and idles for.

    Return an empty list if a target's price is unknown.
    """
    prices = {(one.target, one.instance_type): one.usd_per_hour for one in worst.targets}
    known = [price for price in prices.values() if price is not None]
    if not known or len(known) < len(prices):
        return []
    return [sum(known) * minutes / 60 for minutes in BOOT_AND_IDLING]


class PriceBasis(Record):
    """The prices charged for a target's time in comparisons."""

    instance_type: str
    usd_per_hour: float | None = Field(
        description="On-Demand price, even for Spot instances; null if no cost can be shown"
    )
    spot_usd_per_hour: float | None = Field(
        default=None, description="median Spot price across the zones; null if no cost can be shown"
    )
    measured_on_it: bool = Field(description="whether the time was measured on this instance type")
    gpus: int | None = Field(
        default=None,
        description="number of GPUs in the instance, all of which are paid for even if a job "
        "uses only one; null unless the jobs ran on a GPU",
    )
    note: str | None = Field(default=None, description="why there is no price")

    @property
    def idle_gpus(self) -> int:
        """The number of GPUs that are paid for but unused, since a job uses only one."""
        return (self.gpus or 1) - 1

    @property
    def usd_per_gpu_hour(self) -> float | None:
        if self.usd_per_hour is None or self.gpus is None:
            return None
        return self.usd_per_hour / self.gpus


class Cost(Record):
    """An amount in USD with its caveats, or the reason why it is unknown."""

    usd: float | None
    reason: str | None = None


class JobCost(Cost):
    """The cost of one Batch job, covering each attempt from container start to stop."""

    job_id: str | None = Field(description="Batch job id; null if the job was never submitted")
    target: str
    repeat: int
    nodes: int = Field(
        default=1, ge=1, description="number of instances that the job used at the same time"
    )
    purchase_option: PurchaseOption | None
    seconds: float | None = Field(
        description="charged time, summed over all nodes; null if unknown"
    )


class RunCost(Cost):
    """The cost of all of a run's jobs, including those without a result."""

    jobs: tuple[JobCost, ...]


class Efficiency(Record):
    """The ratio (CPU price x time) / (GPU price x time); above 1, the GPU target is cheaper."""

    estimate: Estimate | None
    reason: str | None = Field(default=None, description="why the estimate is unknown")


def price_basis(target: TargetRecord, prices: PriceTable) -> PriceBasis:
    """Return a target's instance type and prices (none if it has no jobs or any ran elsewhere)."""
    wanted = target.instance_type
    telling = [job for job in target.jobs if not job.failed] or target.jobs
    seen_types = {job.instance_type for job in telling}
    usd = spot = None
    if not target.jobs:
        note: str | None = f"No cost is shown for {wanted}: none of its jobs left a result."
    elif (note := _measured_elsewhere(wanted, seen_types)) is None:
        usd = prices.on_demand.get(wanted)
        note = _no_on_demand_price(wanted, prices) if usd is None else None
        spot = prices.spot[wanted].usd_per_hour if wanted in prices.spot else None
    return PriceBasis(
        instance_type=wanted,
        usd_per_hour=usd,
        spot_usd_per_hour=spot,
        measured_on_it=seen_types == {wanted},
        gpus=_gpus(target),
        note=note,
    )


def _gpus(target: TargetRecord) -> int | None:
    if target.environment is None or target.actual_device != "cuda":
        return None
    return target.environment.gpu_count or None


def _measured_elsewhere(wanted: str, seen_types: set[str | None]) -> str | None:
    elsewhere = sorted(name or "a machine outside EC2" for name in seen_types - {wanted})
    if not elsewhere:
        return None
    return f"No cost is shown for {wanted}: its time was measured on {' and '.join(elsewhere)}."


def _no_on_demand_price(wanted: str, prices: PriceTable) -> str:
    return (
        f"The prices from {prices.as_of} include no On-Demand price for {wanted} in "
        f"{prices.region}: run `make prices` to add it to the committed table."
    )


def spot_factor(gpu: PriceBasis, cpu: PriceBasis) -> float | None:
    """Return the factor that converts an efficiency from On-Demand to Spot prices.

    Returns None if a target's On-Demand or Spot price is missing.
    """
    if not (gpu.usd_per_hour and cpu.usd_per_hour):
        return None
    if not (gpu.spot_usd_per_hour and cpu.spot_usd_per_hour):
        return None
    return (cpu.spot_usd_per_hour / gpu.spot_usd_per_hour) / (cpu.usd_per_hour / gpu.usd_per_hour)


def efficiency(speedup: Estimate | None, gpu: PriceBasis, cpu: PriceBasis) -> Efficiency:
    """Return the speedup multiplied by the price ratio; prices are treated as exact."""
    if speedup is None:
        return Efficiency(estimate=None, reason="the times are not compared")
    if gpu.usd_per_hour is None or cpu.usd_per_hour is None:
        notes = [basis.note for basis in (gpu, cpu) if basis.usd_per_hour is None and basis.note]
        return Efficiency(estimate=None, reason=" ".join(notes))
    return Efficiency(estimate=speedup.scaled(cpu.usd_per_hour / gpu.usd_per_hour))


def usd_per_million_calls(seconds: Estimate, basis: PriceBasis) -> Estimate | None:
    """Return the cost of a million sequential warm calls, or None if there is no price."""
    usd = usd_per_job(seconds, basis)
    return usd and usd.scaled(MILLION)


def usd_per_job(seconds: Estimate, basis: PriceBasis, jobs: int = 1) -> Estimate | None:
    """Return the cost of `jobs` consecutive jobs of this duration, or None if there is no price."""
    if basis.usd_per_hour is None:
        return None
    return seconds.scaled(basis.usd_per_hour / SECONDS_PER_HOUR * jobs)


def run_costs(run: CollectedRun, prices: PriceTable) -> RunCost:
    """Return the cost of each job in a run and the total, noting how many jobs the total omits."""
    jobs = (
        *(job_cost(job, prices) for job in run.jobs),
        *(lost_cost(lost, prices) for lost in (*run.superseded, *run.lost) if not lost.not_run),
    )
    known = [job.usd for job in jobs if job.usd is not None]
    unknown = len(jobs) - len(known)
    return RunCost(
        jobs=jobs,
        usd=math.fsum(known) if known else None,
        reason=f"not included: {unknown} of {len(jobs)} jobs of unknown cost" if unknown else None,
    )


def job_cost(job: CollectedJob, prices: PriceTable) -> JobCost:
    """Return a job's cost at its instance's actual price, excluding boot, idle time and disks."""
    usd_per_hour, reason = paid_per_hour(job, prices)
    if job.charged_seconds is None:
        reason = (
            f"A {job.planned.target} job has impossible timestamps, so its run time is unknown."
        )
    elif job.earlier_seconds and usd_per_hour is not None:
        reason = f"{reason} {EARLIER_ATTEMPTS}" if reason else EARLIER_ATTEMPTS
    return _job_cost(job, job.purchase_option, job.charged_seconds, usd_per_hour, reason)


def paid_per_hour(job: CollectedJob, prices: PriceTable) -> tuple[float | None, str | None]:
    """Return what a job's instance cost in USD per hour, and a note, e.g. why that is unknown."""
    environment = job.document.environment
    return _paid(
        job.planned.instance_type,
        environment.instance_type,
        job.purchase_option,
        environment.availability_zone,
        prices,
    )


def lost_cost(lost: LostJob, prices: PriceTable) -> JobCost:
    """Return the cost of a job that ran but left no result, as `job_cost` does for other jobs."""
    if lost.seconds is None:
        reason: str | None = (
            f"The run time of a {lost.planned.target} job is unknown: it left no result, and "
            "Batch reports no end time."
        )
        return _job_cost(lost, None, None, None, reason)
    if lost.seconds == 0:
        return _job_cost(lost, None, 0.0, 0.0, None)
    wanted = lost.planned.instance_type
    usd_per_hour, reason = _paid(wanted, lost.instance_type, None, None, prices)
    return _job_cost(lost, None, lost.seconds, usd_per_hour, reason)


def _job_cost(
    job: CollectedJob | LostJob,
    purchase_option: PurchaseOption | None,
    seconds: float | None,
    usd_per_hour: float | None,
    reason: str | None,
) -> JobCost:
    usd = None
    if seconds is not None and usd_per_hour is not None:
        usd = seconds * usd_per_hour / SECONDS_PER_HOUR
    return JobCost(
        job_id=job.job_id,
        target=job.planned.target,
        repeat=job.planned.repeat,
        nodes=job.planned.nodes,
        purchase_option=purchase_option,
        seconds=seconds,
        usd=usd,
        reason=reason,
    )


def _paid(
    wanted: str,
    ran_on: str | None,
    option: PurchaseOption | None,
    availability_zone: str | None,
    prices: PriceTable,
) -> tuple[float | None, str | None]:
    if elsewhere := _measured_elsewhere(wanted, {ran_on}):
        return None, elsewhere
    if option == "spot":
        return _paid_on_spot(wanted, availability_zone, prices)
    usd = prices.on_demand.get(wanted)
    if usd is None:
        return None, _no_on_demand_price(wanted, prices)
    if option is None:
        return (
            usd,
            f"How {wanted} was purchased is unknown; its jobs are charged as On-Demand.",
        )
    return usd, None


def _paid_on_spot(
    wanted: str, availability_zone: str | None, prices: PriceTable
) -> tuple[float | None, str | None]:
    spot = prices.spot.get(wanted)
    if spot is None:
        return None, (
            f"{wanted} ran on Spot, but there is no Spot price for it in {prices.region} as of "
            f"{prices.as_of}."
        )
    in_zone = spot.in_zone(availability_zone)
    if in_zone is not None:
        return in_zone, None
    return spot.usd_per_hour, (
        f"{wanted} ran on Spot in {availability_zone or 'an unknown zone'}; its jobs "
        f"are charged at the median of {count(len(spot.zones), 'zone')}, which range from "
        f"{spot.lowest_usd_per_hour:g} to {spot.highest_usd_per_hour:g} USD per hour."
    )
