"""Shows every series over its latest runs, with alerts and environment changes marked."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import pairwise
from typing import Literal, NamedTuple

import numpy as np

from batchmark.analysis.published import OTHERS
from batchmark.changes.alerts.records import Alert
from batchmark.changes.conditions import RunConditions, differences, row_name, versions
from batchmark.changes.evidence import LEAST_BEFORE
from batchmark.changes.metric import Metric
from batchmark.changes.records import Level, Series, SeriesKey
from batchmark.changes.standing import LEAST_ON_LEVEL, Standing
from batchmark.changes.suspects import runs_missing
from batchmark.core import formatting
from batchmark.core.names import row_order, run_name, target_order
from batchmark.core.row_values import ToldMetric, is_cold
from batchmark.core.suites import SCALING, is_own_job
from batchmark.core.version import since
from batchmark.report.blocks import grouped
from batchmark.report.changes import words as change_words
from batchmark.report.words import NOT_KNOWN, extent
from batchmark_job.result.own_job import START

METRICS: dict[Metric, str] = {
    Metric.TIME: "time of a call or a job",
    Metric.SPEEDUP: "speedup, CPU time / GPU time",
    Metric.PRICE: "price of the instance",
    Metric.NOISE: "noise within a run",
}
FEWEST_RUNS, MOST_RUNS = 60, 1000  # drawn
MARGIN = 0.06  # of a chart's width and height
LEAST_RANGE = 0.05  # of the values, relative to their median: less would make noise look large
MarkKind = Literal["alert", "release"]
MARKS: dict[MarkKind, str] = {
    "alert": "alert",
    "release": "change of image, driver, AMI, price or the like",
}


class Mark(NamedTuple):
    """An alert or environment change at a run, in words."""

    place: int  # of the run among those drawn
    kind: MarkKind
    text: str
    names: tuple[str, ...] = ()  # of the things that changed


class Run(NamedTuple):
    run_id: str
    day: str
    value: float
    text: str
    version: str = ""  # the version it measured, in words


@dataclass(frozen=True)
class Trend:
    """A series across the runs on the chart, oldest first."""

    key: SeriesKey
    metric: Metric
    runs: list[Run]
    marks: list[Mark]
    standing: Standing  # of the latest run
    fell_back: bool = False
    missed: bool = False  # whether the suite's newest run lacks it
    since: str = ""  # the version of its last change

    @property
    def id(self) -> str:
        return series_id(self.key)

    @property
    def name(self) -> str:
        return self.key.row if self.key.workload else self.key.target

    @property
    def target(self) -> str:
        """The target, along with any target it is compared with."""
        target = formatting.target_label(self.key.target, fell_back=self.fell_back)
        if not self.key.against:
            return target
        return f"{target.removesuffix(f', {OTHERS}')} over {self.key.against}"

    @property
    def measures(self) -> str:
        """What the figures measure; for a metric of a user's own job, its name and unit."""
        told = ToldMetric.of(self.key.values) if self.metric == Metric.TIME else None
        return ", ".join(filter(None, told[:2])) if told else METRICS[self.metric]

    @property
    def latest(self) -> Run:
        return self.runs[-1]

    @property
    def before(self) -> str:
        """The latest verdict, whether the newest run lacks the series, and the last change."""
        word, level, point = self.standing
        parts = ["not measured in the newest run"] if self.missed else []
        if level and word != "a change":
            parts.append(self._against(level))
        if not (parts or level):
            parts.append("first run")
        if point:
            old, new = (
                change_words.value(level.median, point.metric, point.series)
                for level in (point.before, point.after)
            )
            share = change_words.share(point, point.change)
            parts.append(f"level {new} since {point.since:%Y-%m-%d}, {share} from {old}")
            parts += [self.since] if self.since else []
        return "; ".join(parts)

    def _against(self, level: Level) -> str:
        """Describe the latest run's difference from the previous level, with its verdict."""
        value = change_words.read(level.median, self.metric, self.key)
        if self.standing.word is None:
            return f"{self._text(value)} before"
        share = formatting.change(self.latest.value / value - 1)
        return f"{share} against the previous median, {self._text(value)}, {self.standing.word}"

    @property
    def points(self) -> list[tuple[float, float]]:
        """Each run's position, as percentages of the chart's width and height."""
        values = np.array([run.value for run in self.runs])
        low, high = self._range(values)
        last = max(1, len(self.runs) - 1)
        return [
            (
                _percent(place / last),
                _percent(1 - float(np.clip((value - low) / (high - low), 0, 1))),
            )
            for place, value in enumerate(values)
        ]

    @property
    def rows(self) -> list[tuple[Run, list[Mark]]]:
        """The runs, latest first, each with its marks."""
        at = grouped((mark.place, mark) for mark in self.marks)
        return [(run, at.get(place, [])) for place, run in reversed(list(enumerate(self.runs)))]

    @property
    def released(self) -> str:
        """The names of whatever changed at the chart's dashed lines."""
        names = dict.fromkeys(name for mark in self.marks for name in mark.names)
        return formatting.shortened_list(list(names))

    @property
    def _is_published(self) -> bool:
        """Whether the series is from the published table, which is dated by when we read it."""
        return self.key.target.endswith(OTHERS)

    def when(self, run: Run) -> str:
        return f"read on {run.day[:10]}" if self._is_published else run.day

    def run_name(self, run: Run) -> str:
        return run_name(run.run_id, self.when(run))

    def place(self, mark: Mark) -> float:
        return _percent(mark.place / max(1, len(self.runs) - 1))

    @property
    def span(self) -> str:
        """The range of values, the number of runs, and the first run's date."""
        values = extent((run.value for run in self.runs), self._text)
        runs = formatting.count(len(self.runs), "run")
        since = ", read on" if self._is_published else " since"
        return f"{values}; {runs}{since} {self.runs[0].day[:10]}"

    def _text(self, value: float) -> str:
        return change_words.value_text(value, self.metric, self.key)

    @staticmethod
    def _range(values: np.ndarray) -> tuple[float, float]:
        low, high = float(values.min()), float(values.max())
        missing = max(0.0, LEAST_RANGE * float(np.median(values)) - (high - low)) / 2
        missing = missing or (0.5 if low == high else 0.0)
        return low - missing, high + missing

    @property
    def summary(self) -> str:
        """A text alternative for the chart."""
        marks = f"; {formatting.count(len(self.marks), 'mark')}" if self.marks else ""
        return (
            f"{self.name}, {self.target}: {formatting.count(len(self.runs), 'run')}, latest "
            f"{self.latest.text}, {self.before}{marks}"
        )


def summary(found: Sequence[Trend], suite: str, metric: Metric) -> str:
    """Summarise the trends in a sentence or two."""
    if not found:
        what = f"Suite {suite} has no {METRICS[metric]} yet." if suite else "The history is empty."
        return f"{what} Trends start with the first run's results."
    longest = max(len(trend.runs) for trend in found)
    alerted = sum(any(mark.kind == "alert" for mark in trend.marks) for trend in found)
    told = f"{alerted} with an alert" if alerted else "none with an alert"
    text = f"{len(found)} series over up to {formatting.count(longest, 'run')}, {told}."
    if is_own_job(suite) and not alerted and (missing := runs_missing(longest)):
        return f"{text} {missing}"
    if any(trend.standing.word == NOT_KNOWN for trend in found):
        text += (
            f' A newest run reads "{NOT_KNOWN}" until {LEAST_BEFORE} runs came before it, '
            f"{LEAST_ON_LEVEL} of them on its level."
        )
    return text


def series_id(key: SeriesKey) -> str:
    """Return the id used for a series in page addresses."""
    return sha256(key.model_dump_json().encode()).hexdigest()[:12]


def trends(
    histories: Iterable[Series],
    alerts: Sequence[Alert],
    conditions: Mapping[tuple[str, str], RunConditions],
    *,
    standings: Mapping[SeriesKey, Standing],
    most_runs: int = FEWEST_RUNS,
    newest: str | None = None,
) -> list[Trend]:
    """Build a trend for every series with a usable figure, sorted by row and target, cold last.

    `standings` contains the verdict on each series' newest run. `newest` is the suite's newest
    run; unless it is None, series that it did not measure are marked.
    """
    at_series = grouped(
        ((point.series, point.metric), (point, alert))
        for alert in alerts
        for point in alert.change.points
    )

    found = []
    for history in histories:
        kept = history.usable()[-most_runs:]
        if not len(kept):
            continue
        runs = [
            Run(
                history.run_ids[place],
                formatting.moment(history.began_at(place)),
                change_words.read(float(history.values[place]), history.metric, history.key),
                change_words.value(float(history.values[place]), history.metric, history.key),
                str(measured.version) if measured else "",
            )
            for place in kept
            for measured in [conditions.get((history.run_ids[place], history.key.target))]
        ]
        places = {run.run_id: place for place, run in enumerate(runs)}
        marks = [
            Mark(
                places[point.first_run_id],
                "alert",
                f"alert {alert.id} ({alert.state}), told as "
                f"{change_words.share(point, point.change)}",
            )
            for point, alert in at_series.get((history.key, history.metric), ())
            if point.first_run_id in places
        ]
        marks += _releases(history.key, runs, conditions)
        missed = newest not in (None, runs[-1].run_id)
        point = standings[history.key].point
        trend = Trend(
            history.key,
            history.metric,
            runs,
            sorted(marks),
            standings[history.key],
            history.fell_back,
            missed,
            since(*versions(point, conditions)) if point else "",
        )
        found.append(trend)
    return sorted(
        found,
        key=lambda one: (is_cold(one.key.values), row_order(one.name), target_order(one.target)),
    )


def _releases(
    key: SeriesKey, runs: Sequence[Run], conditions: Mapping[tuple[str, str], RunConditions]
) -> list[Mark]:
    """Mark where the image, driver, AMI, price or the like changed."""
    marks = []
    for place, (before, after) in enumerate(pairwise(runs), start=1):
        one, other = (conditions.get((run.run_id, key.target)) for run in (before, after))
        if one is None or other is None:
            continue
        if causes := list(differences(one, other, row_name(key))):
            text = "; ".join(map(change_words.cause, causes))
            marks.append(Mark(place, "release", text, tuple(cause.name for cause in causes)))
    return marks


def median_speedups(found: Iterable[Series]) -> list[Series]:
    """Compute the median speedup across rows, as one series per pair of targets.

    Of each row's newest runs, only those that measured the most rows count. Cold starts of
    users' own jobs are left out, because they occur at different sizes from run to run.
    """
    warm = (one for one in found if not is_cold(one.key.values))
    pairs = grouped((one.key.machine, one) for one in warm if one.usable().size)
    return [_median_speedup(pair, rows) for pair, rows in pairs.items()]


def unpaired(found: Iterable[Trend], measured: Iterable[tuple[str, str]]) -> list[str]:
    """Say why targets have no speedup, one line per suite; `measured` pairs suites with targets.

    Multi-node suites and users' own jobs are skipped, because they need no GPU and CPU in the same
    run.
    """
    paired = {(one.key.suite, name) for one in found for name in (one.key.target, one.key.against)}
    left = grouped(sorted(set(measured) - paired, key=lambda one: (one[0], target_order(one[1]))))
    return [
        f"No speedup for {formatting.shortened_list(targets)} in suite {suite}: it takes a GPU and "
        "a CPU in one run, and a GPU target that ran on the CPU doesn't count."
        for suite, targets in left.items()
        if suite != SCALING and not is_own_job(suite)
    ]


def _median_speedup(pair: SeriesKey, rows: Sequence[Series]) -> Series:
    figures = grouped(
        (row.run_ids[place], (row.recorded_at[place], row.values[place]))
        for row in rows
        for place in row.usable()[-FEWEST_RUNS:]
    )
    most = max(map(len, figures.values()))
    whole = {run_id: of_run for run_id, of_run in figures.items() if len(of_run) == most}
    noun = "warm row" if any(START in row.key.values for row in rows) else "row"
    return Series(
        pair.model_copy(update={"parameters": formatting.count(most, noun)}),
        Metric.SPEEDUP,
        list(whole),
        np.array([at for (at, _), *_ in whole.values()]),
        np.array([np.median([value for _, value in of_run]) for of_run in whole.values()]),
        began=rows[0].began,
    )


def _percent(share: float) -> float:
    return round(100 * (MARGIN + (1 - 2 * MARGIN) * share), 2)
