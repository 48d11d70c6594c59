"""Evaluates experiments on whether other replicas suffer if the first fails or slows down."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

from pydantic import Field

from batchmark.analysis.sharing.curves import Form, SharedSamples
from batchmark.analysis.sharing.knee import WORTH
from batchmark.analysis.sharing.replicas import ReplicaEnd, ends_of
from batchmark.core.intervals import Estimate, ratio
from batchmark.core.record import Record
from batchmark_job.result.document import MeasurementStatus
from batchmark_job.result.sharing import Disturbance, SharingMode


class Experiment(Record):
    mode: SharingMode
    form: Form
    replicas: int
    disturbance: Disturbance = Field(description="what the first replica was made to do")
    first: ReplicaEnd | None = Field(description="how the first replica ended; null if unknown")
    ended: tuple[ReplicaEnd, ...] = Field(description="other replicas that did not complete")
    others: Estimate | None = Field(
        description="throughput of the other replicas relative to the same replicas without a "
        "disturbance"
    )
    suffered: Literal["nobody", "others", "not_known"] = Field(
        description="others: another replica ended early, all others stopped making steps, or "
        "together they clearly made less than WORTH of the steps that they make undisturbed"
    )
    reason: str | None = Field(
        default=None, description="why the other replicas' throughput is not known"
    )


def experiments_of(found: Sequence[SharedSamples]) -> Iterator[Experiment]:
    """Compare each disturbed row with the undisturbed row for the same mode and replica count."""
    undisturbed = {one.place: one for one in found if not one.place.disturbance and one.median}
    for samples in found:
        place = samples.place
        if place.disturbance and not _skipped(samples):
            ends = ends_of(samples.rows)
            ended = tuple(end for end in ends if end.replica > 0 and not end.ran)
            usual = place.model_copy(update={"disturbance": None})
            others, reason = _others_throughput(samples, undisturbed.get(usual))
            yield Experiment(
                mode=place.mode,
                form=place.form,
                replicas=place.replicas,
                disturbance=place.disturbance,
                first=ends[0] if ends else None,
                ended=ended,
                others=others,
                suffered="others" if ended or _stalled(samples) else _suffered(others),
                reason=reason,
            )


def _skipped(samples: SharedSamples) -> bool:
    """Check whether the experiment was skipped because its mode can't be measured on the target."""
    unmeasured = {row.status for _, row in samples.pooled.unmeasured}
    return not samples.rows and unmeasured == {MeasurementStatus.SKIPPED}


def _others_throughput(
    samples: SharedSamples, undisturbed: SharedSamples | None
) -> tuple[Estimate | None, str | None]:
    """Return the other replicas' throughput relative to the undisturbed row, or why it is unknown.

    A disturbed row's samples cover only the others, so only their share of an undisturbed row
    counts.
    """
    if samples.place.replicas < 2:
        return None, "there were no other replicas"
    if samples.median is None:
        return None, samples.problem
    if undisturbed is None or undisturbed.median is None:
        return None, "the same replicas were not measured without the disturbance"
    steps = [[sum(one.group_steps) for one in row.replicas] for row in undisturbed.rows]
    theirs = sum(sum(row[1:]) for row in steps)
    if not theirs:
        return None, "without the disturbance, the others completed no step"
    share = theirs / sum(map(sum, steps))
    return ratio(undisturbed.median, samples.median).scaled(1 / share), None


def _stalled(samples: SharedSamples) -> bool:
    """Check whether a job lacks a result because its other replicas stopped completing steps."""
    return any(
        row.sharing and row.status is MeasurementStatus.SKIPPED
        for _, row in samples.pooled.unmeasured
    )


def _suffered(others: Estimate | None) -> Literal["nobody", "others", "not_known"]:
    if others is None or others.interval is None:
        return "not_known"
    if others.interval.high < WORTH:
        return "others"
    return "nobody" if others.interval.low >= WORTH else "not_known"
