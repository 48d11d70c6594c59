"""Advises on how many replicas should share a device, and in which mode, and states the gain."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from pydantic import Field

from batchmark.analysis.sharing.curves import Curve, Form
from batchmark.analysis.sharing.knee import WORTH
from batchmark.core import formatting
from batchmark.core.intervals import Estimate, overlap
from batchmark.core.record import Record
from batchmark_job.result.sharing import SharingMode

Verdict = Literal["share", "alone", "not_known"]


class Choice(Record):
    """The chosen replica count, compared with one task alone."""

    replicas: int
    at_least: bool = Field(
        description="whether more replicas may increase throughput further because the knee is "
        "uncertain"
    )
    gain: Estimate = Field(description="throughput relative to that of one task alone")
    price: Estimate = Field(description="price of a step relative to that of one task alone")
    p95_seconds: float | None = Field(
        description="95th percentile of the slowest replica's step times, in seconds"
    )
    p95_alone: float | None = Field(
        description="95th percentile of the step times of one task alone, in seconds"
    )
    usd_per_1000_steps: Estimate | None
    usd_alone: Estimate | None


class Advice(Record):
    verdict: Verdict = Field(
        description="share: sharing clearly increases throughput; alone: it clearly does not "
        "increase it enough"
    )
    mode: SharingMode | None = Field(description="mode that was judged; null if none was measured")
    form: Form = "processes"
    choice: Choice | None = Field(default=None, description="null unless sharing pays off")
    equals: tuple[SharingMode, ...] = Field(
        default=(),
        description="other modes that may increase throughput as much, because their intervals "
        "overlap",
    )
    reason: str | None = Field(
        default=None,
        description="why the verdict is not known, or how much throughput sharing adds",
    )


def advise(curves: Sequence[Curve]) -> Advice:
    """Derive advice from a task's curves on a target; the mode with the largest gain is best."""
    judged = [
        _judge(curve, _drift(curves, curve.form))
        for curve in curves
        if curve.mode is not SharingMode.EXCLUSIVE
    ]
    sharing = [(one.choice.gain, one) for one in judged if one.choice]
    if sharing:
        most, best = max(sharing, key=lambda one: one[0].value)
        equals = [one.mode for gain, one in sharing if one is not best and overlap(gain, most)]
        return best.model_copy(update={"equals": tuple(equals)})
    for verdict in ("not_known", "alone"):
        if found := [one for one in judged if one.verdict == verdict]:
            return found[0]
    reason = "no measurement ran several tasks at once"
    return Advice(verdict="not_known", mode=None, reason=reason)


def _drift(curves: Sequence[Curve], form: Form) -> float:
    """Return the largest factor by which a task's throughput drifted between exclusive-mode rows.

    In exclusive mode nothing is shared, so the factor shows how much the machine itself changed.
    """
    in_turn = [
        point.gain.value
        for curve in curves
        if curve.mode is SharingMode.EXCLUSIVE and curve.form == form
        for point in curve.points
        if point.gain
    ]
    return max(in_turn, default=1.0)


def _judge(curve: Curve, drift: float) -> Advice:
    about = Advice(verdict="not_known", mode=curve.mode, form=curve.form)
    if reason := _unknown(curve):
        return about.model_copy(update={"reason": reason})
    choice = _choice(curve)
    ends = choice and choice.gain.interval
    if ends and ends.low > max(1, drift):
        return about.model_copy(update={"verdict": "share", "choice": choice})
    if choice and ends and ends.high >= 1 / WORTH:
        reason = f"with {choice.replicas} replicas {_times_text(choice.gain)}"
        if ends.low > 1:
            reason += f", but one task alone also varied by up to {formatting.multiple(drift)}"
        return about.model_copy(update={"reason": reason})
    return about.model_copy(update={"verdict": "alone", "reason": _most_text(curve)})


def _unknown(curve: Curve) -> str | None:
    """Return why a curve allows no advice, or None if it allows some."""
    if not curve.points:
        return "; ".join(dict.fromkeys(one.reason for one in curve.unmeasured))
    if curve.alone is None:
        return "no task was measured alone"
    knee = curve.knee
    if knee is None or knee.low is None or (knee.low == 1 and knee.outcome != "found"):
        return knee.reason if knee else "it has no knee"
    return None


def _choice(curve: Curve) -> Choice | None:
    """Choose the knee's replica count, or else its lower bound; None if that is 1."""
    knee, alone = curve.knee, curve.alone
    point = curve.point(knee.low) if knee and knee.low and knee.low > 1 else None
    if not (knee and alone and point and point.gain):
        return None
    return Choice(
        replicas=point.replicas,
        at_least=knee.outcome != "found",
        gain=point.gain,
        price=point.gain.inverse(),
        p95_seconds=point.figures.slowest.p95,
        p95_alone=alone.steps.p95,
        usd_per_1000_steps=point.usd_per_1000_steps,
        usd_alone=alone.usd_per_1000_steps,
    )


def _most_text(curve: Curve) -> str:
    """Describe the largest gain from sharing."""
    gains = {point.gain: point for point in curve.points if point.replicas > 1 and point.gain}
    best = max(gains, key=lambda gain: gain.value, default=None)
    return (
        f"the most is {_times_text(best)}, with {gains[best].replicas} replicas" if best else "none"
    )


def _times_text(gain: Estimate) -> str:
    return f"{formatting.factor(gain)} the throughput of one task alone"
