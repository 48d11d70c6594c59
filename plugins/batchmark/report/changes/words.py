"""Puts changes into words for pages, terminals and messages alike."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from statistics import median
from typing import get_args

from batchmark.changes.attribution import HOURS_PER_MONTH
from batchmark.changes.conditions import row_name
from batchmark.changes.metric import Metric
from batchmark.changes.records import (
    Cause,
    Change,
    ChangePoint,
    Confirmation,
    Level,
    RerunOutcome,
    SeriesKey,
)
from batchmark.changes.shares import Rate
from batchmark.core import formatting, row_values, version
from batchmark.core.names import row_order, run_name, target_order
from batchmark.core.prices import MILLION, SECONDS_PER_HOUR
from batchmark.core.suites import is_own_job, suite_name
from batchmark.report.change_records import ChangesSection
from batchmark_job.result.confidence import CONFIDENCE_TEXT
from batchmark_job.result.own_job import COLD, START

ARROW = "\N{RIGHTWARDS ARROW}"
SMALLEST_P = 1e-4  # smaller p-values are shown as "< 0.0001"
NO_CAUSE = "nothing recorded changed"
ROWS = (
    "A row is a workload or job at one size, or one of its metrics at that size. A series is a "
    "row's figures on one target, run after run; prices, speedups and noise have series of their "
    "own."
)
# Causes that a title names besides the version; it names the first that changed.
HOST_CAUSES = {
    "driver version": "driver",
    "CUDA version": "CUDA",
    "AMI": "AMI",
    "image": "image",
}
CODE_CAUSES = {"commit", "branch", "label", "image", "image digest"}
NOT_THE_HOST = "a GPU and a CPU target moved together, which speaks against driver and host"
COMMIT = re.compile("[0-9a-f]{7,40}")  # any other text is no part of a command
FIGURES = "figures"
NO_RERUN = "no job was re-run to check it"
MOST_TARGETS = 3  # named in a title
MOST_POINTS = 6  # of a change, written out
MOST_CONFIRMATIONS = 3  # of a change, written out
UNIT_FACTORS = (60, 1000, 3600, 10**6, 10**9)  # between units of time
UNIT_TOLERANCE = 0.1  # of a log ratio of levels, to take it for a factor between units


def target(name: str, fell_back: Collection[str]) -> str:
    return formatting.target_label(name, fell_back=name in fell_back)


def title(change: Change) -> str:
    """Summarise a change in one line: its kind, target, rows and amount."""
    names = [target(name, change.fell_back) for name in change.targets]
    if len(names) > MOST_TARGETS:
        names = [*names[: MOST_TARGETS - 1], f"{len(names) - MOST_TARGETS + 1} more"]
    where = " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))
    point = _told(change)
    what = kind(change).capitalize()
    if point.metric == Metric.PRICE:
        return f"{what}: {where}, {movement(point)}"
    if against := point.series.against:
        where = f"{where} over {target(against, change.fell_back)}"
    told = (f"{what} on {where}: {_what(change)}", _by_how_much(change), _since(change))
    return ", ".join(filter(None, told))


def _since(change: Change) -> str:
    """Name the version, driver or similar that changed at the same time, or return ""."""
    told = version.since(change.version_before, change.version)
    parts = [told] if told else []
    for found in change.causes:
        if found.name in HOST_CAUSES and found.run_id is None and found.before and found.after:
            before, after = (_short(found.name, side) for side in (found.before, found.after))
            begin = "" if parts else "since "
            parts.append(f"{begin}{HOST_CAUSES[found.name]} {after} ({before} before)")
            break
    return " and ".join(parts)


def kind(change: Change) -> str:
    """Return a word such as "slower"; "worse" or "better" if only jobs' own metrics changed."""
    return row_values.word(_told(change).series.values, change.kind)


def _told(change: Change) -> ChangePoint:
    """Return the change's largest point, ignoring jobs' own metrics if there are other points."""
    times = (point for point in change.points if not point.series.is_metric)
    return next(times, change.points[0])


def _what(change: Change) -> str:
    series = change.points[0].series
    starts = {row_name(point.series): point.series.values.get(START) for point in change.points}
    rows, cold = len(starts), [*starts.values()].count(COLD)
    targets = len(change.targets)
    each = " on each" if targets > 1 and len(change.points) == rows * targets else ""
    if change.environment:
        return f"{rows} rows{each} together"
    of_them = f" ({cold} of cold starts)" if 0 < cold < rows else ""
    return series.row if rows == 1 else f"{series.workload}, {rows} rows{each}{of_them}"


def _by_how_much(change: Change) -> str:
    metrics = _told(change).series.is_metric
    points = [point for point in change.points if point.series.is_metric is metrics]
    changes = [point.change for point in points]
    middle, low, high = (share(points[0], figure(changes)) for figure in (median, min, max))
    return middle if low == high else f"{middle} ({low} to {high} by row)"


def value(amount: float, metric: Metric, series: SeriesKey) -> str:
    """Format a level's or a single run's figure with its unit."""
    return value_text(read(amount, metric, series), metric, series)


def read(amount: float, metric: Metric, series: SeriesKey) -> float:
    """Convert a figure to the value shown, which differs only for metrics of users' own jobs."""
    return row_values.value(series.values, amount) if metric == Metric.TIME else amount


def value_text(amount: float, metric: Metric, series: SeriesKey) -> str:
    """Format a value returned by `read`, with its unit."""
    if metric == Metric.TIME:
        return row_values.value_text(series.values, amount)
    if metric == Metric.PRICE:
        return formatting.usd_per_hour(amount)
    return formatting.percent(amount) if metric == Metric.NOISE else formatting.multiple(amount)


def level(level: Level) -> str:
    """Describe the spread and the numbers of runs and fresh jobs behind a level's median."""
    spread = "" if level.spread is None else f"spread {formatting.percent(level.spread)}, "
    fresh = f" and {formatting.count(level.fresh, 'fresh job')}" if level.fresh else ""
    return f"{spread}{formatting.count(level.runs, 'run')}{fresh}"


def movement(point: ChangePoint) -> str:
    levels = (point.before, point.after)
    before, after = (value(level.median, point.metric, point.series) for level in levels)
    drift = "" if point.drift is None else f", drifting by {share(point, point.drift)} a run"
    return f"{before} {ARROW} {after}, {share(point, point.change)}{drift}"


def share(point: ChangePoint, moved: float) -> str:
    """Format a point's relative change, with its sign matching the figures that `read` returns."""
    of_values = point.metric == Metric.TIME
    return formatting.change(row_values.change(point.series.values, moved) if of_values else moved)


def p_value(point: ChangePoint) -> str:
    if point.common:
        return "detected across the target's rows"
    if point.p_value < SMALLEST_P:
        return f"p < {SMALLEST_P:g}"
    return f"p = {point.p_value:.2g}"


def cause(cause: Cause) -> str:
    before, after = (_short(cause.name, side) for side in (cause.before, cause.after))
    since = f", since run {cause.run_id}" if cause.run_id else ""
    return f"{cause.name} {before} {ARROW} {after}{since}"


def causes(change: Change) -> list[str]:
    found = differences(change.causes, _unit_hint(change.points[0]))
    return [*found, NOT_THE_HOST] if _moved_with_code(change) else found


def _moved_with_code(change: Change) -> bool:
    """Return whether instances with and without a GPU moved, and only the code differs."""
    devices = {one.series.actual_device for one in change.points if one.series.instance_type}
    names = {cause.name for cause in change.causes}
    return len(devices) > 1 and bool(names) and names <= CODE_CAUSES and not change.fell_back


def differences(found: Iterable[Cause], hints: Iterable[str] = ()) -> list[str]:
    return [*hints, *(cause(one) + _git_log(one) for one in found)] or [NO_CAUSE]


def _git_log(cause: Cause) -> str:
    """Return the command that lists what went in between two commits; empty for other causes."""
    if not cause.name.startswith("commit"):
        return ""
    commits = [_short("commit", side) for side in (cause.before, cause.after)]
    known = all(map(COMMIT.fullmatch, commits))
    return f" (git log {'..'.join(commits)})" if known else ""


def _unit_hint(point: ChangePoint) -> Iterator[str]:
    """Suggest that the unit changed if levels differ by a factor such as 1,000."""
    timed = point.metric == Metric.TIME and not point.series.is_metric
    if timed and point.before.median and point.after.median:
        moved = math.log(point.after.median / point.before.median)
        for factor in UNIT_FACTORS:
            if abs(abs(moved) - math.log(factor)) < UNIT_TOLERANCE:
                how = "as much" if moved > 0 else "less"
                yield f"about {factor:,} times {how}, as if the unit had changed"


def speedup(point: ChangePoint) -> str:
    """Describe a speedup that changed along with a time."""
    series = point.series
    return f"speedup of {series.target} over {series.against}, {series.row}: {movement(point)}"


def cost(change: Change) -> list[str]:
    """Say what the change costs per job or million calls, where known, and per month."""
    if change.usd_per_month is None:
        return [change.usd_reason or "unknown"]
    lines = []
    point = _told(change)
    price = change.usd_per_hour.get(point.series.target)
    if point.metric == Metric.TIME and price is not None:
        whole = is_own_job(point.series.suite)
        calls, of = (1, "a job") if whole else (MILLION, "a million calls")
        before, after = (
            formatting.usd(level.median * price / SECONDS_PER_HOUR * calls)
            for level in (point.before, point.after)
        )
        where = _where(change, point.series)
        lines.append(f"{of}: {before} {ARROW} {after}, {where}{point.series.row}")
    each = " of each target" if len(change.targets) > 1 else ""
    more = "more" if change.usd_per_month > 0 else "less"
    does = "ran" if point.metric == Metric.PRICE else "did only this work"
    rows = {row_name(point.series) for point in change.points if not point.series.is_metric}
    shares = f", the times of {len(rows)} rows in equal shares" if len(rows) > 1 else ""
    lines.append(
        f"a month: {formatting.usd(abs(change.usd_per_month))} {more}, if an instance{each} {does} "
        f"for all {HOURS_PER_MONTH} hours{shares}"
    )
    return lines


def _by_row(found: Confirmation) -> tuple[list[str | float], list[str | float]]:
    """Return a sort key that keeps a row's targets together."""
    return row_order(row_name(found.series)), target_order(found.series.target)


def _where(change: Change, series: SeriesKey) -> str:
    """Return what precedes a row: the series' target, if the change has several."""
    return f"{target(series.target, change.fell_back)}, " if len(change.targets) > 1 else ""


def confirmation(found: Confirmation) -> str:
    """Describe the figures behind a re-run's outcome."""
    expected, suspect, *reruns = (
        row_values.text(found.series.values, figure)
        for figure in (found.expected, found.suspect, *found.reruns)
    )
    fresh = ", ".join(reruns) or "none"
    hosts = f" on {formatting.count(found.hosts, 'instance')}" if found.hosts else ""
    if found.kind == "run" and found.other_hosts is not None:
        hosts += f" ({found.other_hosts or 'none'} other than the run's own)"
    return (
        f"{found.series.row}: expected {expected}, measured {suspect}; fresh jobs{hosts}: {fresh}"
    )


def suspects(confirmations: Sequence[Confirmation]) -> str:
    counts = Counter(confirmation.outcome for confirmation in confirmations)
    outcomes: Iterable[RerunOutcome] = get_args(RerunOutcome)
    ended = [
        f"{counts[outcome]} {outcome}"
        for outcome in outcomes
        if counts[outcome] or outcome != "unsettled"
    ]
    were = "was" if len(confirmations) == 1 else "were"
    return f"{formatting.count(len(confirmations), 'suspect')} {were} re-run: {', '.join(ended)}."


def summary(found: ChangesSection) -> str:
    if early := found.too_early:
        return early
    series, runs = (
        formatting.count(found.series, "series", "series"),
        formatting.count(found.runs, "run"),
    )
    if not found.changes:
        return f"Nothing changed in {series} over up to {runs}."
    counts = Counter(map(kind, found.changes))
    kinds = ", ".join(f"{count} {kind}" for kind, count in counts.items())
    points = [point for change in found.changes for point in (*change.points, *change.speedups)]
    moved = len({(point.series, point.metric) for point in points})
    first = min(point.since for point in points)
    since = "since" if len(found.changes) == 1 else "the first since"
    return f"{kinds}, {since} {first:%Y-%m-%d}: {moved} of {series} changed, over up to {runs}."


def precision(rate: Rate | None) -> str:
    """Say what proportion of alerts turned out to be right."""
    if rate is None:
        return "No alerts have been judged yet, so it is not known how often they are right."
    return (
        f"Of {formatting.count(rate.cases, 'alert')} judged, {rate.hits} "
        f"{'was' if rate.hits == 1 else 'were'} right: {formatting.percent(rate.share)}, "
        f"{CONFIDENCE_TEXT} interval {rate.interval}."
    )


def lines(change: Change) -> Iterator[str]:
    """Describe a change in full, without its title."""
    yield from point_lines(change.points, change.fell_back)
    for name, phrases in facts(change):
        yield f"{name}: {'; '.join(phrases)}"


def point_lines(points: Sequence[ChangePoint], fell_back: Collection[str]) -> Iterator[str]:
    """Describe the first few series with their levels, and say how many more there are."""
    many = len({point.series.target for point in points}) > 1
    for point in points[:MOST_POINTS]:
        name = point.series.row
        if many:
            name = f"{target(point.series.target, fell_back)}, {name}"
        yield (
            f"{name}: {movement(point)} ({level(point.before)}; then {level(point.after)}; "
            f"{p_value(point)})"
        )
    if (more := len(points) - MOST_POINTS) > 0:
        yield f"and {more} more, listed on the report page"


def facts(change: Change) -> Iterator[tuple[str, list[str]]]:
    """Yield what is known about a change, besides each row's figures, as named lists of phrases."""
    first = min(change.points, key=lambda point: point.first_recorded_at)
    yield "suite", [first.series.suite]
    yield (
        "since",
        [
            f"{first_run(change)} ({first.first_run_id})",
            f"the last run before was {first.last_run_id}",
        ],
    )
    before, after = (formatting.count(side.runs, "run") for side in (first.before, first.after))
    yield FIGURES, [f"the median of {after} since, against that of {before} before"]
    yield "what differs", causes(change)
    if change.confirmations:
        reruns = [
            f"{found.outcome}: {_where(change, found.series)}{confirmation(found)}"
            for found in sorted(change.confirmations, key=_by_row)
        ]
        more = len(reruns) - MOST_CONFIRMATIONS
        shown = reruns[:MOST_CONFIRMATIONS] + ([f"and {more} more"] if more > 0 else [])
        if len(reruns) < len(change.points):
            shown.insert(0, f"{len(reruns)} of {len(change.points)} series were measured again")
        yield "re-run", shown
    elif first.metric == Metric.TIME:
        yield "re-run", [NO_RERUN]
    yield "cost", cost(change)
    if change.speedups:
        yield "speedups", [speedup(point) for point in change.speedups]


def first_run(change: Change) -> str:
    """Name the first run with the change."""
    first = min(change.points, key=lambda point: point.first_recorded_at)
    when, suite = f"{first.since:%Y-%m-%d}", suite_name(first.series.suite)
    return run_name(first.first_run_id, when, suite)


def _short(name: str, side: str | None) -> str:
    """Return a cause's value with any digests shortened, or "none" if there is no value."""
    if side is None:
        return "none"
    return ", ".join(version.shortened(name, part) for part in side.split(", "))
