"""Experiments in which the first replica fails or slows down: who else suffered."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

from pydantic import Field

from batchmark.analysis.sharing.curves import Form, Place, SharedSamples
from batchmark.analysis.sharing.knee import WORTH
from batchmark.analysis.sharing.replicas import ReplicaEnd, ends_of
from batchmark.analysis.speedup import ratio
from batchmark.core.intervals import Estimate
from batchmark.core.record import Record
from batchmark_job.result import Disturbance, Sharing, SharingMode

IDLE = "the others made no whole step"


class Experiment(Record):
    mode: SharingMode
    form: Form
    replicas: int
    disturbance: Disturbance = Field(description="what the first replica was made to do")
    first: ReplicaEnd | None = Field(description="what became of it; null where nobody tells")
    ended: tuple[ReplicaEnd, ...] = Field(description="others that did not run to their end")
    others: Estimate | None = Field(
        description="throughput of the other replicas, over that of the same ones undisturbed"
    )
    suffered: Literal["nobody", "others", "not_known"] = Field(
        description="others: one ended early, or together they surely made less than 95 % of "
        "their undisturbed steps"
    )
    reason: str | None = Field(default=None, description="why it is not known")


def experiments_of(found: Sequence[SharedSamples]) -> tuple[Experiment, ...]:
    """Each disturbed row of a task, held against the undisturbed one of its mode and number."""
    undisturbed = {
        _without(one.place): one for one in found if not one.place.disturbance and one.median
    }
    return tuple(_experiments(found, undisturbed))


def _experiments(
    found: Sequence[SharedSamples], undisturbed: dict[Place, SharedSamples]
) -> Iterator[Experiment]:
    for samples in found:
        place = samples.place
        if place.disturbance:
            ends = ends_of(samples.rows)
            ended = tuple(end for end in ends if end.replica > 0 and not end.ran)
            others, reason = _others(samples, undisturbed.get(_without(place)))
            yield Experiment(
                **place.model_dump(),
                first=ends[0] if ends else None,
                ended=ended,
                others=others,
                suffered="others" if ended or reason == IDLE else _suffered(others),
                reason=reason,
            )


def _without(place: Place) -> Place:
    return place.model_copy(update={"disturbance": None})


def _others(
    samples: SharedSamples, undisturbed: SharedSamples | None
) -> tuple[Estimate | None, str | None]:
    """The others' throughput over their undisturbed one, or why there is no such figure."""
    if samples.place.replicas < 2:
        return None, "there were no others"
    if samples.median is None:
        return None, samples.problem
    if undisturbed is None or undisturbed.median is None:
        return None, "the same replicas were not measured undisturbed"
    share, usual = _share(samples.rows), _share(undisturbed.rows)
    if not share:
        return None, IDLE
    if not usual:
        return None, "undisturbed, the others made no whole step"
    return ratio(undisturbed.median, samples.median).scaled(share / usual), None


def _share(rows: Sequence[Sharing]) -> float:
    """Of all steps in the windows those of the others."""
    steps = [[sum(replica.group_steps) for replica in row.replicas] for row in rows]
    total = sum(map(sum, steps))
    return sum(sum(row[1:]) for row in steps) / total if total else 0.0


def _suffered(others: Estimate | None) -> Literal["nobody", "others", "not_known"]:
    if others is None or others.interval is None:
        return "not_known"
    if others.interval.high < WORTH:
        return "others"
    return "nobody" if others.interval.low >= WORTH else "not_known"
