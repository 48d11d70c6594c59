"""What page and terminal say of a self-test, in the same words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from batchmark import figures

if TYPE_CHECKING:
    from batchmark.rates import Rate
    from batchmark.self_test_records import Part, SelfTest, Source, Steps

SOURCES: dict[Source, str] = {
    "history": "Copies of the real history",
    "synthetic": "Synthetic histories",
}
NOT_REPLAYED = (
    "Fresh re-runs of suspects can't be replayed: with them the schedule finds large steps sooner "
    "and raises fewer false alarms than is told here."
)


def rate(one: Rate) -> figures.Figure:
    return figures.Figure(
        f"{one.hits} of {one.cases}", f"{figures.percent(one.share)}, {one.interval}"
    )


def size(one: Steps) -> str:
    return f"{100 * one.size:g} %"


def delay(one: Steps) -> str:
    if one.median_delay is None:
        return "-"
    runs = f"{one.median_delay:g} run{'' if one.median_delay == 1 else 's'}"
    first, last = one.delays[0], one.delays[-1]
    return runs if first == last else f"{runs} ({first} to {last})"


def alarms(part: Part) -> str:
    """False alarms in synthetic histories; in real ones nobody knows which are."""
    one = part.alarms
    if one.high is None:
        return "No run could be looked at for alarms."
    what = "Alarms in untouched histories" if part.source == "history" else "False alarms"
    text = (
        f"{what}: {one.alarms} in {one.series_runs} runs of a series, {one.per_thousand:.2g} per "
        f"1,000 (95 % interval {one.low:.2g} to {one.high:.2g})"
    )
    if part.source == "synthetic":
        return f"{text}."
    if one.alarms:
        text += f". Later runs did not bear out {one.withdrawn}; the others may be real changes"
    return f"{text}."


def summary(report: SelfTest) -> list[str]:
    """A line for each suite, or the one that says that there was nothing to test."""
    lines = []
    for suite in report.suites:
        for part in suite.parts:
            found = ", ".join(f"{rate(one.found).value} ({size(one)})" for one in part.of(None))
            told = f"steps found: {found}" if found else "no step could be put"
            lines.append(f"Suite {suite.suite}, {SOURCES[part.source].lower()}: {told}.")
    return lines or ["Nothing to test: the history has no series that is long enough."]
