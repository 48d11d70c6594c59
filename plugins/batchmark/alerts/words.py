"""What an alert says in words, the same in messages, on pages and on the terminal."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from statistics import median
from typing import TYPE_CHECKING

from batchmark import figures

if TYPE_CHECKING:
    from batchmark.change_records import (
        Change,
        ChangePoint,
        Confirmation,
        Level,
        Metric,
        SeriesKey,
    )

SHOWN_SERIES = 3
# Of a p-value; below it the test's own assumptions are what is uncertain.
SMALLEST_CHANCE = 1e-6


def series_label(series: SeriesKey) -> str:
    """What is measured and where, as in 'matmul, size 5000, float32 (blog) on g5.xlarge'."""
    if series.workload is None:
        return f"price of {series.target}"
    parameters = json.loads(series.parameters or "{}")
    parts = (series.workload, figures.parameters(parameters), series.dtype)
    against = f" against {series.against}" if series.against else ""
    what = ", ".join(filter(None, parts))
    return f"{what} ({series.suite}) on {series.target}{against}"


def change_label(change: Change) -> str:
    """The series that moved, or how many there are and of what."""
    if len(change.points) == 1:
        return series_label(change.points[0].series)
    why = " (its environment changed)" if change.environment else ""
    return f"{len(change.points)} series of {', '.join(change.targets)} together{why}"


def change_size(change: Change) -> str:
    """How far it moved; of many series their median and the largest."""
    sizes = [point.change for point in change.points]
    if len(sizes) == 1:
        return figures.change(sizes[0])
    largest = max(sizes, key=abs)
    return f"median {figures.change(median(sizes))}, largest {figures.change(largest)}"


def level(metric: Metric, value: float) -> str:
    if metric == "time":
        return figures.seconds(value)
    if metric == "price":
        return f"{value:.4g} USD an hour"
    return figures.percent(value) if metric == "noise" else figures.times(value)


def levels(point: ChangePoint) -> str:
    """Both medians, each with its spread from run to run and the number of its runs."""
    what = "interquartile range, " if point.metric == "noise" else ""
    medians = " -> ".join(level(point.metric, one.median) for one in (point.before, point.after))
    return f"{medians} ({what}medians of {_runs(point.before)} and {_runs(point.after)})"


def _runs(one: Level) -> str:
    spread = "" if one.spread is None else f" with {figures.percent(one.spread)} spread"
    return f"{one.runs} run{'' if one.runs == 1 else 's'}{spread}"


def chance(p_value: float) -> str:
    """A probability as a share of cases."""
    if p_value > 0.5:
        return "more than half of all cases"
    many = round(float(figures.about(1 / max(p_value, SMALLEST_CHANCE))))
    return f"{'less than ' if p_value < SMALLEST_CHANCE else ''}1 of {many:,} cases"


def confidence(change: Change) -> str:
    """What the statistics and the fresh jobs say."""
    largest = max(point.p_value for point in change.points)
    most = "" if len(change.points) == 1 else "at most "
    return f"Equal levels look so different in {most}{chance(largest)}. {reruns(change)}"


def reruns(change: Change) -> str:
    """How many fresh jobs agree with the change, and on how many instances."""
    if not change.confirmations:
        return "No job was run again for it."
    tried = sum(len(one.reruns) for one in change.confirmations)
    agree = sum(map(agreeing, change.confirmations))
    hosts = {one.hosts for one in change.confirmations}
    known = max((number for number in hosts if number is not None), default=None)
    where = f", on {known} instance{'' if known == 1 else 's'}" if known else ""
    of_series = "" if len(change.confirmations) == 1 else "figures of "
    return f"{agree} of {tried} {of_series}fresh jobs agree{where}."


def agreeing(one: Confirmation) -> int:
    """The number of fresh jobs that are nearer to the suspect's figure than to the old level."""
    return sum(abs(again - one.suspect) < abs(again - one.expected) for again in one.reruns)


def money(change: Change) -> str:
    """What it does to a month's bill, or why that is not known."""
    if change.usd_per_month is None:
        return f"What it costs is not known: {change.usd_reason or 'there is no price'}."
    verb = "Adds" if change.usd_per_month >= 0 else "Saves"
    return f"{verb} {figures.usd(abs(change.usd_per_month))} a month at this schedule."


def causes(change: Change) -> str:
    """What else differs between the last run before and the first one after."""
    if not change.causes:
        return "Nothing else that is recorded differs between the runs before and after."
    named = "; ".join(
        f"{one.name} {one.before or 'none'} -> {one.after or 'none'}" for one in change.causes
    )
    return f"What else differs (a hint, no proof): {named}."


def on_cpu(points: Sequence[ChangePoint], gpu_targets: Collection[str]) -> str | None:
    """Which GPU targets these were measured on a CPU for; None if none."""
    targets = [
        point.series.target
        for point in points
        if point.series.workload
        and point.series.target in gpu_targets
        and point.series.actual_device == "cpu"
    ]
    if not targets:
        return None
    names = ", ".join(dict.fromkeys(targets))
    return f"NOT A GPU'S FIGURE: {names} ran on the CPU, for there was no GPU."


def examples(points: Sequence[ChangePoint]) -> Iterator[str]:
    """The first series with their levels, and how many more there are."""
    for point in points[:SHOWN_SERIES]:
        yield f"{series_label(point.series)}: {figures.change(point.change)}, {levels(point)}"
    if (rest := len(points) - SHOWN_SERIES) > 0:
        yield f"and {rest} more"


def logs(points: Sequence[ChangePoint], log_urls: Mapping[tuple[str, str], str]) -> Iterator[str]:
    """Where to read what the jobs of this run did, by (suite, target); a price has none."""
    jobs = dict.fromkeys(
        (point.series.suite, point.series.target) for point in points if point.metric != "price"
    )
    for suite, target in jobs:
        if url := log_urls.get((suite, target)):
            yield f"Log of {target} ({suite}): {url}"
