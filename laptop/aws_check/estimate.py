"""The instances that a check uses, and an upper bound on its cost."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

from batchmark.core.formatting import usd, usd_per_hour
from batchmark.core.prices import SECONDS_PER_HOUR, PriceTable
from laptop.errors import LaptopError

GPU_TYPE, CPU_TYPE = "g4dn.xlarge", "c5.2xlarge"
JOB_SECONDS = 600  # also the jobs' timeout (inputs.py), so none takes longer
OWN_JOB_SECONDS = 300  # also their timeout (steps/image.py)
# From launch to first job, and from last job to termination by Batch: billed in addition to the
# jobs. Inferred.
BOOT_SECONDS, IDLE_SECONDS = 300, 600


class Use(NamedTuple):
    """An upper bound on how much a check uses an instance type.

    `starts` counts every host started for jobs, including after a Spot reclaim; `waiting` is how
    many seconds nodes can spend waiting for another node that never starts.
    """

    instance_type: str
    jobs: int
    own_jobs: int
    starts: int
    waiting: int = 0

    @property
    def seconds(self) -> int:
        beside = self.starts * (BOOT_SECONDS + IDLE_SECONDS) + self.waiting
        return self.jobs * JOB_SECONDS + self.own_jobs * OWN_JOB_SECONDS + beside


# The CPU target buys On-Demand: a job, a failing one, one of a benchmark, and two from `own_jobs`.
# The GPU target has one on Spot and one On-Demand instead, and each job that Airflow starts there
# may be reclaimed once and started again On-Demand.
USES = (
    Use(CPU_TYPE, jobs=3, own_jobs=2, starts=3),
    Use(GPU_TYPE, jobs=4, own_jobs=4, starts=6),
)
# Hourly cost of a host besides its price: 64 GiB of gp3 at $0.08 per GB and month, 375 MiB/s more
# than gp3 includes at $0.04 per MiB/s and month, and a public address at $0.005 an hour: the list
# prices of docs/runbook.md, "What it costs while idle", as of early 2026, us-east-1.
BESIDE_USD_PER_HOUR = (64 * 0.08 + 375 * 0.04) / 730 + 0.005
# Images, alarms, metrics and logs for some hours, from the same list: 3.4 GB of images, 6 alarms
# and about 20 metrics come to less than 2 cents in 3 hours.
REST_USD = 0.05


class Cost(NamedTuple):
    what: str
    usd: float

    def __str__(self) -> str:
        return f"{self.what}: {usd(self.usd)}"


class Estimate(NamedTuple):
    """A check's maximum cost by part, and the source of the prices."""

    parts: tuple[Cost, ...]
    prices: str

    @property
    def usd(self) -> float:
        """The total in USD, rounded up to whole cents."""
        return math.ceil(round(100 * sum(part.usd for part in self.parts), 6)) / 100


def estimate(
    prices: PriceTable, uses: Iterable[Use] = USES, beside: Iterable[Cost] = ()
) -> Estimate:
    """Estimate a check's maximum cost at On-Demand prices, which Spot prices never exceed.

    The estimate excludes hosts that Batch starts again and again because they fail to register.

    Raises:
        LaptopError: an instance type has no price.
    """
    parts = []
    hours = 0.0
    for use in uses:
        price = prices.on_demand.get(use.instance_type)
        if price is None:
            raise LaptopError(
                f"no price is known for {use.instance_type} in {prices.region}, so the check's "
                "cost can't be estimated: allow pricing:GetProducts, or choose another region "
                "with REGION="
            )
        hours += use.seconds / SECONDS_PER_HOUR
        what = (
            f"{use.instance_type}, at most {use.seconds / SECONDS_PER_HOUR:.1f} hours at "
            f"{usd_per_hour(price)}"
        )
        parts.append(Cost(what, price * use.seconds / SECONDS_PER_HOUR))
    parts.append(Cost("their volumes and addresses", BESIDE_USD_PER_HOUR * hours))
    parts += beside
    parts.append(Cost("images, alarms, metrics and logs", REST_USD))
    return Estimate(tuple(parts), f"{prices.source}, {prices.as_of}")


def refuse_above(found: Estimate, budget: float) -> None:
    """Raise LaptopError if a check could cost more than its budget, in USD."""
    if found.usd > budget:
        raise LaptopError(
            f"the check can cost up to {usd(found.usd)}, but BUDGET is {usd(budget)}: set "
            f"BUDGET={found.usd:g} or more"
        )
