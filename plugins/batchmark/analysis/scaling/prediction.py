"""What a training's efficiency would be on more nodes: a model, fitted to what was measured.

A step takes what computing and waiting for data take, the same on any number of nodes, and what of
the exchange of gradients is not hidden behind computing. The exchange is an all-reduce over a ring.
Whether the model holds is seen at the most nodes that were measured, which it is fitted without.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from pydantic import Field

from batchmark.analysis.scaling.curves import ITSELF, Curve, Measured
from batchmark.analysis.scaling.ring import Draws, Ring, fit_ring, load
from batchmark.analysis.scaling.rows import ALL_REDUCE, NodesSamples
from batchmark.analysis.scaling.transfers import MIB
from batchmark.core.intervals import Estimate, Interval, Median, interval_of, overlap
from batchmark.core.record import Record

MOST_RANKS = 160  # as many GPUs as the point that others published
LEAST_CHECKED = 3  # numbers of nodes, of which the largest is kept for the check
LEAST_TWO_CHECKED = 5  # numbers of nodes, of which the two largest are
Outcome = Literal["holds", "wrong", "not_checked", "not_known"]
MOST_EXCHANGED = 1 - 1e-9  # of a step: some of it computes
MISS = 0.05  # of an efficiency: a smaller error matters to nobody, however sure it is


class PredictedPoint(Record):
    nodes: int
    ranks: int
    efficiency: Estimate
    images_per_second: Estimate
    communication_seconds: Estimate = Field(description="of a step, what is not hidden")
    measured: bool = Field(description="it was measured, too")


class CheckedPoint(Record):
    """A number of nodes that was measured and that the model was not fitted to."""

    nodes: int
    predicted: Estimate
    measured: Estimate
    error: float = Field(description="predicted / measured - 1")
    holds: bool = Field(description="the intervals overlap, or the error is 5 % or less either way")


class Prediction(Record):
    """Of a weak curve's efficiency. It is no measurement."""

    outcome: Outcome = Field(
        description="whether it holds at numbers of nodes that it was not fitted to; not_known: "
        "there is none"
    )
    reason: str | None = Field(default=None, description="why it is not checked, or not known")
    batch: int | None = Field(default=None, description="images of each device at each step")
    devices: int | None = Field(default=None, description="of each node")
    base_nodes: int | None = None
    fitted_nodes: tuple[int, ...] = Field(
        default=(), description="all that were measured; if it is wrong, those of the check"
    )
    by_all_reduce: bool = Field(
        default=False,
        description="the network's figures are of all-reduces measured by themselves; else of what "
        "they add to steps, so that nothing is known of the hidden part",
    )
    latency_seconds: Estimate | None = Field(default=None, description="of a hop between ranks")
    bytes_per_second: Estimate | None = Field(
        default=None, description="of a link; null where the fit leaves no time for bytes"
    )
    hidden_seconds: Estimate | None = Field(
        default=None,
        description="of the all-reduce, behind computing, at the most nodes; below 0 the training "
        "exchanges more slowly than the all-reduce by itself",
    )
    local_seconds: Estimate | None = Field(
        default=None, description="of a step, without the exchange: computing and data"
    )
    gradient_bytes: int | None = None
    points: tuple[PredictedPoint, ...] = ()
    checked: tuple[CheckedPoint, ...] = ()


class _Step(NamedTuple):
    """A measured number of nodes."""

    nodes: int
    ranks: int
    images: int
    total: Draws
    local: Draws
    exchange: Draws


@dataclass(frozen=True)
class _Model:
    base: _Step
    local: Draws
    ring: Ring
    hidden: Draws
    size_bytes: int
    devices: int

    def exchange(self, nodes: int) -> Draws:
        whole = self.ring.seconds(nodes * self.devices, self.size_bytes)
        return np.maximum(whole - self.hidden, 0.0)

    def efficiency(self, nodes: int) -> Draws:
        return np.asarray(self.base.total / (self.local + self.exchange(nodes)))


class _Check(NamedTuple):
    model: _Model
    fitted: Sequence[_Step]
    points: list[CheckedPoint]


def predict(
    curve: Curve | None, measured: Sequence[Measured], all_reduces: Sequence[NodesSamples]
) -> Prediction:
    """Predict a weak curve, given a training's points and the all-reduces of the same target."""
    if curve is None:
        return _unknown("it takes two numbers of nodes with the same batch for each device")
    own = {(point.nodes, point.batch) for point in curve.points}
    line = sorted(
        (one for one in measured if (one.point.nodes, one.point.batch) in own),
        key=lambda one: one.point.nodes,
    )
    first = line[0].point
    if any(one.point.split is None for one in line):
        return _unknown("a job does not tell how its steps split")
    if not first.gradient_bytes:
        return _unknown("no job tells how many bytes of gradients it exchanges")
    if reason := next(filter(None, (one.median.interval_reason for one in line)), None):
        return _unknown(reason)
    steps = [_step(one) for one in line]
    exchanges = [
        one
        for one in all_reduces
        if one.workload == ALL_REDUCE
        and one.devices == first.devices
        and one.median
        and not one.median.interval_reason
    ]
    size_bytes, devices = first.gradient_bytes, first.devices
    model = _fit(steps, exchanges, size_bytes, devices)
    if isinstance(model, str):
        return _unknown(model)
    outcome: Outcome = "not_checked"
    checked: list[CheckedPoint] = []
    reason = None
    fitted: Sequence[_Step] = steps
    check = _check(steps, exchanges, curve, size_bytes, devices)
    if isinstance(check, str):
        reason = check
    elif all(point.holds for point in check.points):
        outcome, checked = "holds", check.points
    else:  # shown as it was checked: fitted to all, it would hide what it misses
        outcome, checked, model, fitted = "wrong", check.points, check.model, check.fitted
    off_by = max((max(1 + one.error, 1 / (1 + one.error)) for one in checked), default=1.0)
    return Prediction(
        outcome=outcome,
        reason=reason,
        batch=first.batch,
        devices=devices,
        base_nodes=first.nodes,
        fitted_nodes=tuple(step.nodes for step in fitted),
        by_all_reduce=_by_all_reduce(fitted, exchanges),
        latency_seconds=_estimate(model.ring.latency),
        bytes_per_second=_rate(model.ring.per_byte),
        hidden_seconds=_estimate(model.hidden),
        local_seconds=_estimate(model.local),
        gradient_bytes=size_bytes,
        points=_points(model, steps, off_by if outcome == "holds" else 1.0),
        checked=tuple(checked),
    )


def _unknown(reason: str) -> Prediction:
    return Prediction(outcome="not_known", reason=reason)


def _step(one: Measured) -> _Step:
    """Both parts of a step vary as the whole does, each by itself: that is all that is known."""
    point, split = one.point, one.point.split
    assert split is not None  # noqa: S101 - looked at before
    total = _with_draws(one.median)
    exchange = split.communication_seconds if point.ranks > 1 else 0.0
    exchange = min(exchange, MOST_EXCHANGED * point.seconds.value)
    own = _shuffled(total / total[0], f"{point.nodes}")
    local = (point.seconds.value - exchange) * own if exchange else total
    return _Step(point.nodes, point.ranks, point.images, total, local, total - local)


def _fit(
    steps: Sequence[_Step], exchanges: Sequence[NodesSamples], size_bytes: int, devices: int
) -> _Model | str:
    """The model, or why there is none: links between nodes show on two nodes or more."""
    remote = [step for step in steps if step.nodes > 1]
    local = np.asarray(np.mean([step.local for step in steps], axis=0))
    if _by_all_reduce(steps, exchanges):
        fitted = {step.nodes for step in remote}
        used = [one for one in exchanges if one.nodes in fitted]
        loads = [load(one.ranks, (one.number("mib") or 0) * MIB) for one in used]
        ring = fit_ring(loads, [_with_draws(one.median) for one in used if one.median])
        if ring is None:
            return "all-reduces of one size do not tell latency from bandwidth"
        last = remote[-1]
        hidden = ring.seconds(last.ranks, size_bytes) - last.exchange
    else:
        least = remote[0].total[0] * 1e-9 if remote else 0.0  # relative errors need some time
        ring = fit_ring(
            [load(step.ranks, size_bytes) for step in remote],
            [np.maximum(step.exchange, least) for step in remote],
        )
        if ring is None:
            return (
                "without all-reduces of two sizes it takes three numbers of nodes to tell the "
                "network's latency from its bandwidth"
            )
        hidden = np.zeros_like(local)
    return _Model(steps[0], local, ring, hidden, size_bytes, devices)


def _by_all_reduce(steps: Sequence[_Step], exchanges: Sequence[NodesSamples]) -> bool:
    nodes = {step.nodes for step in steps if step.nodes > 1}
    return len({one.parameters.get("mib") for one in exchanges if one.nodes in nodes}) > 1


def _check(
    steps: Sequence[_Step],
    exchanges: Sequence[NodesSamples],
    curve: Curve,
    size_bytes: int,
    devices: int,
) -> _Check | str:
    """The most nodes against a model that does not know them, or why they are not checked."""
    if len(steps) < LEAST_CHECKED:
        return (
            f"it takes {LEAST_CHECKED} numbers of nodes to keep one for the check, and "
            f"{len(steps)} were measured"
        )
    for kept in (len(steps) - 1 - (len(steps) >= LEAST_TWO_CHECKED), len(steps) - 1):
        model = _fit(steps[:kept], exchanges, size_bytes, devices)
        if not isinstance(model, str):
            points = [_checked(model, step.nodes, curve) for step in steps[kept:]]
            return _Check(model, steps[:kept], points)
    return f"the other numbers of nodes are too few for a model: {model}"


def _checked(model: _Model, nodes: int, curve: Curve) -> CheckedPoint:
    point = curve.point(nodes)
    assert point is not None  # noqa: S101 - the steps are the curve's
    predicted, measured = _estimate(model.efficiency(nodes)), point.efficiency
    error = predicted.value / measured.value - 1
    return CheckedPoint(
        nodes=nodes,
        predicted=predicted,
        measured=measured,
        error=error,
        holds=abs(error) <= MISS or overlap(predicted, measured),
    )


def _points(model: _Model, steps: Sequence[_Step], off_by: float) -> tuple[PredictedPoint, ...]:
    """At the measured numbers of nodes, at their doubles, and at as many GPUs as others had."""
    by_nodes: Mapping[int, _Step] = {step.nodes: step for step in steps}
    base, most = model.base, MOST_RANKS // model.devices
    doubles = {base.nodes * 2**power for power in range(most.bit_length())}
    wanted = {nodes for nodes in (*doubles, most) if base.nodes <= nodes <= most} | set(by_nodes)
    found = []
    for nodes in sorted(wanted):
        is_base = nodes == base.nodes
        itself = Estimate(value=1.0, interval=None, interval_reason=ITSELF)
        efficiency = itself if is_base else _widened(_estimate(model.efficiency(nodes)), off_by)
        rate = base.images / base.nodes / base.total[0]
        found.append(
            PredictedPoint(
                nodes=nodes,
                ranks=nodes * model.devices,
                efficiency=efficiency,
                images_per_second=efficiency.scaled(nodes * rate),
                communication_seconds=_estimate(
                    base.exchange if is_base else model.exchange(nodes)
                ),
                measured=nodes in by_nodes,
            )
        )
    return tuple(found)


def _widened(estimate: Estimate, factor: float) -> Estimate:
    """By how far off the model was where that is known: samples know nothing of its errors."""
    ends = estimate.interval
    if ends is None:
        return estimate
    interval = Interval(low=ends.low / factor, high=ends.high * factor)
    return Estimate(value=estimate.value, interval=interval)


def _with_draws(median: Median) -> Draws:
    return np.concatenate([[median.value], median.draws()])


def _shuffled(draws: Draws, seed: str) -> Draws:
    rng = np.random.default_rng(zlib.crc32(seed.encode()))
    return np.concatenate([draws[:1], rng.permutation(draws[1:])])


def _estimate(draws: Draws) -> Estimate:
    return Estimate(value=float(draws[0]), interval=interval_of(draws[1:]))


def _rate(per_byte: Draws) -> Estimate | None:
    if not (per_byte > 0).all():
        return None
    return _estimate(1 / per_byte)
