"""Builds weak and strong scaling curves: training speed relative to the smallest node count."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

from pydantic import Field

from batchmark.analysis.judging.significance import ENOUGH_REPEATS, JobNoise, Resolution, log_spread
from batchmark.analysis.scaling.points import TrainingPoint
from batchmark.core.intervals import Estimate, Median, ratio
from batchmark.core.record import Record

Kind = Literal["weak", "strong"]
ITSELF = "it is the baseline for the others"


class Measured(NamedTuple):
    """A training point with the samples behind it."""

    point: TrainingPoint
    median: Median
    job_medians: Sequence[float]


class CurvePoint(Record):
    nodes: int
    batch: int = Field(description="images per device per step")
    images_per_second: Estimate
    speedup: Estimate = Field(
        description="images per second relative to the baseline; on a strong curve, this equals "
        "the inverse ratio of step times"
    )
    efficiency: Estimate = Field(description="speedup divided by the ratio of node counts")


class Curve(Record):
    kind: Kind
    images: int = Field(
        description="images per step: per device for weak scaling, in total for strong"
    )
    base_nodes: int = Field(description="smallest node count, the baseline for the others")
    points: tuple[CurvePoint, ...] = Field(description="at least two points, ordered by node count")

    def point(self, nodes: int) -> CurvePoint | None:
        return next((point for point in self.points if point.nodes == nodes), None)


def curves_of(measured: Sequence[Measured], kind: Kind) -> tuple[Curve, ...]:
    """Return the curves with at least two node counts, starting with those that have the most."""
    lines: dict[int, dict[int, Measured]] = defaultdict(dict)
    for one in measured:
        images = one.point.batch if kind == "weak" else one.point.images
        lines[images][one.point.nodes] = one
    found = [
        _curve(kind, images, dict(sorted(line.items())))
        for images, line in lines.items()
        if len(line) > 1
    ]
    return tuple(sorted(found, key=lambda curve: (-len(curve.points), -curve.images)))


def _curve(kind: Kind, images: int, line: Mapping[int, Measured]) -> Curve:
    base = line[min(line)]
    return Curve(
        kind=kind,
        images=images,
        base_nodes=base.point.nodes,
        points=tuple(_point(one, base) for one in line.values()),
    )


def _point(one: Measured, base: Measured) -> CurvePoint:
    times = (
        Estimate(value=1.0, interval=None, interval_reason=ITSELF)
        if one is base
        else ratio(base.median, one.median, _job_margin(base, one))
    )
    speedup = times.scaled(one.point.images / base.point.images)
    return CurvePoint(
        nodes=one.point.nodes,
        batch=one.point.batch,
        images_per_second=one.point.images_per_second,
        speedup=speedup,
        efficiency=speedup.scaled(base.point.nodes / one.point.nodes),
    )


def _job_margin(first: Measured, second: Measured) -> float:
    """Return how far job-to-job noise can shift the log ratio; 0 if there are too few jobs."""
    sides = (first.job_medians, second.job_medians)
    if min(map(len, sides)) < ENOUGH_REPEATS:
        return 0.0
    one, other = (JobNoise(log_spread(side), len(side) - 1, "repeats") for side in sides)
    return Resolution(one, len(sides[0]), other, len(sides[1])).margin
