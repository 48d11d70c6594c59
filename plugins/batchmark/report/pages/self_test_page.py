"""Builds the page for the detector's self-test: steps found, delays and false alarms."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial

import altair as alt

from batchmark.changes.self_test.records import Part, SelfTest, Source, Steps, SuiteTest
from batchmark.changes.shares import Rate
from batchmark.core import formatting
from batchmark.core.formatting import Figure
from batchmark.report.blocks import Block, Chart, Charts, Page, Table, Text
from batchmark.report.charts import layered, lines_of
from batchmark_job.result.confidence import CONFIDENCE_TEXT

SOURCES: dict[Source, str] = {
    "history": "copies of the real history",
    "synthetic": "synthetic histories",
}
READING = (
    "A step makes a series slower by its size, from a known run on. The detector is called after "
    "each run, with all series of the suite; a step counts as found when the detector reports that "
    "series as slower from about that run on.",
    "Steps are planted only where the detector sees no change in the untouched history.",
    "Steps in the same series share its noise, so with few series the intervals are somewhat too "
    "narrow.",
    "Fresh re-runs of suspects can't be replayed: with them the schedule finds large steps sooner "
    "and raises fewer false alarms than stated here.",
)
LEAST_SIZES = 2  # of a chart


def self_test_page(report: SelfTest) -> Page:
    return Page(
        "Self-test of the detector",
        f"Steps of known size in copies of {report.months} months of history, as of "
        f"{formatting.moment(report.created_at)}, seed {report.seed}. Detector: {report.detector}.",
        " ".join(_summary(report)),
        [
            *(block for suite in report.suites for block in _parts(report, suite)),
            *(Text(text) for text in READING if report.suites),
        ],
        [f"Suite {suite.suite}: {note}" for suite in report.suites for note in suite.notes],
        report.notes,
    )


def _summary(report: SelfTest) -> list[str]:
    """Write one sentence per suite and source, or a single one if nothing could be tested."""
    lines = []
    for suite in report.suites:
        for part in suite.parts:
            found = ", ".join(
                f"{_rate(step.found).value} ({_size(step)})" for step in part.of(None)
            )
            result = f"steps found: {found}" if found else "no step could be planted"
            lines.append(f"Suite {suite.suite}, {SOURCES[part.source]}: {result}.")
    return lines or ["Nothing to test: the history has no series that is long enough."]


def _parts(report: SelfTest, suite: SuiteTest) -> Iterator[Block]:
    headings = [f"Found in {report.waited} runs", f"Found in {report.early} runs"]
    headings += ["Runs until found", "Steps found, by number of runs"]
    for part in suite.parts:
        name = f"Suite {suite.suite}, {SOURCES[part.source]}"
        runs = formatting.count(part.runs, "run")
        caption = f"{part.series} series over {runs}. {_alarms(part)}"
        every = part.of(None)
        if not every:
            yield Text(f"{name}: {caption}")
            continue
        if len(every) >= LEAST_SIZES:
            yield Charts(
                f"Share of steps found against their size, with {CONFIDENCE_TEXT} intervals.",
                [Chart(name, partial(_recall, every, headings))],
            )
        rows = [(f"{_size(step)} slower", *_cells(step)) for step in every]
        yield Table(name, caption, ("Step", *headings), rows, wide=True)
        machines = [
            (str(machine), _size(step), *_cells(step))
            for machine in part.machines
            for step in part.of(machine)
        ]
        heads = ("Target", "Step", *headings)
        yield Table(f"{name}, by target", "", heads, machines, folded=True, wide=True)


def _cells(step: Steps) -> tuple[Figure | str, ...]:
    counts = [f"{runs}: {count}" for runs, count in sorted(Counter(step.delays).items())]
    if missed := step.found.cases - step.found.hits:
        counts.append(f"never: {missed}")
    return (_rate(step.found), _rate(step.found_early), _delay(step), ", ".join(counts))


def _rate(rate: Rate) -> Figure:
    return Figure(
        f"{rate.hits} of {rate.cases}", f"{formatting.percent(rate.share)}, {rate.interval}"
    )


def _size(step: Steps) -> str:
    return f"{100 * step.size:g} %"


def _delay(step: Steps) -> str:
    if step.median_delay is None:
        return "-"
    runs = f"{step.median_delay:g} run{'' if step.median_delay == 1 else 's'}"
    first, last = step.delays[0], step.delays[-1]
    return runs if first == last else f"{runs} ({first} to {last})"


def _alarms(part: Part) -> str:
    """State how many alarms were raised; in a real history, it is unknown which are false."""
    found = part.alarms
    if found.high is None:
        return "No run could be checked for alarms."
    what = "Alarms in untouched histories" if part.source == "history" else "False alarms"
    rate, low, high = (
        f"{float(f'{one:.2g}'):g}" for one in (found.per_thousand, found.low, found.high)
    )
    text = (
        f"{what}: {found.alarms} in {found.series_runs} runs of individual series, {rate} per "
        f"1,000 ({CONFIDENCE_TEXT} interval {low} to {high})"
    )
    if part.source == "history" and found.alarms:
        text += f". Later runs did not confirm {found.withdrawn}; the others may be real changes"
    return f"{text}."


def _recall(steps: Sequence[Steps], names: Sequence[str]) -> str:
    """Chart the shares of steps found early and found by the end of the wait, by step size."""
    values = [
        {
            "name": name,
            "size": 100 * step.size,
            "amount": share.share,
            "low": share.low,
            "high": share.high,
            "text": f"{_size(step)}, {name}: {_rate(share)}",
        }
        for step in steps
        for name, share in zip(names, (step.found, step.found_early), strict=False)
    ]
    axis = alt.Axis(values=[100 * step.size for step in steps], format="~g")
    base = lines_of(values, alt.X("size:Q", title="slower by, in %", axis=axis))
    y = alt.Y("amount:Q", title="found", scale=alt.Scale(domain=[0, 1]), axis=alt.Axis(format="%"))
    spans = base.mark_rule(opacity=0.5).encode(y=alt.Y("low:Q"), y2="high:Q")
    marks = base.mark_line(point=True).encode(y=y)
    return layered(spans, marks)
