"""Predicts training efficiency on more nodes with a model fitted to the measurements.

The model is checked against the largest one or two node counts measured, which are left out of the
fit for the check.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple, get_args

from pydantic import Field

from batchmark.analysis.scaling.curves import ITSELF, Curve, Measured
from batchmark.analysis.scaling.rows import NodesSamples
from batchmark.analysis.scaling.step_model import MISS, Draws, Step, StepModel, fit, misfit, step_of
from batchmark.core.intervals import Estimate, Interval, interval_of, no_interval, overlap
from batchmark.core.record import Record

MOST_RANKS = 160  # the number of GPUs of the published point
LEAST_CHECKED = 3  # node counts from which the largest is kept for the check
LEAST_TWO_CHECKED = 5  # node counts from which the two largest are
Held = Literal["wrong", "too_noisy", "holds"]  # worst first
Outcome = Literal[Held, "not_checked", "not_known"]
UNSURE = 0.15  # of an efficiency: a check with a larger uncertainty proves nothing
ONE_MACHINE = "its nodes share or may share one machine, so no network between them was measured"
ONLY_LEAST = "on fewer nodes, computation hid the entire exchange, so only a bound can be checked"
ONE_CURVE = "this requires two node counts with the same batch size per device"


class PredictedPoint(Record):
    nodes: int
    ranks: int
    efficiency: Estimate
    images_per_second: Estimate
    communication_seconds: Estimate = Field(
        description="exchange time per step that is not hidden by computation"
    )
    measured: bool = Field(description="whether this node count was also measured")


class CheckedPoint(Record):
    """A measured node count that was left out of the model's fit."""

    nodes: int
    predicted: Estimate
    measured: Estimate
    error: float = Field(description="predicted / measured - 1")
    outcome: Held = Field(
        description="holds: the error is at most 5 % or within the samples' uncertainty, which is "
        "itself at most 15 %; a lower bound holds for any efficiency above it"
    )


class Prediction(Record):
    """The predicted (not measured) efficiency of a weak-scaling curve."""

    outcome: Outcome = Field(
        description="whether the prediction holds at node counts not used for the fit; "
        "too_noisy: the samples are too noisy to tell; not_known: there is no "
        "prediction"
    )
    reason: str | None = Field(
        default=None, description="why the prediction was not checked or is unknown"
    )
    batch: int | None = Field(default=None, description="images per device per step")
    devices: int | None = Field(default=None, description="devices per node")
    base_nodes: int | None = None
    fitted_nodes: tuple[int, ...] = Field(
        default=(),
        description="all measured node counts; if the model is wrong, all except those checked",
    )
    at_least: bool = Field(
        default=False,
        description="whether efficiencies are lower bounds because computation hid the entire "
        "measured exchange and could hide more",
    )
    by_all_reduce: bool = Field(
        default=False,
        description="whether the network figures come from separate all-reduces instead of the "
        "time that all-reduces add to steps; if so, the hidden part is unknown",
    )
    latency_seconds: Estimate | None = Field(
        default=None, description="latency per hop between ranks"
    )
    bytes_per_second: Estimate | None = Field(
        default=None, description="bandwidth of a link; null if the fit attributes no time to bytes"
    )
    hidden_seconds: Estimate | None = Field(
        default=None,
        description="all-reduce time hidden behind computation at the largest node count; "
        "negative if the exchange is slower during training than in a separate "
        "all-reduce",
    )
    local_seconds: Estimate | None = Field(
        default=None, description="step time without the exchange: computation and waiting for data"
    )
    gradient_bytes: int | None = None
    points: tuple[PredictedPoint, ...] = ()
    checked: tuple[CheckedPoint, ...] = ()


class _Check(NamedTuple):
    model: StepModel
    fitted: Sequence[Step]
    points: Sequence[CheckedPoint]


def predict(
    curve: Curve | None,
    measured: Sequence[Measured],
    all_reduces: Sequence[NodesSamples],
    *,
    apart: bool,
) -> Prediction:
    """Predict a weak-scaling curve, given training points and the same target's all-reduces.

    Args:
        apart: whether each node is known to have its own machine.
    """
    if curve is None or not apart:
        return _unknown(ONE_CURVE if apart else ONE_MACHINE)
    own = {(point.nodes, point.batch) for point in curve.points}
    line = sorted(
        (one for one in measured if (one.point.nodes, one.point.batch) in own),
        key=lambda one: one.point.nodes,
    )
    first = line[0].point
    if untold := _unreported(line):
        return _unknown(untold)
    steps = [step_of(one) for one in line]
    exchanges = [
        one
        for one in all_reduces
        if one.devices == first.devices and one.median and not one.median.interval_reason
    ]
    size_bytes, devices = first.gradient_bytes or 0, first.devices
    model = fit(steps, exchanges, size_bytes, devices)
    if isinstance(model, str):
        return _unknown(model)
    outcome: Outcome = "not_checked"
    checked: Sequence[CheckedPoint] = ()
    reason = problem = None
    fitted: Sequence[Step] = steps
    check = _check(steps, exchanges, curve, size_bytes, devices)
    if isinstance(check, str):
        reason = check
    elif not (problem := misfit(check.model, check.fitted)):
        if _worst(check.points) == "wrong":
            # Show the model that was checked: fitted to all points, it would hide its errors.
            outcome, checked, model, fitted = "wrong", check.points, check.model, check.fitted
        elif check.model.at_least and not model.at_least:
            reason = ONLY_LEAST
        else:
            outcome, checked = _worst(check.points), check.points
    if problem := problem or misfit(model, fitted):
        return _unknown(problem)
    most = steps[-1].nodes if outcome == "wrong" else MOST_RANKS
    off_by = 1.0 if outcome == "wrong" else _off_by(checked, at_least=model.at_least)
    return Prediction(
        outcome=outcome,
        reason=reason,
        batch=first.batch,
        devices=devices,
        base_nodes=first.nodes,
        fitted_nodes=tuple(step.nodes for step in fitted),
        at_least=model.at_least,
        by_all_reduce=model.by_all_reduce,
        latency_seconds=_estimate(model.ring.latency),
        bytes_per_second=_rate(model.ring.per_byte),
        hidden_seconds=_estimate(model.hidden),
        local_seconds=_estimate(model.local),
        gradient_bytes=size_bytes,
        points=tuple(one for one in _points(model, steps, off_by) if one.nodes <= most),
        checked=tuple(checked),
    )


def _unknown(reason: str) -> Prediction:
    return Prediction(outcome="not_known", reason=reason)


def _unreported(line: Sequence[Measured]) -> str | None:
    if any(one.point.split is None for one in line):
        return "at one node count, no job reported how its steps split"
    if not line[0].point.gradient_bytes:
        return "no job reported how many bytes of gradients it exchanges"
    return no_interval(*(one.median for one in line))


def _check(
    steps: Sequence[Step],
    exchanges: Sequence[NodesSamples],
    curve: Curve,
    size_bytes: int,
    devices: int,
) -> _Check | str:
    """Check the largest node counts against a model fitted without them, or say why that fails."""
    if len(steps) < LEAST_CHECKED:
        return (
            f"the check requires {LEAST_CHECKED} node counts, but only {len(steps)} were measured"
        )
    for kept in (len(steps) - 1 - (len(steps) >= LEAST_TWO_CHECKED), len(steps) - 1):
        model = fit(steps[:kept], exchanges, size_bytes, devices)
        if not isinstance(model, str):
            points = tuple(_checked(model, step, curve) for step in steps[kept:])
            return _Check(model, steps[:kept], points)
    return f"there are too few other node counts to fit a model: {model}"


def _checked(model: StepModel, step: Step, curve: Curve) -> CheckedPoint:
    point = curve.point(step.nodes)
    assert point is not None  # noqa: S101 - the steps are the curve's
    predicted, measured = _estimate(model.efficiency(step.nodes)), point.efficiency
    error = predicted.value / measured.value - 1
    return CheckedPoint(
        nodes=step.nodes,
        predicted=predicted,
        measured=measured,
        error=error,
        outcome=_held(model, step, off=error, alike=overlap(predicted, measured)),
    )


def _held(model: StepModel, step: Step, *, off: float, alike: bool) -> Held:
    if model.at_least and off <= MISS:
        return "holds"
    if abs(off) > MISS and not alike:
        return "wrong"
    ends = interval_of((step.total / model.seconds(step.nodes))[1:])
    sure = ends.low >= 1 - UNSURE and ends.high <= 1 + UNSURE
    return "holds" if sure else "too_noisy"


def _worst(points: Sequence[CheckedPoint]) -> Held:
    return min((point.outcome for point in points), key=get_args(Held).index)


def _off_by(checked: Sequence[CheckedPoint], *, at_least: bool) -> float:
    """Return the factor by which the model missed its check; 1 if it was not checked."""
    ratios = [1 + point.error for point in checked if point.error > -1]
    return max([1.0, *(ratio if at_least else max(ratio, 1 / ratio) for ratio in ratios)])


def _points(model: StepModel, steps: Sequence[Step], off_by: float) -> tuple[PredictedPoint, ...]:
    """Predict at measured node counts, doublings of the smallest, and a published GPU count."""
    by_nodes: Mapping[int, Step] = {step.nodes: step for step in steps}
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
    """Widen an interval by the model's error in its check, which the samples don't reflect."""
    ends = estimate.interval
    if ends is None:
        return estimate
    interval = Interval(low=ends.low / factor, high=ends.high * factor)
    return Estimate(value=estimate.value, interval=interval)


def _rate(per_byte: Draws) -> Estimate | None:
    found = _estimate(per_byte)
    ends = found.interval
    if ends is None or ends.low <= 0 or found.value <= 0:
        return None
    return found.inverse()


def _estimate(draws: Draws) -> Estimate:
    return Estimate(value=float(draws[0]), interval=interval_of(draws[1:]))
