"""Determines how far training scales, and what limits it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile
from typing import Literal

from pydantic import Field

from batchmark.analysis.scaling.curves import Curve, CurvePoint
from batchmark.analysis.scaling.points import TrainingPoint
from batchmark.core import formatting
from batchmark.core.intervals import Estimate
from batchmark.core.record import Record

# Efficiencies from which scaling is good, and below which it is poor; judgment.
WELL, POOR = 0.9, 0.8
MAIN_CAUSE = 0.5  # share of the lost time that a cause must explain by itself
TOO_MUCH = 1.2  # share of the lost time: a part that grew by more contradicts the step
ABOVE_ONE = 1.05  # a higher efficiency means that the fewest nodes were slow
WAITING = 0.1  # share of a step spent waiting for data on the fewest nodes
Limit = Literal["data", "compute", "communication"]


class Reach(Record):
    verdict: Literal["scales", "falls_short", "not_known"] = Field(
        description="judged by confidence intervals. scales: the efficiency is at least 0.9 at "
        "some node count and not clearly below 0.9 at any smaller one; falls_short: it is already "
        "clearly below 0.9 at the second node count"
    )
    nodes: int | None = Field(
        default=None,
        description="scales: the largest such node count; falls_short: the second node count",
    )
    efficiency: Estimate | None = Field(default=None, description="efficiency at `nodes` nodes")
    open_ended: bool = Field(
        default=False,
        description="scales: whether the efficiency is not clearly below 0.9 at any larger node "
        "count either",
    )
    poor_from: int | None = Field(
        default=None, description="smallest node count from which the efficiency stays below 0.8"
    )
    above_one: int | None = Field(
        default=None, description="smallest node count with an efficiency above 1.05"
    )
    limit: Limit | None = Field(
        default=None, description="what explains at least half of the lost time"
    )
    limit_share: float | None = Field(
        default=None, description="share of the lost time that the limit explains"
    )
    limit_reason: str | None = Field(default=None, description="why the limit is not known")
    limit_nodes: int | None = Field(
        default=None,
        description="node count with the lowest efficiency; null if none clearly loses time",
    )
    waits_for_data: float | None = Field(
        default=None,
        description="share of a step spent waiting for data at the smallest node count; null if "
        "it is small",
    )
    reason: str | None = Field(default=None, description="why the verdict is not known")


def reach_of(curve: Curve | None, points: Sequence[TrainingPoint]) -> Reach:
    """Return how far a curve scales; `points` are all training points, on the curve or not."""
    if curve is None:
        return Reach(verdict="not_known", reason=_too_few(points))
    # A curve has one batch per node count.
    own = {(point.nodes, point.batch): point for point in points}
    base = own[curve.points[0].nodes, curve.points[0].batch]
    waits = base.split.shares["data"] if base.split else 0.0
    waits_for_data = waits if waits >= WAITING else None
    return _judged(curve).model_copy(
        update={**_limit(curve, own, base), "waits_for_data": waits_for_data}
    )


def _too_few(points: Sequence[TrainingPoint]) -> str:
    numbers = sorted({point.nodes for point in points})
    if not numbers:
        return "nothing was measured"
    if len(numbers) == 1:
        only = formatting.count(numbers[0], "node")
        return (
            f"it was measured on {only} only; judging how it scales requires two different node "
            "counts"
        )
    return "no two node counts had the same batch size per device"


def _judged(curve: Curve) -> Reach:
    second = curve.points[1]
    ends = [(point, point.efficiency.interval) for point in curve.points[1:]]
    known = [(point, interval) for point, interval in ends if interval]
    poor = list(takewhile(lambda one: one[1].high < POOR, reversed(known)))
    found = Reach(
        verdict="not_known",
        reason=second.efficiency.interval_reason,
        poor_from=poor[-1][0].nodes if poor else None,
        above_one=next((one.nodes for one, interval in known if interval.low > ABOVE_ONE), None),
    )
    so_far = list(takewhile(lambda one: one[1].high >= WELL, known))
    if well := [point for point, interval in so_far if interval.low >= WELL]:
        return found.model_copy(
            update={
                **_at(well[-1]),
                "verdict": "scales",
                "reason": None,
                "open_ended": len(so_far) == len(known),
            }
        )
    if second.efficiency.interval is None:
        return found
    if not so_far:
        return found.model_copy(update={**_at(second), "verdict": "falls_short"})
    return found.model_copy(update={**_at(second), "reason": f"the interval includes {WELL}"})


def _at(point: CurvePoint) -> dict[str, object]:
    return {"nodes": point.nodes, "efficiency": point.efficiency}


def _limit(
    curve: Curve, own: dict[tuple[int, int], TrainingPoint], base: TrainingPoint
) -> dict[str, object]:
    """Find what explains the time lost where efficiency is lowest."""
    ends = [(point, point.efficiency.interval) for point in curve.points[1:]]
    losing = [point for point, interval in ends if interval and interval.high < 1]
    if not losing:
        return {}
    worst = min(losing, key=lambda one: one.efficiency.value)
    point = own[worst.nodes, worst.batch]
    found: dict[str, object] = {"limit_nodes": point.nodes}
    if not (point.split and base.split):
        return {**found, "limit_reason": "at one node count, no job reported how its steps split"}
    # Compare the same work: with a smaller batch a step has less to do.
    share = point.batch / base.batch
    lost = point.seconds.value - share * base.seconds.value
    before = base.split.parts
    added = {name: now - share * before[name] for name, now in point.split.parts.items()}
    name = max(added, key=lambda one: added[one])
    if lost <= 0 or added[name] < MAIN_CAUSE * lost:
        return {**found, "limit_reason": "no part of a step accounts for half of the lost time"}
    if added[name] > TOO_MUCH * lost:
        grew, by = formatting.seconds(added[name]), formatting.seconds(lost)
        contradiction = f"{name} alone grew by {grew}, but the whole step grew by only {by}"
        return {**found, "limit_reason": contradiction}
    return {**found, "limit": name, "limit_share": min(1.0, added[name] / lost)}
