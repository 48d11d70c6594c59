"""Which side of an own job to take at each place: the fastest, the cheapest, by a deadline."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import inf

from batchmark.analysis.compared_rows import cheaper_of_two
from batchmark.analysis.own_jobs.figures import order
from batchmark.analysis.own_jobs.records import Best, DeadlineStep, Duel, JobFigure, JobSide, Place
from batchmark_job.result import Device


def best_of(
    sides: Sequence[JobSide], duels: Sequence[Duel], deadline_seconds: float | None
) -> tuple[Best, ...]:
    """One for each place where a side has a figure."""
    known = {figure.place for side in sides for figure in side.figures if figure.seconds}
    return tuple(_best(place, sides, duels, deadline_seconds) for place in sorted(known, key=order))


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
    cheaper = [_cheaper(duel, prices[duel.first], prices[duel.second]) for duel in by_time]
    steps = tuple(_steps({name: figure for name, figure in there.items() if prices[name]}))
    kept = [step for step in steps if step.from_seconds <= (deadline_seconds or -inf)]
    return Best(
        place=place,
        fastest=_winner(list(there), [duel.better for duel in by_time]),
        cheapest=_winner(list(there), cheaper),
        deadlines=steps,
        within=kept[-1] if kept else None,
    )


def _usd_per_hour(side: JobSide) -> float | None:
    """None for a GPU's side whose jobs ran on the CPU: its dollars are not a GPU's."""
    fell_back = side.target.device == "cuda" and side.target.actual_device is not Device.CUDA
    return None if fell_back else side.price.usd_per_hour


def _winner(names: Sequence[str], winners: Sequence[str | None]) -> str | None:
    """The side that is known to be ahead of every other one."""
    rivals = len(names) - 1
    return next((name for name in names if rivals and winners.count(name) == rivals), None)


def _cheaper(duel: Duel, first_usd: float | None, second_usd: float | None) -> str | None:
    if first_usd is None or second_usd is None:
        return None
    ahead = cheaper_of_two(duel.ratio, duel.noise, duel.ratio.scaled(second_usd / first_usd))
    return ahead and (duel.first if ahead == "first" else duel.second)


def _steps(there: dict[str, JobFigure]) -> Iterator[DeadlineStep]:
    """Where the cheapest side changes as the deadline grows."""
    found = []
    for name, figure in there.items():
        if figure.seconds and figure.usd_per_job:
            interval = figure.seconds.interval
            takes = interval.high if interval else figure.longest_seconds or figure.seconds.value
            found.append((takes, figure.usd_per_job.value, name))
    cheapest = inf
    for takes, usd, name in sorted(found):
        if usd < cheapest:
            cheapest = usd
            yield DeadlineStep(from_seconds=takes, target=name, usd_per_job=usd)
