"""How far a training scales, and what takes the rest."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from pydantic import Field

from batchmark.analysis.scaling.curves import Curve, CurvePoint
from batchmark.analysis.scaling.points import TrainingPoint
from batchmark.core.intervals import Estimate
from batchmark.core.record import Record

# Efficiencies by which scaling is called well, and poor; judgment.
WELL, POOR = 0.9, 0.8
MAIN_CAUSE = 0.5  # of the lost time, which the cause alone explains
WAITING = 0.1  # share of a step that waits for data already on the fewest nodes
Limit = Literal["data", "compute", "communication"]


class Reach(Record):
    """Of a curve."""

    verdict: Literal["scales", "falls_short", "not_known"] = Field(
        description="scales: at some number of nodes the efficiency is surely 0.9 or more; "
        "falls_short: already at the second one it is surely less"
    )
    nodes: int | None = Field(
        default=None, description="scales: the largest such number; falls_short: the second one"
    )
    efficiency: Estimate | None = Field(default=None, description="there")
    is_largest: bool = Field(default=False, description="no larger number was measured")
    poor_from: int | None = Field(
        default=None, description="the fewest nodes whose efficiency is surely below 0.8"
    )
    limit: Limit | None = Field(
        default=None, description="what explains half or more of the time lost at the most nodes"
    )
    limit_share: float | None = Field(default=None, description="of the time lost there")
    limit_nodes: int | None = Field(
        default=None, description="where the loss was looked at; null where nothing surely is lost"
    )
    waits_for_data: float | None = Field(
        default=None, description="share of a step on the fewest nodes, where it is much"
    )
    reason: str | None = Field(default=None, description="why it is not known")


def reach_of(curve: Curve | None, points: Sequence[TrainingPoint]) -> Reach:
    """Of a curve; `points` are the training's, among them the curve's own."""
    if curve is None:
        return Reach(verdict="not_known", reason=_too_few(points))
    own = {
        (point.nodes, point.batch): point for point in points
    }  # a curve has one batch at each number of nodes
    base = own[curve.points[0].nodes, curve.points[0].batch]
    return _judged(curve).model_copy(
        update={**_limit(curve, own, base), "waits_for_data": _waits(base)}
    )


def _too_few(points: Sequence[TrainingPoint]) -> str:
    numbers = sorted({point.nodes for point in points})
    if not numbers:
        return "nothing was measured"
    if len(numbers) == 1:
        return f"only {numbers[0]} node{'' if numbers[0] == 1 else 's'} measured, and it takes two"
    return "no two numbers of nodes had the same batch for each device"


def _judged(curve: Curve) -> Reach:
    others = curve.points[1:]
    ends = [(point, point.efficiency.interval) for point in others]
    known = [(point, interval) for point, interval in ends if interval]
    if not known:
        return Reach(verdict="not_known", reason=others[0].efficiency.interval_reason)
    poor = next((point.nodes for point, interval in known if interval.high < POOR), None)
    well = [point for point, interval in known if interval.low >= WELL]
    if well:
        last = well[-1]
        return Reach(
            verdict="scales",
            nodes=last.nodes,
            efficiency=last.efficiency,
            is_largest=last is curve.points[-1],
            poor_from=poor,
        )
    first, interval = known[0]
    if interval.high < WELL:
        return Reach(
            verdict="falls_short",
            nodes=first.nodes,
            efficiency=first.efficiency,
            poor_from=poor,
        )
    return Reach(
        verdict="not_known",
        nodes=first.nodes,
        efficiency=first.efficiency,
        poor_from=poor,
        reason=f"at {first.nodes} nodes the interval of the efficiency holds {WELL}",
    )


def _limit(
    curve: Curve, own: dict[tuple[int, int], TrainingPoint], base: TrainingPoint
) -> dict[str, object]:
    """What explains the time lost at the most nodes where some surely is."""
    losing = [point for point in curve.points[1:] if _surely_loses(point)]
    if not losing:
        return {}
    point = own[losing[-1].nodes, losing[-1].batch]
    found: dict[str, object] = {"limit_nodes": point.nodes}
    if not (point.split and base.split):
        return found
    # Of the same work: where the batch is smaller, a step has less to do.
    share = point.batch / base.batch
    lost = point.seconds.value - share * base.seconds.value
    before = base.split.parts
    added = {name: now - share * before[name] for name, now in point.split.parts.items()}
    name = max(added, key=lambda one: added[one])
    if lost > 0 and added[name] >= MAIN_CAUSE * lost:
        found |= {"limit": name, "limit_share": min(1.0, added[name] / lost)}
    return found


def _surely_loses(point: CurvePoint) -> bool:
    interval = point.efficiency.interval
    return bool(interval and interval.high < 1)


def _waits(base: TrainingPoint) -> float | None:
    share = base.split.shares["data"] if base.split else 0.0
    return share if share >= WAITING else None
