"""Any two sides of an own job against each other, at each place, by time and by metric."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

from batchmark.analysis.own_jobs.figures import order, place_of
from batchmark.analysis.own_jobs.records import Duel
from batchmark.analysis.samples import RowKey
from batchmark.analysis.sides import PricedTarget
from batchmark.core.row_values import ToldMetric


def duels_of(targets: Sequence[PricedTarget], axis: str | None) -> tuple[Duel, ...]:
    """Of targets whose jobs may be pooled, each two once, in the order of places."""
    found = [
        _duel(key, first, second, axis)
        for first, second in combinations(targets, 2)
        for key, samples in first.pooled.samples.items()
        if not samples.problem and (theirs := second.pooled.samples.get(key)) and not theirs.problem
    ]
    return tuple(sorted(found, key=lambda duel: (order(duel.place), duel.told or ())))


def _duel(key: RowKey, first: PricedTarget, second: PricedTarget, axis: str | None) -> Duel:
    judged = first.against(second, key)
    names = {"first": first.pooled.name, "second": second.pooled.name}
    told = ToldMetric.of(dict(key[1]))
    return Duel(
        place=place_of(key, axis),
        metric=told.name if told else None,
        unit=told.unit if told else None,
        higher_is_better=told.higher_is_better if told else None,
        **names,
        better=judged.faster and names[judged.faster],
        ratio=judged.ratio,
        noise=judged.noise,
    )
