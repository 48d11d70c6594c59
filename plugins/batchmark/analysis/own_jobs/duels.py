"""Any two sides of an own job against each other, at each place, by time and by metric."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations

from batchmark.analysis.compared_rows import not_comparable, same_cpu
from batchmark.analysis.judging.verdict import Contestant, judge
from batchmark.analysis.own_jobs.figures import order, place_of
from batchmark.analysis.own_jobs.records import Duel
from batchmark.analysis.pooling import TargetJobs
from batchmark.analysis.samples import RowKey
from batchmark.core.row_values import ToldMetric


def duels_of(targets: Sequence[TargetJobs], axis: str | None) -> tuple[Duel, ...]:
    """Of targets whose jobs may be pooled, each two once, in the order of places."""
    found = [
        _duel(key, first, second, axis)
        for first, second in combinations(targets, 2)
        for key in _shared(first, second)
    ]
    return tuple(sorted(found, key=lambda duel: (order(duel.place), duel.told or ())))


def _shared(first: TargetJobs, second: TargetJobs) -> Iterator[RowKey]:
    """The rows of which both have a figure."""
    for key in first.samples:
        if not (first.problem(key) or second.problem(key)):
            yield key


def _duel(key: RowKey, first: TargetJobs, second: TargetJobs, axis: str | None) -> Duel:
    sides = [Contestant(target.name, target.samples[key]) for target in (first, second)]
    judgement = judge(*sides)
    better, noise = judgement.faster, judgement.noise
    if model := same_cpu(first, second):
        better, noise = None, not_comparable(noise, model)
    told = ToldMetric.of(dict(key[1]))
    return Duel(
        place=place_of(key, axis),
        metric=told.name if told else None,
        unit=told.unit if told else None,
        higher_is_better=told.higher_is_better if told else None,
        first=first.name,
        second=second.name,
        better=better and (first.name if better == "first" else second.name),
        ratio=judgement.ratio,
        noise=noise,
    )
