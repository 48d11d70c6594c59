"""Finds the leading side of a user's job at each size and start, by time, cost or metric."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from batchmark.analysis.own_jobs.records import Best, Duel, JobFigure, JobSide, OwnJobStudy, Place
from batchmark.core.intervals import Estimate
from batchmark.core.row_values import ToldMetric
from batchmark.report.words import NOT_COMPARABLE


class Win(NamedTuple):
    """The leading side at a place (a size and kind of start), and its lead over the next best."""

    place: Place
    winner: str | None  # None if unknown, or if there is no difference
    leader: str  # the winner, else the best by the figures alone
    next: str
    ratio: Estimate  # of the next's amount to the leader's: above 1 the leader is ahead
    alike: bool  # whether these are the only two sides, and their jobs would show a difference
    usd_per_job: Estimate | None = None  # of the leader, if that is what counts
    metric: ToldMetric | None = None

    @property
    def decided(self) -> bool:
        return self.alike or self.winner is not None


def measured(study: OwnJobStudy, place: Place) -> list[tuple[JobSide, JobFigure]]:
    """List each side with a figure at a place, along with the figure, in the study's order."""
    return [
        (side, figure)
        for side in study.sides
        for figure in side.figures
        if figure.place == place and figure.seconds
    ]


def ranked(study: OwnJobStudy, place: Place) -> list[str]:
    """List the names of the sides with a figure at a place, fastest first."""
    found = [
        (figure.seconds.value, side.target.target)
        for side, figure in measured(study, place)
        if figure.seconds
    ]
    return [name for _, name in sorted(found, key=lambda one: one[0])]


def priced_at(study: OwnJobStudy, place: Place) -> list[tuple[JobSide, Estimate]]:
    """List the sides with a known cost at a place, with each side's cost per job."""
    return [
        (side, figure.usd_per_job)
        for side, figure in measured(study, place)
        if figure.usd_per_job and side.price.usd_per_hour
    ]


def places(study: OwnJobStudy) -> list[Place]:
    """List all places with a figure or a problem, in the study's order."""
    known = [best.place for best in study.best]
    figures = [figure.place for side in study.sides for figure in side.figures]
    return list(dict.fromkeys([*known, *figures]))


def main_places(study: OwnJobStudy) -> list[Place]:
    """List the places with the most common kind of start; on a tie, warm starts win."""
    jobs: dict[str | None, int] = {}
    for side in study.sides:
        for figure in side.figures:
            start = figure.place.start
            jobs[start] = jobs.get(start, 0) + figure.jobs
    most = max(jobs, key=lambda start: (jobs[start], start == "warm"), default=None)
    return [place for place in places(study) if place.start == most]


def best_at(study: OwnJobStudy, place: Place) -> Best | None:
    return next((best for best in study.best if best.place == place), None)


def duel_of(
    study: OwnJobStudy, place: Place, first: str, second: str, metric: ToldMetric | None = None
) -> Duel | None:
    """Find the comparison of two sides; its ratio is how many times better `first` is."""
    for duel in study.duels:
        if (duel.place, duel.told) != (place, metric):
            continue
        if (duel.first, duel.second) == (first, second):
            return duel
        if (duel.first, duel.second) == (second, first):
            turned = {"first": first, "second": second, "ratio": duel.ratio.inverse()}
            return duel.model_copy(update=turned)
    return None


def by_time(study: OwnJobStudy, of: Iterable[Place]) -> Iterator[Win]:
    """Yield the winner by time at each place where two or more sides have a figure."""
    for place in of:
        names = ranked(study, place)
        best = best_at(study, place)
        winner = best.fastest if best else None
        if win := _win(study, place, names, winner):
            yield win


def by_dollars(study: OwnJobStudy, of: Iterable[Place]) -> Iterator[Win]:
    """Yield the winner by dollars at each place, among the sides with a price."""
    for place in of:
        priced = sorted(priced_at(study, place), key=lambda one: one[1].value)
        sides = {side.target.target: (usd, side.price.usd_per_hour or 0.0) for side, usd in priced}
        best = best_at(study, place)
        if win := _win(study, place, [*sides], best.cheapest if best else None):
            usd, hourly = sides[win.leader]
            # Prices are exact, so dollars compare as times do.
            factor = sides[win.next][1] / hourly
            ratio, alike = win.ratio.scaled(factor), win.alike and factor == 1
            yield win._replace(ratio=ratio, alike=alike, usd_per_job=usd)


def by_metric(study: OwnJobStudy, of: Iterable[Place], metric: ToldMetric) -> Iterator[Win]:
    """Yield the winner by a metric at each place, among the sides that reported it."""
    for place in of:
        values = [
            (found.value.value, found.higher_is_better, side.target.target)
            for side, figure in measured(study, place)
            for found in figure.metrics
            if found.told == metric
        ]
        values.sort(key=lambda one: -one[0] if one[1] else one[0])
        names = [name for _, _, name in values]
        against = (duel_of(study, place, names[0], other, metric) for other in names[1:])
        decided = all(duel and duel.better == names[0] for duel in against)
        if win := _win(study, place, names, names[0] if names and decided else None, metric):
            yield win


def metrics(study: OwnJobStudy) -> list[ToldMetric]:
    """List all metrics in the order in which they were reported."""
    all_told = (
        found.told for side in study.sides for figure in side.figures for found in figure.metrics
    )
    return list(dict.fromkeys(all_told))


def barred(duel: Duel) -> bool:
    """Return whether two sides can't be compared because both ran on the same CPU."""
    return (duel.noise.note or "").startswith(NOT_COMPARABLE)


def _win(
    study: OwnJobStudy,
    place: Place,
    names: list[str],
    winner: str | None,
    metric: ToldMetric | None = None,
) -> Win | None:
    """Compare the leader and runner-up; `names` is sorted best first. None if that's impossible."""
    if len(names) < 2:
        return None
    leader = winner if winner in names else names[0]
    second = next(name for name in names if name != leader)
    duel = duel_of(study, place, leader, second, metric)
    if duel is None:
        return None
    of_two = len(measured(study, place)) == 2 and not (winner or barred(duel))
    alike = of_two and duel.noise.shows_small_changes
    return Win(place, winner, leader, second, duel.ratio, alike, metric=metric)
