"""Shows two targets side by side: as a page, and as CSV, JSON or Markdown to download."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Self

from batchmark.analysis.judging.advice import more_repeats
from batchmark.analysis.pairs.compared_rows import Row, UncomparedRow
from batchmark.analysis.pairs.notes import undecided_intervals
from batchmark.analysis.side_by_side import SideBySide, Verdict, verdict
from batchmark.core import formatting, row_values
from batchmark.core.formatting import Figure
from batchmark.core.intervals import MINIMUM_SAMPLES, Estimate
from batchmark.core.names import told_apart
from batchmark.core.output import csv_text, markdown
from batchmark.core.own_jobs import SHORT_SECONDS
from batchmark.core.row_values import ToldMetric
from batchmark.core.suites import is_own_job
from batchmark.core.version import since
from batchmark.report.machines import environment
from batchmark.report.words import outside_ec2, row_label
from batchmark_job.result.confidence import CONFIDENCE_TEXT

TENFOLD = 9.0  # a relative change; the exact size of a larger one is of no use
UNDECIDED: tuple[Verdict, ...] = ("no difference", "not known yet", "not comparable")
CSV_COLUMNS = (
    "suite",
    "workload",
    "parameters",
    "dtype",
    "first_seconds",
    "first_low",
    "first_high",
    "second_seconds",
    "second_low",
    "second_high",
    "ratio",
    "ratio_low",
    "ratio_high",
    "verdict",
    "smallest_detectable_change",
    "unit",
    "first_value",
    "second_value",
)


class RowView(NamedTuple):
    """A row formatted for display; metrics of users' own jobs are shown in their own units."""

    name: str
    row: Row
    first: Figure
    second: Figure
    word: str
    change: str  # from the second to the first, if it is decided and they are one target

    @classmethod
    def of(cls, row: Row, *, follows: bool) -> Self:
        sides = (row.gpu.median_seconds, row.cpu.median_seconds)
        first, second = (row_values.figure(row.parameters, side, sides) for side in sides)
        told = follows and verdict(row) not in UNDECIDED
        change = formatting.change(relative_change(row, row.speedup.value)) if told else ""
        return cls(row_label(row), row, first, second, _word(row), change)

    @property
    def verdict(self) -> str:
        """The verdict, with the relative change if there is one."""
        return f"{self.word} ({self.change})" if self.change else self.word


@dataclass(frozen=True)
class Comparison:
    """A comparison of two targets in the suites they share; `first` and `second` name the sides."""

    first: str
    second: str
    suites: list[SideBySide]
    follows: bool = True  # whether the first is a later measurement of the second's target
    least_change: float | None = None  # relative; the gate's, which more repeats are to find

    @property
    def rows(self) -> list[Row]:
        return [row for one in self.suites for row in one.rows]

    @property
    def uncompared(self) -> list[UncomparedRow]:
        return [row for one in self.suites for row in one.uncompared]

    @property
    def not_known_yet(self) -> list[Row]:
        """Rows that more samples could decide."""
        return [row for row in self.rows if verdict(row) == "not known yet"]

    @property
    def not_comparable(self) -> list[Row]:
        """Rows that no measurement can decide, because both sides ran on the same CPU."""
        return [row for row in self.rows if verdict(row) == "not comparable"]

    @property
    def answer(self) -> str:
        """A sentence saying in how many rows each side is ahead."""
        if not self.rows:
            reasons = [one.refused for one in self.suites if one.refused]
            shared = any(row.gpu_provenance and row.cpu_provenance for row in self.uncompared)
            reasons.append("no row could be compared" if shared else "no row in common")
            return f"Nothing was compared: {reasons[0]}."
        counts = Counter(map(_word, self.rows))
        of_metrics = sum(map(_is_metric, self.rows))
        parts = []
        if of_metrics < len(self.rows):
            parts.append(f"faster in {counts['faster']}, slower in {counts['slower']}")
        if of_metrics:
            parts.append(f"better in {counts['better']}, worse in {counts['worse']} of its metrics")
        undecided = [f"{word} in {counts[word]}" for word in UNDECIDED if counts[word]]
        ahead = " ".join(filter(None, (f"{self.first} is {', '.join(parts)}", self._since)))
        told = "; ".join([ahead, *undecided])
        return f"Of {formatting.count(len(self.rows), 'row')}, {told}."

    @property
    def names(self) -> tuple[str, str]:
        """The sides' names in tables."""
        return told_apart(self.first, self.second)

    @property
    def ratio(self) -> str:
        """The name of the ratio between the two sides' figures."""
        return "ratio" if any(map(_is_metric, self.rows)) else "speedup"

    @property
    def ratio_meaning(self) -> str:
        if self.ratio == "speedup":
            return f"The speedup is the time of {self.second} / the time of {self.first}."
        return (
            f"The ratio shows how many times better {self.first} is, in time or in the row's "
            "metric, such as throughput."
        )

    @property
    def ratio_caption(self) -> str:
        if self.ratio == "speedup":
            return "Speedup (time of the second / time of the first): above 1, the first is faster"
        return "Ratio: how many times better the first is, in time or in the row's metric"

    @property
    def has_intervals(self) -> bool:
        """Whether any row's ratio has an interval; if so, both sides of that row have one."""
        return any(row.speedup.interval for row in self.rows)

    @property
    def _since(self) -> str:
        """The version since which the answer holds; empty if versions match or can't be ordered."""
        told = (since(one.second.version, one.first.version) for one in self.suites)
        return next(filter(None, told), "") if self.follows else ""

    @property
    def remedy(self) -> str | None:
        """Why rows are undecided and what would decide them; None if all are decided."""
        reasons = [
            f"Not comparable in {formatting.count(count, 'row')}: both targets ran on the same "
            f"CPU, {model}."
            for model, count in Counter(row.same_cpu for row in self.not_comparable).items()
        ]
        if others := self.not_known_yet:
            noisy = [row for row in others if row.speedup.interval]
            reasons += self._noise(noisy)
            if short := len(others) - len(noisy):
                has = "has" if short == 1 else "have"
                reasons.append(
                    f"{formatting.count(short, 'row')} {has} too few samples for an interval and "
                    "can't be judged."
                )
        if reasons:
            reasons.append(f"{self.next_step.capitalize()}.")
        return " ".join(reasons) or None

    @property
    def next_step(self) -> str:
        """The next step towards a verdict on rows without one."""
        if not self.not_known_yet:
            return "compare one target with itself, or with figures from another machine"
        if _all_cold(self.not_known_yet) and not _all_cold(self.rows):
            return (
                "check the trend of cold starts over several runs, as more repeats would run warm"
            )
        repeats = _repeats(self.not_known_yet)
        if repeats < MINIMUM_SAMPLES:
            return f"measure {MINIMUM_SAMPLES} or more repeats per side"
        floor = max(row.noise.floor for row in self.not_known_yet)
        return more_repeats(floor, repeats, short=self._are_short, least_change=self.least_change)

    @property
    def _are_short(self) -> bool:
        return any(
            row.cpu.median_seconds.value < SHORT_SECONDS
            for one in self.suites
            for row in one.rows
            if is_own_job(one.suite) and not _is_metric(row) and verdict(row) == "not known yet"
        )

    def _noise(self, rows: list[Row]) -> Iterator[str]:
        """Say how much identical jobs can differ in undecided rows."""
        if not rows:
            return
        # A user's own job measures one size, so none of them has all rows.
        suites = [one for one in self.suites if not is_own_job(one.suite)]
        counts = [len(side.jobs) for one in suites for side in (one.first, one.second)]
        fewest = min(counts, default=0)
        lacking = sum(_repeats([row]) < fewest for row in rows)
        noisiest = max(rows, key=lambda row: row.noise.critical_change)
        change = noisiest.noise.critical_change
        most = (
            f"up to {formatting.difference_text(change)}"
            if change < TENFOLD
            else "more than tenfold"
        )
        yield (
            f"Not known yet in {formatting.count(len(rows), 'row')}: with "
            f"{formatting.count(_repeats(rows), 'repeat')} per side, identical jobs may differ by "
            f"{most}{f' ({row_label(noisiest)})' if len(rows) > 1 else ''}."
        )
        if lacking:
            yield f"In {lacking} of these, repeats that did not settle were excluded."

    @property
    def remarks(self) -> list[str]:
        """The remedy, the limits of the figures and verdicts, and rows that stand out."""
        undecided = undecided_intervals(self.rows, dollars=False)
        notes = (self.remedy, undecided, self._wider, self._elsewhere)
        return [*filter(None, notes), *self._far_slower()]

    @property
    def _wider(self) -> str | None:
        """Explain intervals of ratios that are wider than those of both figures allow."""
        if not any(map(_is_wider, self.rows)):
            return None
        return (
            f"A {self.ratio}'s interval also allows for noise from job to job: it can be wider "
            "than both figures' intervals suggest."
        )

    @property
    def _elsewhere(self) -> str | None:
        sides = [side for one in self.suites for side in (one.first, one.second) if one.rows]
        if not outside_ec2(sides):
            return None
        models = {side.environment.cpu_model for side in sides if side.environment}
        where = f", on {next(iter(models))}" if len(models) == 1 else ""
        return f"Measured outside EC2{where}: no figure describes an instance type."

    def _far_slower(self) -> Iterator[str]:
        """Yield a sentence for each undecided row that is worse by far more than noise explains."""
        for row in (*self.not_known_yet, *self.not_comparable):
            times = 1 / row.speedup.value
            if times - 1 > max(TENFOLD, row.noise.critical_change):
                factor = formatting.two_digits(times)
                worse = (
                    f"is worse by a factor of {factor}"
                    if _is_metric(row)
                    else f"took {factor} times as long"
                )
                yield f"{self.first}: {row_label(row)} {worse}: investigate this."

    @property
    def differences(self) -> list[tuple[str, str, str]]:
        """Differences between the two environments, each with its name and both values."""
        found: dict[str, tuple[str, str, str]] = {}
        for one in self.suites:
            ours, theirs = environment(one.first), environment(one.second)
            names = dict.fromkeys((*ours, *theirs))
            # Its name ends in Terraform's random suffix, which says nothing about a local machine.
            if outside_ec2((one.first, one.second)):
                names.pop("compute_environment", None)
            for name in names:
                values = ours.get(name) or "not known", theirs.get(name) or "not known"
                if values[0] != values[1]:
                    found[name] = (name.replace("_", " "), *values)
        return list(found.values())

    @property
    def difference_lines(self) -> list[str]:
        return [
            f"Differs: {name} {second} \N{RIGHTWARDS ARROW} {first}"
            for name, first, second in self.differences
        ]

    def views(self) -> Iterator[tuple[SideBySide, list[RowView]]]:
        for one in self.suites:
            yield one, [RowView.of(row, follows=self.follows) for row in one.rows]

    def as_csv(self) -> str:
        rows = (_csv_row(one.suite, row) for one in self.suites for row in one.rows)
        return csv_text((CSV_COLUMNS, *rows))

    def as_json(self) -> str:
        """Return the sides' names, the answer, the remedy and each suite in full, as JSON."""
        return json.dumps(
            {
                "first": self.first,
                "second": self.second,
                "answer": self.answer,
                "remedy": self.remedy,
                "suites": [one.model_dump(mode="json") for one in self.suites],
            },
            indent=2,
        )

    def as_markdown(self, first: Sequence[str] = ()) -> str:
        """Return Markdown for a pull request: `first` (line 1 in bold), answer, table, notes."""
        lines: list[str] = []
        for line in first:
            lines += [markdown(line) if lines else f"**{markdown(line)}**", ""]
        lines += [
            markdown(self.answer),
            "",
            f"| row | {' | '.join(map(markdown, self.names))} "
            f"| {self.ratio}{f' [{CONFIDENCE_TEXT}]' if self.has_intervals else ''} "
            f"| {markdown(self.names[0])} is |",
            "|---|---:|---:|---:|---|",
        ]
        for _, views in self.views():
            for view in views:
                ratio = formatting.factor(view.row.speedup)
                cells = (view.name, view.first, view.second, ratio, view.verdict)
                lines.append(f"| {' | '.join(markdown(str(one)) for one in cells)} |")
        notes = (*self.remarks, *self.difference_lines, self.ratio_meaning)
        lines += ["", *map(markdown, notes)]
        return "\n".join(lines) + "\n"


def _is_wider(row: Row) -> bool:
    first, second, found = row.gpu.median_seconds, row.cpu.median_seconds, row.speedup.interval
    if not (first.interval and second.interval and found):
        return False
    low, high = second.interval.low / first.interval.high, second.interval.high / first.interval.low
    return found.low < low or found.high > high


def relative_change(row: Row, speedup: float) -> float:
    """Return the relative change in a row's time, or in its metric, at a speedup."""
    return row_values.change(row.parameters, 1 / speedup - 1)


def _word(row: Row) -> str:
    """Return a row's verdict in words."""
    return row_values.word(row.parameters, verdict(row))


def _is_metric(row: Row) -> bool:
    return ToldMetric.of(row.parameters) is not None


def _all_cold(rows: Iterable[Row]) -> bool:
    return all(row_values.is_cold(row.parameters) for row in rows)


def _repeats(rows: list[Row]) -> int:
    """Return the smallest number of repeats on either side of any row."""
    return min(min(row.gpu.jobs, row.cpu.jobs) for row in rows)


def _csv_row(suite: str, row: Row) -> list[object]:
    told = ToldMetric.of(row.parameters)
    sides = row.gpu.median_seconds, row.cpu.median_seconds
    seconds = [None if told else side for side in sides]  # a metric has none
    figures = [figure for estimate in (*seconds, row.speedup) for figure in _with_ends(estimate)]
    values = [row_values.value(row.parameters, side.value) for side in sides]
    name = [row.workload, formatting.parameters(row.parameters), row.dtype]
    change = row.noise.smallest_detectable_change
    noise = change if change < 1 else None
    unit = told.unit if told else "s"
    return [suite, *name, *figures, _word(row), noise, unit, *values]


def _with_ends(estimate: Estimate | None) -> tuple[float | None, ...]:
    """Return a figure's value followed by the ends of its interval, each None if unknown."""
    interval = estimate.interval if estimate else None
    ends = (interval.low, interval.high) if interval else (None, None)
    return (estimate.value if estimate else None, *ends)
