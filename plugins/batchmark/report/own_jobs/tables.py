"""What is known of an own job, as tables; the page and the terminal draw them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from batchmark.analysis.own_jobs.records import DeadlineStep, JobFigure, JobSide, OwnJobStudy, Place
from batchmark.core import formatting
from batchmark.core.formatting import Figure
from batchmark.core.row_values import ToldMetric
from batchmark.report.blocks import Table, capitalized, plain
from batchmark.report.own_jobs import words
from batchmark.report.own_jobs.sentences import step_names
from batchmark.report.own_jobs.standings import (
    Win,
    barred,
    best_at,
    by_metric,
    duel_of,
    measured,
    metrics,
    places,
)
from batchmark.report.words import NOT_COMPARABLE, NOT_KNOWN, measured_target
from batchmark_job.result.confidence import CONFIDENCE_TEXT

NONE = plain("-")
VERDICT, OVER_FASTEST, OVER_BEST = "Verdict", "Over the fastest", "The best is"
MEANINGS = {
    OVER_FASTEST: "Over the fastest: how many times as long.",
    OVER_BEST: "The best is how many times better than the side in that row.",
    "A job": "Dollars are at the whole instance's On-Demand price, however it was bought, as if "
    "nothing else ran on it.",
}
MOST_ROWS = 12  # of metrics that are not folded: the first screen has their answer


def tables(study: OwnJobStudy) -> Iterator[Table]:
    """Sides by size, their metrics, and who is cheapest by which deadline; each start apart."""
    found = places(study)
    for start in dict.fromkeys(place.start for place in found):
        own = [place for place in found if place.start == start]
        yield from filter(None, (_sides(study, own), _metrics(study, own), _deadlines(study, own)))


def _sides(study: OwnJobStudy, own: Sequence[Place]) -> Table | None:
    rows = [
        _side(study, side, figure, priced=_priced(study))
        for place in own
        for side, figure in measured(study, place)
    ]
    if not rows:
        return None
    return _table(
        _title("Time and price" if _priced(study) else "Time", own),
        f"Medians over the jobs, with {CONFIDENCE_TEXT} intervals: from a container's start to its "
        "stop, with waiting and the command alone beside it.",
        [
            *_at_heading(study),
            "Target",
            "Time",
            OVER_FASTEST,
            *(("A job",) if _priced(study) else ()),
            VERDICT,
            "Command alone",
            "Waiting",
            "Jobs",
        ],
        rows,
    )


def _table(
    title: str,
    caption: str,
    headings: Sequence[str],
    rows: Sequence[Sequence[Figure]],
    *,
    folded: bool = False,
) -> Table:
    """A table with what its columns mean, without those that say the same nothing in each row.

    That sides are not comparable is said once, by the answer.
    """
    empty = {
        name
        for place, name in enumerate(headings)
        if {row[place].value for row in rows} <= {NONE.value, NOT_COMPARABLE}
    }
    if VERDICT in empty:
        empty |= {OVER_FASTEST, OVER_BEST}
    kept = [place for place, name in enumerate(headings) if name not in empty]
    names = [headings[place] for place in kept]
    told = [caption, *(says for name, says in MEANINGS.items() if name in names)]
    return Table(
        title, " ".join(told), names, [[row[place] for place in kept] for row in rows], folded
    )


def _side(study: OwnJobStudy, side: JobSide, figure: JobFigure, *, priced: bool) -> list[Figure]:
    assert figure.seconds  # noqa: S101 - it is measured
    usd = figure.usd_per_job
    return [
        *_at(study, figure.place),
        plain(measured_target(side.target)),
        formatting.time(figure.seconds),
        _over_fastest(study, side, figure.place),
        *([formatting.usd_figure(usd) if usd else NONE] if priced else []),
        plain(_verdict(study, side, figure.place)),
        _seconds(figure.command_seconds),
        _seconds(figure.waiting_seconds),
        plain(str(figure.jobs)),
    ]


def _fastest(study: OwnJobStudy, place: Place) -> str:
    """The fastest side, or by its figure alone the quickest."""
    best = best_at(study, place)
    return (best and best.fastest) or measured(study, place)[0][0].target.target


def _over_fastest(study: OwnJobStudy, side: JobSide, place: Place) -> Figure:
    duel = duel_of(study, place, _fastest(study, place), side.target.target)
    return formatting.factor(duel.ratio) if duel else NONE


def _verdict(study: OwnJobStudy, side: JobSide, place: Place) -> str:
    """What a side is at a place: by time, then by dollars."""
    name, best = side.target.target, best_at(study, place)
    names = [other.target.target for other, _ in measured(study, place)]
    if best is None or len(names) == 1:
        return "-"
    words_of = [
        word
        for word, winner in (("fastest", best.fastest), ("cheapest", best.cheapest))
        if winner == name
    ]
    if words_of:
        return ", ".join(words_of)
    leader = _fastest(study, place)
    rival = leader if name != leader else next(other for other in names if other != leader)
    duel = duel_of(study, place, rival, name)
    if duel and barred(duel):
        return NOT_COMPARABLE
    return "slower" if duel and duel.better == rival else NOT_KNOWN


def _metrics(study: OwnJobStudy, own: Sequence[Place]) -> Table | None:
    rows = [
        row for told in metrics(study) for place in own for row in _metric_rows(study, place, told)
    ]
    if not rows:
        return None
    return _table(
        _title("Its metrics", own),
        "As the jobs told them, medians over all values.",
        [
            "Metric",
            *_at_heading(study),
            "Target",
            "Value",
            OVER_BEST,
            VERDICT,
            "Dollars",
            "Values",
        ],
        rows,
        folded=len(rows) > MOST_ROWS,
    )


def _metric_rows(study: OwnJobStudy, place: Place, told: ToldMetric) -> Iterator[list[Figure]]:
    """A row for each side that told a metric."""
    win = next(by_metric(study, [place], told), None)
    least = min(_usd_per_unit(study, told), default=0.0)
    for side, figure in measured(study, place):
        target = side.target.target
        duel = duel_of(study, place, win.leader, target, told) if win else None
        verdict = _metric_verdict(study, win, target) if win else "-"
        for found in figure.metrics:
            if found.told == told:
                yield [
                    plain(words.metric_names(study)[told]),
                    *_at(study, place),
                    plain(measured_target(side.target)),
                    formatting.value(found.value, found.unit),
                    formatting.factor(duel.ratio) if duel else NONE,
                    plain(verdict),
                    words.usd_per_unit(found, least) or NONE,
                    plain(f"{found.values} in {formatting.count(found.jobs, 'job')}"),
                ]


def _metric_verdict(study: OwnJobStudy, win: Win, target: str) -> str:
    if win.winner == target:
        return "best"
    rival = win.next if win.leader == target else win.leader
    duel = duel_of(study, win.place, rival, target, win.metric)
    if duel and barred(duel):
        return NOT_COMPARABLE
    return "worse" if duel and duel.better == rival else NOT_KNOWN


def _usd_per_unit(study: OwnJobStudy, told: ToldMetric) -> Iterator[float]:
    for _, figure in words.figures(study):
        for found in figure.metrics:
            if found.told == told and found.usd_per_unit:
                yield found.usd_per_unit.value


def _deadlines(study: OwnJobStudy, own: Sequence[Place]) -> Table | None:
    """Who is the cheapest by which deadline, where that is not always the same."""
    rows = []
    for place in own:
        best = best_at(study, place)
        steps: Sequence[DeadlineStep | None] = best.deadlines if best else ()
        for step, later in pairwise((*steps, None)):
            if step:
                until = f" to {formatting.seconds(later.from_seconds)}" if later else " on"
                rows.append(
                    [
                        *_at(study, place),
                        plain(f"from {formatting.seconds(step.from_seconds)}{until}"),
                        plain(step_names(study, step)),
                        plain(formatting.usd(step.usd_per_job)),
                    ]
                )
    if not rows:
        return None
    return Table(
        _title("The cheapest within a deadline", own),
        "A deadline is for a job from its start on, waiting left out. All jobs of a side kept its "
        "deadline, and the upper end of its interval does; that is no promise for the next job. "
        "Shorter ones are kept by no side with a price.",
        [*_at_heading(study), "Deadline", "Cheapest", "A job"],
        rows,
        folded=True,
    )


def _title(text: str, own: Sequence[Place]) -> str:
    where = words.on_instances(own[0])
    return f"{text}, {where}" if where else text


def _priced(study: OwnJobStudy) -> bool:
    return any(figure.usd_per_job for _, figure in words.figures(study))


def _at_heading(study: OwnJobStudy) -> list[str]:
    return [capitalized(study.axis)] if study.axis else []


def _at(study: OwnJobStudy, place: Place) -> list[Figure]:
    if study.axis is None:
        return []
    return [NONE if place.size is None else plain(formatting.size(place.size))]


def _seconds(value: float | None) -> Figure:
    return NONE if value is None else plain(formatting.seconds(value))
