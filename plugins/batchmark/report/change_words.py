"""What pages, terminal and messages say of a change, in the same words."""

from __future__ import annotations

import json
import math
from collections import Counter
from statistics import median
from typing import TYPE_CHECKING, get_args

from batchmark import figures, report_words
from batchmark.attribution import HOURS_PER_MONTH
from batchmark.change_records import Outcome
from batchmark.circumstances import row_name
from batchmark.cost import MILLION, SECONDS_PER_HOUR

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from batchmark.change_records import (
        Cause,
        Change,
        ChangePoint,
        Confirmation,
        Level,
        Metric,
        SeriesKey,
    )
    from batchmark.changes_section import AlertBoard, ChangesSection

ARROW = "\N{RIGHTWARDS ARROW}"
DIGEST = "sha256:"
SHOWN_DIGITS = 12  # of a digest, as Docker shows it
SMALLEST_P = 1e-4  # that is written out
NO_CAUSE = "nothing that is recorded differs"
NO_RERUN = "no job was run again for it"
MOST_TARGETS = 3  # that a title names
MOST_POINTS = 6  # of a change that are told in lines
MOST_VERDICTS = 3  # that are told beside a change
UNIT_FACTORS = (60, 1000, 3600, 10**6, 10**9)  # between units of time
LIKE_A_UNIT = 0.1  # that a level's log may be off


def target(name: str, fell_back: Collection[str]) -> str:
    return report_words.target(name, fell_back=name in fell_back)


def row(series: SeriesKey) -> str:
    """What names a series among those of its target."""
    if series.workload is None:
        return "price"
    values = json.loads(series.parameters or "{}")
    named = " ".join(filter(None, (series.workload, figures.parameters(values))))
    return ", ".join(filter(None, (named, series.dtype)))


def title(change: Change) -> str:
    """One line: what kind of change, where, of what, by how much."""
    names = [target(name, change.fell_back) for name in change.targets]
    if len(names) > MOST_TARGETS:
        names = [*names[: MOST_TARGETS - 1], f"{len(names) - MOST_TARGETS + 1} more"]
    where = " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))
    point = change.points[0]
    kind = change.kind.capitalize()
    if point.metric == "price":
        return f"{kind}: {where}, {movement(point)}"
    if against := point.series.against:
        where = f"{where} over {target(against, change.fell_back)}"
    return f"{kind} on {where}: {_what(change)}, {_by_how_much(change)}"


def _what(change: Change) -> str:
    series = change.points[0].series
    rows = {row_name(point.series) for point in change.points}
    if change.environment:
        return f"{len(rows)} rows together"
    return row(series) if len(rows) == 1 else f"{series.workload}, {len(rows)} rows"


def _by_how_much(change: Change) -> str:
    changes = [point.change for point in change.points]
    middle, low, high = (figures.change(figure(changes)) for figure in (median, min, max))
    return middle if low == high else f"{middle} ({low} to {high})"


def value(amount: float, metric: Metric) -> str:
    """A level or a figure of one run, with its unit."""
    if metric == "time":
        return figures.seconds(amount)
    if metric == "price":
        return figures.usd_per_hour(amount)
    return figures.percent(amount) if metric == "noise" else figures.multiple(amount)


def level(one: Level) -> str:
    """What a level's median rests on."""
    spread = "" if one.spread is None else f"spread {figures.percent(one.spread)}, "
    return f"{spread}{figures.count(one.runs, 'run')}"


def movement(point: ChangePoint) -> str:
    before, after = (value(one.median, point.metric) for one in (point.before, point.after))
    return f"{before} {ARROW} {after}, {figures.change(point.change)}"


def p_value(point: ChangePoint) -> str:
    if point.p_value < SMALLEST_P:
        return f"p < {SMALLEST_P:g}"
    return f"p = {point.p_value:.2g}"


def cause(one: Cause) -> str:
    before, after = (_short(side) for side in (one.before, one.after))
    since = f", since run {one.run_id}" if one.run_id else ""
    return f"{one.name} {before} {ARROW} {after}{since}"


def causes(change: Change) -> list[str]:
    told = [*_unit_hint(change.points[0]), *(cause(one) for one in change.causes)]
    return told or [NO_CAUSE]


def _unit_hint(point: ChangePoint) -> Iterator[str]:
    """A level of 1,000 times the last one is rather milliseconds than slow."""
    if point.metric == "time" and point.before.median and point.after.median:
        moved = math.log(point.after.median / point.before.median)
        for factor in UNIT_FACTORS:
            if abs(abs(moved) - math.log(factor)) < LIKE_A_UNIT:
                how = "as much" if moved > 0 else "less"
                yield f"about {factor:,} times {how}, as if the unit had changed"


def speedup(point: ChangePoint) -> str:
    """A speedup that moved with a time."""
    series = point.series
    return f"speedup of {series.target} over {series.against}, {row(series)}: {movement(point)}"


def cost(change: Change) -> list[str]:
    """What the change costs, as phrases."""
    if change.usd_per_month is None:
        return [change.usd_reason or "unknown"]
    each = "" if len(change.targets) == 1 else " of each target"
    more = "more" if change.usd_per_month > 0 else "less"
    lines = [
        f"{figures.usd(abs(change.usd_per_month))} {more} for what an instance{each} did in a "
        f"month ({HOURS_PER_MONTH} hours)"
    ]
    point = change.points[0]
    price = change.usd_per_hour.get(point.series.target)
    if point.metric == "time" and price is not None:
        before, after = (
            figures.usd(one.median * price / SECONDS_PER_HOUR * MILLION)
            for one in (point.before, point.after)
        )
        lines.append(f"{row(point.series)}: {before} {ARROW} {after} per million calls")
    return lines


def confirmation(one: Confirmation) -> str:
    """The figures behind a verdict."""
    fresh = ", ".join(map(figures.seconds, one.reruns)) or "none"
    hosts = f" on {figures.count(one.hosts, 'instance')}" if one.hosts else ""
    if one.kind == "run" and one.other_hosts is not None:
        hosts += f" ({one.other_hosts or 'none'} other than the run's own)"
    return (
        f"{row(one.series)}: expected {figures.seconds(one.expected)}, measured "
        f"{figures.seconds(one.suspect)}, fresh jobs{hosts} {fresh}"
    )


def suspects(confirmations: Sequence[Confirmation]) -> str:
    """How the re-runs of a run ended."""
    counts = Counter(one.outcome for one in confirmations)
    outcomes: Iterable[Outcome] = get_args(Outcome)
    ended = [f"{counts[one]} {one}" for one in outcomes if counts[one] or one != "unsettled"]
    were = "was" if len(confirmations) == 1 else "were"
    return f"{figures.count(len(confirmations), 'suspect')} {were} re-run: {', '.join(ended)}."


def summary(found: ChangesSection) -> str:
    """What a run changed, in one sentence."""
    series, runs = figures.count(found.series, "series", "series"), figures.count(found.runs, "run")
    looked = f"{series} over up to {runs}"
    if not found.changes:
        return f"Nothing changed: {looked} were looked at."
    counts = Counter(change.kind for change in found.changes)
    kinds = ", ".join(f"{count} {kind}" for kind, count in counts.items())
    return f"{kinds}; {looked} were looked at."


def precision(board: AlertBoard) -> str:
    """How often people found the detector's alerts right."""
    rate = board.precision
    if rate is None:
        return "No alert has been judged yet, so how often they are right is not known."
    return (
        f"Of {figures.count(rate.cases, 'alert')} judged, {rate.hits} "
        f"{'was' if rate.hits == 1 else 'were'} right: {figures.percent(rate.share)}, "
        f"95 % interval {rate.interval}."
    )


def lines(change: Change) -> Iterator[str]:
    """A change in full, below its title."""
    yield from point_lines(change.points, change.fell_back)
    for name, phrases in facts(change):
        yield f"{name}: {'; '.join(phrases)}"


def point_lines(points: Sequence[ChangePoint], fell_back: Collection[str]) -> Iterator[str]:
    """The first series with their levels, and how many more there are."""
    many = len({point.series.target for point in points}) > 1
    for point in points[:MOST_POINTS]:
        name = row(point.series)
        if many:
            name = f"{target(point.series.target, fell_back)}, {name}"
        yield (
            f"{name}: {movement(point)} ({level(point.before)}; then {level(point.after)}; "
            f"{p_value(point)})"
        )
    if (more := len(points) - MOST_POINTS) > 0:
        yield f"and {more} more, on the report's page"


def facts(change: Change) -> Iterator[tuple[str, list[str]]]:
    """What is known of a change beside its series' figures, as name and phrases."""
    first = min(change.points, key=lambda point: point.first_recorded_at)
    yield "suite", [first.series.suite]
    yield (
        "since",
        [
            f"run {first.first_run_id} of {first.first_recorded_at:%Y-%m-%d}",
            f"the last run before was {first.last_run_id}",
        ],
    )
    yield "what differs", causes(change)
    if change.confirmations:
        told = [f"{one.outcome}: {confirmation(one)}" for one in change.confirmations]
        more = len(told) - MOST_VERDICTS
        yield "re-run", told[:MOST_VERDICTS] + ([f"and {more} more"] if more > 0 else [])
    elif first.metric == "time":
        yield "re-run", [NO_RERUN]
    yield "cost", cost(change)
    if change.speedups:
        yield "speedups", [speedup(point) for point in change.speedups]


def _short(side: str | None) -> str:
    """A cause's value, its digests without their tails."""
    if side is None:
        return "none"
    parts = (
        one[: len(DIGEST) + SHOWN_DIGITS] if one.startswith(DIGEST) else one
        for one in side.split(", ")
    )
    return ", ".join(parts)
