"""Picks the fastest and cheapest sides for a user's job, and the cheapest within a deadline."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import inf

from batchmark.analysis.own_jobs.figures import place_order
from batchmark.analysis.own_jobs.records import Best, DeadlineStep, Duel, JobFigure, JobSide, Place
from batchmark.analysis.pairs.compared_rows import cheaper_of_two
from batchmark_job.result.document import Device


def best_of(
    sides: Sequence[JobSide], duels: Sequence[Duel], deadline_seconds: float | None
) -> tuple[Best, ...]:
    """Return the best sides at each place (job size and start) where any side has a time."""
    known = {figure.place for side in sides for figure in side.figures if figure.seconds}
    return tuple(
        _best(place, sides, duels, deadline_seconds) for place in sorted(known, key=place_order)
    )


def _best(
    place: Place, sides: Sequence[JobSide], duels: Sequence[Duel], deadline_seconds: float | None
) -> Best:
    there = {
        side.target.target: figure
        for side in sides
        for figure in side.figures
        if figure.place == place and figure.seconds
    }
    by_time = [duel for duel in duels if duel.place == place and duel.metric is None]
    prices = {side.target.target: _usd_per_hour(side) for side in sides}
    cheaper = {
        frozenset((duel.first, duel.second)): _cheaper(
            duel, prices[duel.first], prices[duel.second]
        )
        for duel in by_time
    }
    priced = {name: figure for name, figure in there.items() if figure.usd_per_job and prices[name]}
    steps = tuple(_steps(priced, cheaper))
    kept = [step for step in steps if step.from_seconds <= (deadline_seconds or -inf)]
    return Best(
        place=place,
        fastest=_winner(list(there), [duel.better for duel in by_time]),
        cheapest=_winner(list(priced), list(cheaper.values())),
        unpriced=tuple(name for name in there if name not in priced),
        deadlines=steps,
        within=kept[-1] if kept else None,
    )


def _usd_per_hour(side: JobSide) -> float | None:
    """Return the hourly price; None if there is none or a GPU side's jobs didn't run on a GPU."""
    fell_back = side.target.device == "cuda" and side.target.actual_device is not Device.CUDA
    return None if fell_back else side.price.usd_per_hour


def _winner(names: Sequence[str], winners: Sequence[str | None]) -> str | None:
    """Return the side known to beat every other side, or None if there isn't one."""
    rivals = len(names) - 1
    return next((name for name in names if rivals and winners.count(name) == rivals), None)


def _cheaper(duel: Duel, first_usd: float | None, second_usd: float | None) -> str | None:
    if first_usd is None or second_usd is None:
        return None
    ahead = cheaper_of_two(duel.ratio, duel.noise, duel.ratio.scaled(second_usd / first_usd))
    return ahead and (duel.first if ahead == "first" else duel.second)


def _steps(
    priced: Mapping[str, JobFigure], cheaper: Mapping[frozenset[str], str | None]
) -> Iterator[DeadlineStep]:
    """Yield the deadlines at which the cheapest side or its rivals change."""
    usd = {name: figure.usd_per_job.value for name, figure in priced.items() if figure.usd_per_job}
    takes = {name: priced[name].kept_seconds or inf for name in usd}
    keeping: list[str] = []
    last: tuple[str, ...] = ()
    for newest in sorted(usd, key=lambda name: (takes[name], usd[name])):
        keeping = sorted([*keeping, newest], key=lambda name: usd[name])
        target = keeping[0]
        rivals = [name for name in keeping[1:] if cheaper.get(frozenset((target, name))) != target]
        if (target, *rivals) != last:
            last = (target, *rivals)
            yield DeadlineStep(
                from_seconds=takes[newest],
                target=target,
                rivals=tuple(rivals),
                usd_per_job=usd[target],
                jobs=priced[target].jobs,
            )
