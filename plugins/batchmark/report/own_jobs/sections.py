"""Builds a section for each of the user's jobs: charts, tables, unreadable metric lines, jobs."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import NamedTuple, TypeVar

from batchmark.analysis.own_jobs.records import (
    DeadlineStep,
    JobFigure,
    JobSide,
    MetricFigure,
    OwnJobStudy,
    Place,
)
from batchmark.core import formatting
from batchmark.core.intervals import MINIMUM_SAMPLES, Estimate
from batchmark.core.row_values import ToldMetric
from batchmark.report import blocks, machines
from batchmark.report.blocks import ColumnValue, ComparedFigure, Form, Table
from batchmark.report.model import Report
from batchmark.report.own_jobs import standings, words
from batchmark.report.own_jobs.charts import job_charts
from batchmark.report.own_jobs.sentences import step_names
from batchmark.report.own_jobs.standings import Win
from batchmark.report.words import (
    NO_DIFFERENCE,
    NOT_COMPARABLE,
    NOT_KNOWN,
    measured_target,
    outside_ec2,
)
from batchmark_job.result.confidence import CONFIDENCE_TEXT

T = TypeVar("T")
VERDICT, OVER_FASTEST, OVER_BEST = "Verdict", "Over the fastest", "The best is"
MEANINGS = {
    OVER_FASTEST: "Over the fastest: how many times as long.",
    OVER_BEST: "The best is how many times better than the side in that row.",
    "A job": "Dollars are at the whole instance's On-Demand price, however it was bought, as if "
    "nothing else ran on it.",
}
AXIS = ""  # stands for the axis's name, which may be another column's
MOST_ROWS = 12  # of metrics; more are folded, as the first screen has their answer


def sections(report: Report) -> Iterator[blocks.Section]:
    for number, study in enumerate(report.of(OwnJobStudy), start=1):
        shown = [*_blocks(study), _jobs(study, report)]
        title = f"{study.name} on {formatting.shortened_list(list(words.names(study).values()))}"
        yield blocks.Section(f"own-job-{number}", title, shown)
    if outside_ec2(report.targets):
        yield from _on_aws(report)


def _on_aws(report: Report) -> Iterator[blocks.Section]:
    """Explain how to run the jobs on AWS if they have run only outside EC2 so far."""
    jobs = [one for one in report.of(OwnJobStudy) if not one.existing]
    if jobs:
        names = [f"own_jobs.{one.name}" for one in jobs if not words.in_a_registry(one)]
        change = (
            f"Change the image of {formatting.shortened_list(names)} in your file to its full name "
            "there, such as 111122223333.dkr.ecr.us-east-1.amazonaws.com/name:1."
            if names
            else "Your file has its full name already."
        )
        file = shlex.quote(report.jobs_file or "/path/to/job.tfvars")
        steps = [
            (
                "1. Push the image to your registry",
                f"{change} Only one that uses the GPU is faster on it: images = {{ cpu = ..., cuda "
                "= ... }.",
            ),
            (
                "2. Apply the file in terraform/, after terraform init",
                f"terraform apply -var-file=examples/minimal.tfvars -var-file={file}",
            ),
            (
                "3. Deploy Airflow",
                "On this machine: make containers-up PROFILE=aws, see docs/containers.md. "
                'Elsewhere: "Deploy" in docs/runbook.md. Quotas, permissions: docs/first-apply.md.',
            ),
            (
                "4. Trigger Own job benchmark, first with dry_run",
                'For more, see "On AWS" in docs/own-jobs.md.',
            ),
        ]
        yield blocks.Section("aws", "On AWS", [blocks.Facts("", steps)])


def _blocks(study: OwnJobStudy) -> Iterator[blocks.Block]:
    about = (
        f"Suite {study.suite}",
        words.image(study),
        words.versions(study),
        words.prices(study),
    )
    yield blocks.Text(" ".join(f"{text}." for text in about if text))
    of = words.charted(study)
    bands = (
        f"; bands and bars are {CONFIDENCE_TEXT} intervals" if words.has_intervals(study) else ""
    )
    yield blocks.Charts(
        f"Medians over the jobs, all axes logarithmic{bands}{f', {of}' if of else ''}.",
        job_charts(study),
    )
    yield from tables(study)
    yield blocks.Remarks(list(words.remarks(study)))
    for side in study.sides:
        if told := words.bad_lines(side):
            lines = [
                (f"{words.place_of(line)}: {line.problem}", line.text) for line in side.bad_lines
            ]
            yield blocks.Lines(f"{told}: which, and why", lines, side.bad_lines_left_out)


def _jobs(study: OwnJobStudy, report: Report) -> blocks.Folded:
    targets = [side.target for side in study.sides]
    starts = [side.cold_start for side in study.sides if side.cold_start]
    on_ec2 = any(job.instance_type for target in targets for job in target.jobs)
    jobs = machines.job_lines(targets, report.cost.jobs, words.job_places(study))
    return blocks.Folded(
        "Cold starts, machines, jobs" if starts else "Machines, jobs",
        [
            blocks.ColdStarts(starts, words.names(study), on_ec2),
            machines.Machines.of(targets),
            blocks.Jobs(jobs),
        ],
    )


def tables(study: OwnJobStudy) -> Iterator[Table]:
    """Yield tables of times, metrics and deadlines, separately for each kind of start."""
    found = standings.places(study)
    for start in dict.fromkeys(place.start for place in found):
        own = [place for place in found if place.start == start]
        for table in (_sides(study, own), _metrics(study, own), _deadlines(study, own)):
            if table:
                names = [(study.axis or "") if name == AXIS else name for name in table.headings]
                yield table._replace(headings=names, wide=True)


def _sides(study: OwnJobStudy, own: Sequence[Place]) -> Table | None:
    priced = any(figure.usd_per_job for _, figure in words.figures(study))
    intervals = f", with {CONFIDENCE_TEXT} intervals" if words.has_intervals(study) else ""
    few = f" A median of fewer than {MINIMUM_SAMPLES} jobs has no interval."
    return _table(
        _title("Time and price" if priced else "Time", own),
        f"Medians over the jobs{intervals}: from a container's start to its stop, with separate "
        f"columns for waiting and the command alone.{few if words.lacks_intervals(study) else ''}",
        [
            _Timed(side, figure, win)
            for place in own
            for win in [next(standings.by_time(study, [place]), None)]
            for side, figure in standings.measured(study, place)
        ],
        {
            AXIS: lambda row: _at(study, row.figure.place),
            "Target": lambda row: measured_target(row.side.target),
            "Time": lambda row: row.compared(row.figure.seconds, formatting.time),
            OVER_FASTEST: lambda row: row.compared(
                _lead(study, row.win, row.side), formatting.factor
            ),
            "A job": lambda row: row.compared(row.figure.usd_per_job, formatting.usd_figure),
            VERDICT: lambda row: row.win and _verdict(study, row.win, row.side),
            "Command alone": lambda row: _seconds(row.figure.command_seconds),
            "Waiting": lambda row: _seconds(row.figure.waiting_seconds),
            "Jobs": lambda row: row.figure.jobs,
        },
    )


def _table(
    title: str,
    caption: str,
    rows: Sequence[T],
    columns: Mapping[str, Callable[[T], ColumnValue]],
    *,
    folded: bool = False,
) -> Table | None:
    """Build a table with its explanation and without empty columns; None if it has no rows.

    "Not comparable" counts as empty, because the answer already says so.
    """
    if not rows:
        return None
    table = Table.of(title, caption, rows, columns, folded=folded)
    empty = {
        name
        for place, name in enumerate(table.headings)
        if {str(row[place]) for row in table.rows} <= {"-", NOT_COMPARABLE}
    }
    if VERDICT in empty:
        empty |= {OVER_FASTEST, OVER_BEST}
    told = [caption, *(says for name, says in MEANINGS.items() if name in columns.keys() - empty)]
    kept = [place for place, name in enumerate(table.headings) if name not in empty]
    return table._replace(
        caption=" ".join(told),
        headings=[table.headings[place] for place in kept],
        rows=[[row[place] for place in kept] for row in table.rows],
    )


def _verdict(study: OwnJobStudy, win: Win, side: JobSide) -> str:
    """Return the verdict on a side, by time and by dollars."""
    usd = next(standings.by_dollars(study, [win.place]), None)
    wins = {"fastest": win, "cheapest": usd}
    won = [word for word, of in wins.items() if of and of.winner == side.target.target]
    told = ", ".join(won) or _against(study, win, side, "slower")
    return f"{told} in time" if told == NO_DIFFERENCE and usd and not usd.alike else told


def _against(study: OwnJobStudy, win: Win, side: JobSide, behind: str) -> str:
    """Return the verdict on a side that didn't win: `behind`, or why it isn't known to be."""
    target = side.target.target
    rival = win.next if win.leader == target else win.leader
    duel = standings.duel_of(study, win.place, rival, target, win.metric)
    if duel and standings.barred(duel):
        return NOT_COMPARABLE
    if win.alike:
        return NO_DIFFERENCE
    return behind if duel and duel.better == rival else NOT_KNOWN


def _lead(study: OwnJobStudy, win: Win | None, side: JobSide) -> Estimate | None:
    """Return how many times better the leader is; None for the leader itself."""
    if win is None:
        return None
    duel = standings.duel_of(study, win.place, win.leader, side.target.target, win.metric)
    return duel.ratio if duel else None


class _Timed(NamedTuple):
    """A side's figures at a place, and the fastest side at that place."""

    side: JobSide
    figure: JobFigure
    win: Win | None

    def compared(self, estimate: Estimate | None, form: Form) -> ComparedFigure:
        return ComparedFigure(estimate, form, self.figure.place)


class _Metric(NamedTuple):
    """A side's value for a metric at a place, and the best side at that place."""

    side: JobSide
    place: Place
    metric: MetricFigure
    win: Win | None

    def compared(self, estimate: Estimate | None, form: Form) -> ComparedFigure:
        """Wrap a figure for comparison with the same metric's other figures at the same place."""
        return ComparedFigure(estimate, form, (self.place, self.metric.told))


def _metrics(study: OwnJobStudy, own: Sequence[Place]) -> Table | None:
    names = words.metric_names(study)
    least = {told: _least_usd(study, told) for told in names}
    rows = [
        _Metric(side, place, found, win)
        for told in names
        for place in own
        for win in [next(standings.by_metric(study, [place], told), None)]
        for side, figure in standings.measured(study, place)
        for found in figure.metrics
        if found.told == told
    ]
    return _table(
        _title("Its metrics", own),
        "As the jobs reported them; medians over all values.",
        rows,
        {
            "Metric": lambda row: names[row.metric.told],
            AXIS: lambda row: _at(study, row.place),
            "Target": lambda row: measured_target(row.side.target),
            "Value": lambda row: row.compared(
                row.metric.value,
                lambda value, others: formatting.value(value, row.metric.unit, others),
            ),
            OVER_BEST: lambda row: row.compared(_lead(study, row.win, row.side), formatting.factor),
            VERDICT: lambda row: row.win and _metric_verdict(study, row.win, row.side),
            "Dollars": lambda row: row.compared(
                row.metric.usd_per_unit,
                lambda usd, others: words.usd_per_unit(
                    usd, row.metric.unit, least[row.metric.told], others
                ),
            ),
            "Values": lambda row: (
                f"{row.metric.values} in {formatting.count(row.metric.jobs, 'job')}"
            ),
        },
        folded=len(rows) > MOST_ROWS,
    )


def _metric_verdict(study: OwnJobStudy, win: Win, side: JobSide) -> str:
    won = win.winner == side.target.target
    return "best" if won else _against(study, win, side, "worse")


def _least_usd(study: OwnJobStudy, told: ToldMetric) -> float:
    """Return the lowest cost of one unit of a metric on any side, in dollars; 0 if unknown."""
    known = (
        one.usd_per_unit.value
        for _, figure in words.figures(study)
        for one in figure.metrics
        if one.told == told and one.usd_per_unit
    )
    return min(known, default=0.0)


def _deadlines(study: OwnJobStudy, own: Sequence[Place]) -> Table | None:
    """Build a table of the cheapest side for each deadline; None if there is nothing to show."""
    steps = [
        (place, step, later)
        for place in own
        if (best := standings.best_at(study, place))
        for step, later in zip_longest(best.deadlines, best.deadlines[1:])
    ]
    if not steps:
        return None
    upper = ", and the upper end of its interval does" if words.has_intervals(study) else ""
    return Table.of(
        _title("The cheapest within a deadline", own),
        "A deadline counts from a job's start, without waiting. All jobs of a side met its "
        f"deadline{upper}; the next job may still miss it. No side with a price met shorter ones.",
        steps,
        {
            AXIS: lambda found: _at(study, found[0]),
            "Deadline": lambda found: _until(found[1], found[2]),
            "Cheapest": lambda found: step_names(study, found[1]),
            "A job": lambda found: formatting.usd(found[1].usd_per_job),
        },
        without=() if study.axis else (AXIS,),
        folded=True,
    )


def _until(step: DeadlineStep, later: DeadlineStep | None) -> str:
    until = f" to {formatting.seconds(later.from_seconds)}" if later else " on"
    return f"from {formatting.seconds(step.from_seconds)}{until}"


def _title(text: str, own: Sequence[Place]) -> str:
    where = words.on_instances(own[0])
    return f"{text}, {where}" if where else text


def _at(study: OwnJobStudy, place: Place) -> str | None:
    return None if study.axis is None or place.size is None else formatting.size(place.size)


def _seconds(value: float | None) -> str | None:
    return None if value is None else formatting.seconds(value)
