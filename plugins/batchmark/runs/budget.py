"""What a run can cost at most, in USD, and whether it may.

At most, every job uses all its attempts, each for its whole timeout, at the On-Demand price: for
Spot, Batch never pays more than `bidPercentage` of that (its API reference), and Terraform keeps it
at 100 or below. A target whose Spot attempts are followed by the On-Demand queue can do all that
twice. As everywhere here this is the time of containers on whole instances: an instance's boot, its
idle minutes and its disks are not in it.

Sums and comparisons are exact, in whole cents: each target is rounded up, so what is shown adds up
and is never less than what was compared.
"""

from __future__ import annotations

import math
from collections import Counter
from datetime import date
from fractions import Fraction
from typing import TYPE_CHECKING

from pydantic import Field

from batchmark import figures
from batchmark.cost import SECONDS_PER_HOUR
from batchmark.exceptions import PlanError
from batchmark.record import Record

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from batchmark.config import Config, Target
    from batchmark.prices import PriceTable
    from batchmark.run import PlannedJob
    from batchmark.spending import MonthSpending

RUN_CAP = "max_cost_usd"
MONTH_CAP = "monthly_cap_usd"
ASK_FOR_LESS = (
    "Ask for fewer targets or repeats, or lower their timeout_seconds or attempts in Terraform's "
    "target_overrides"
)


class TargetWorst(Record):
    """What one target's jobs can cost at most."""

    target: str
    instance_type: str
    jobs: int = Field(ge=1)
    submissions: int = Field(
        ge=1, description="of each job: 2 where Spot attempts are followed by the On-Demand queue"
    )
    attempts: int = Field(ge=1, description="of each submission")
    timeout_seconds: int = Field(ge=1, description="of each attempt")
    usd_per_hour: float | None = Field(description="On-Demand; null where it is not known")
    usd: float | None = Field(description="rounded up to a cent; null without a price")

    @property
    def seconds(self) -> int:
        return self.jobs * self.submissions * self.attempts * self.timeout_seconds

    @property
    def cents(self) -> int | None:
        """Exact for any price and time, unlike a float."""
        if self.usd_per_hour is None:
            return None
        return math.ceil(100 * exact(self.usd_per_hour) * self.seconds / SECONDS_PER_HOUR)

    @property
    def usd_per_job(self) -> float | None:
        return None if self.usd is None else self.usd / self.jobs

    def __str__(self) -> str:
        return (
            f"{self.target}: {figures.usd(self.usd) if self.usd is not None else 'unknown'} "
            f"(jobs {self.jobs} {figures.TIMES} submissions {self.submissions} {figures.TIMES} "
            f"attempts {self.attempts} {figures.TIMES} {self.timeout_seconds} s at "
            f"{self.usd_per_hour or 'no known'} USD per hour)"
        )


class WorstCase(Record):
    """What a run can cost at most, and by which prices."""

    targets: tuple[TargetWorst, ...]
    usd: float | None = Field(description="of all targets; null where one of them has no price")
    region: str
    prices_as_of: date
    prices_source: str
    notes: tuple[str, ...] = Field(description="what is wrong with the prices, old age included")

    @property
    def cents(self) -> int | None:
        found = [target.cents for target in self.targets]
        known = [cents for cents in found if cents is not None]
        return sum(known) if len(known) == len(found) else None

    @property
    def unpriced(self) -> list[str]:
        return [one.instance_type for one in self.targets if one.usd_per_hour is None]

    def usd_per_job(self, target: str) -> float | None:
        """None for a target that is not in it, or has no price."""
        return next((one.usd_per_job for one in self.targets if one.target == target), None)


def worst_case(
    config: Config, jobs: Iterable[PlannedJob], prices: PriceTable, now: datetime
) -> WorstCase:
    """What these jobs can cost at most.

    Args:
        config: what the jobs were planned with.
        prices: of the run's region.
        now: tells how old the prices are.
    """
    targets = tuple(
        _target_worst(name, count, config.targets[name], prices)
        for name, count in Counter(job.target for job in jobs).items()
    )
    stale = prices.staleness(now)
    worst = WorstCase(
        targets=targets,
        usd=None,
        region=prices.region,
        prices_as_of=prices.as_of,
        prices_source=prices.source,
        notes=(
            *([stale] if stale else []),
            *prices.only(one.instance_type for one in targets).all_notes,
        ),
    )
    return worst.model_copy(update={"usd": _usd(worst.cents)})


def _target_worst(name: str, jobs: int, target: Target, prices: PriceTable) -> TargetWorst:
    goes_on = target.on_demand_queue not in {None, target.job_queue}
    worst = TargetWorst(
        target=name,
        instance_type=target.instance_type,
        jobs=jobs,
        submissions=2 if goes_on else 1,
        attempts=target.attempts,
        timeout_seconds=target.timeout_seconds,
        usd_per_hour=prices.on_demand.get(target.instance_type),
        usd=None,
    )
    return worst.model_copy(update={"usd": _usd(worst.cents)})


def check_cap(name: str, value: object) -> float | None:
    """A cap in USD, None for none.

    Raises:
        PlanError: it is no finite number above 0.
    """
    if value is None:
        return None
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        try:
            if value > 0 and math.isfinite(value):
                return value
        except OverflowError:  # an int beyond every float
            pass
    raise PlanError(f"{name} must be a number of USD above 0, or empty for no cap, got {value!r}")


def refusals(
    worst: WorstCase,
    *,
    max_cost_usd: float | None,
    month: MonthSpending | None = None,
    monthly_cap_usd: float | None = None,
) -> tuple[str, ...]:
    """Why a run may not be submitted; empty where it may.

    A run that can't be bounded is refused under any cap.

    Args:
        max_cost_usd: of this run; None for no cap.
        month: what other runs of this month cost or may still cost; None only without its cap.
        monthly_cap_usd: of all runs of a month; None for no cap.

    Raises:
        PlanError: a cap is no finite number above 0.
    """
    run_cap = check_cap(RUN_CAP, max_cost_usd)
    month_cap = check_cap(MONTH_CAP, monthly_cap_usd)
    caps = [name for name, cap in ((RUN_CAP, run_cap), (MONTH_CAP, month_cap)) if cap is not None]
    if not caps:
        return ()
    if worst.cents is None or worst.usd is None:
        return (_unbounded(worst, caps),)
    found = []
    if run_cap is not None and worst.cents > 100 * exact(run_cap):
        parts = "; ".join(str(one) for one in worst.targets)
        found.append(
            f"This run can cost up to {figures.usd(worst.usd)}, above its {RUN_CAP} of "
            f"{_cap(run_cap)}: {parts}. {ASK_FOR_LESS}, or raise {RUN_CAP}."
        )
    if month_cap is not None:
        if month is None:
            raise PlanError(f"{MONTH_CAP} is {_cap(month_cap)}, and nobody summed up the month")
        found += _month_refusals(worst.cents, worst.usd, month, month_cap)
    return tuple(found)


def _month_refusals(cents: int, usd: float, month: MonthSpending, cap: float) -> list[str]:
    if unknown := (*month.unreadable, *month.unpriced):
        return [
            f"{MONTH_CAP} is {_cap(cap)}, and {month.month} can't be summed up: "
            f"{', '.join(unknown)} hold no amount. Correct them, or delete what ran outside AWS."
        ]
    if 100 * month.exact_usd + cents <= 100 * exact(cap):
        return []
    return [
        f"{month}. With this run's {figures.usd(usd)} at most, that is above the {MONTH_CAP} of "
        f"{_cap(cap)}. {ASK_FOR_LESS}, wait for the next month, or raise {MONTH_CAP} in Terraform."
    ]


def _unbounded(worst: WorstCase, caps: Iterable[str]) -> str:
    names = " ".join(worst.unpriced)
    why = " ".join(worst.notes)
    return (
        "What this run can cost at most is not known, so it is refused under "
        f"{' and '.join(caps)}: there is no On-Demand price of {names} in {worst.region}. {why} "
        "Let Airflow ask AWS "
        f'(pricing:GetProducts), add them by `make prices TYPES="{names}"`, or run without a cap.'
    )


def exact(usd: float) -> Fraction:
    """A number as it is written, so that 0.1 is a tenth."""
    return Fraction(str(usd))


def _usd(cents: int | None) -> float | None:
    return None if cents is None else cents / 100


def _cap(usd: float) -> str:
    return f"${usd:,.12g}"
