"""What pages, terminal and messages say of a change, in the same words."""

from __future__ import annotations

import json
from collections import Counter
from statistics import median
from typing import TYPE_CHECKING, get_args

from batchmark import figures
from batchmark.change_records import Outcome
from batchmark.cost import MILLION, SECONDS_PER_HOUR
from batchmark.rates import Rate

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
MINUS = "\N{MINUS SIGN}"
DIGEST = "sha256:"
SHOWN_DIGITS = 12  # of a digest, as Docker shows it
SMALLEST_P = 1e-4  # that is written out
NO_CAUSE = "nothing that is recorded differs"
MOST_TARGETS = 3  # that a title names
MOST_VERDICTS = 3  # that are told beside a change


def signed(change: float) -> str:
    sign = "+" if change > 0 else MINUS if change < 0 else ""
    return sign + figures.percent(abs(change))


def target(name: str, fell_back: Collection[str]) -> str:
    """Its name, never without what it ran on instead."""
    return f"{name} (ran on the CPU)" if name in fell_back else name


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
    rows = {(one.series.workload, one.series.parameters, one.series.dtype) for one in change.points}
    if change.environment:
        return f"{len(rows)} rows together"
    return row(series) if len(rows) == 1 else f"{series.workload}, {len(rows)} rows"


def _by_how_much(change: Change) -> str:
    changes = [point.change for point in change.points]
    middle, low, high = (signed(figure(changes)) for figure in (median, min, max))
    return middle if low == high else f"{middle} ({low} to {high})"


def value(amount: float, metric: Metric) -> str:
    """A level or a figure of one run, with its unit."""
    if metric == "time":
        return figures.seconds(amount)
    if metric == "price":
        return f"${amount:.4g} an hour"
    return figures.percent(amount) if metric == "noise" else figures.multiple(amount)


def level(one: Level) -> str:
    """What a level's median rests on."""
    spread = "" if one.spread is None else f"spread {figures.percent(one.spread)}, "
    return f"{spread}{_count(one.runs, 'run')}"


def movement(point: ChangePoint) -> str:
    before, after = (value(one.median, point.metric) for one in (point.before, point.after))
    return f"{before} {ARROW} {after}, {signed(point.change)}"


def p_value(point: ChangePoint) -> str:
    if point.p_value < SMALLEST_P:
        return f"p < {SMALLEST_P:g}"
    return f"p = {point.p_value:.2g}"


def cause(one: Cause) -> str:
    before, after = (_short(side) for side in (one.before, one.after))
    since = f", since run {one.run_id}" if one.run_id else ""
    return f"{one.name} {before} {ARROW} {after}{since}"


def causes(change: Change) -> list[str]:
    return [cause(one) for one in change.causes] or [NO_CAUSE]


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
        "month (730 hours)"
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
    hosts = f" on {_count(one.hosts, 'instance')}" if one.hosts else ""
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
    return f"{_count(len(confirmations), 'suspect')} {were} re-run: {', '.join(ended)}."


def summary(found: ChangesSection) -> str:
    """What a run changed, in one sentence."""
    looked = f"{_count(found.series, 'series', 'series')} over up to {_count(found.runs, 'run')}"
    if not found.changes:
        return f"Nothing changed: {looked} were looked at."
    counts = Counter(change.kind for change in found.changes)
    kinds = ", ".join(f"{count} {kind}" for kind, count in counts.items())
    return f"{kinds}; {looked} were looked at."


def precision(board: AlertBoard) -> str:
    """How often people found the detector's alerts right."""
    if not board.judged:
        return "No alert has been judged yet, so how often they are right is not known."
    rate = Rate.of(board.right, board.judged)
    return (
        f"Of {_count(board.judged, 'alert')} judged, {board.right} "
        f"{'was' if board.right == 1 else 'were'} right: {figures.percent(rate.share)}, "
        f"95 % interval {rate.interval}."
    )


def facts(change: Change) -> Iterator[tuple[str, list[str]]]:
    """What is known of a change beside its series' figures, as name and phrases."""
    first = min(change.points, key=lambda point: point.first_recorded_at)
    yield "since", [f"run {first.first_run_id} of {first.first_recorded_at:%Y-%m-%d}"]
    yield "what differs", causes(change)
    if change.confirmations:
        told = [f"{one.outcome}: {confirmation(one)}" for one in change.confirmations]
        more = len(told) - MOST_VERDICTS
        yield "re-run", told[:MOST_VERDICTS] + ([f"and {more} more"] if more > 0 else [])
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


def _count(number: int, singular: str, plural: str | None = None) -> str:
    return f"{number} {singular if number == 1 else plural or singular + 's'}"
