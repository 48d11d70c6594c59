"""A section for each own job: charts, tables, lines that told nothing, its jobs."""

from __future__ import annotations

from collections.abc import Iterator

from batchmark.analysis.own_jobs.records import OwnJobStudy
from batchmark.core import formatting
from batchmark.report import blocks, machines
from batchmark.report.model import Report
from batchmark.report.own_jobs import words
from batchmark.report.own_jobs.charts import job_charts
from batchmark.report.own_jobs.tables import tables
from batchmark_job.result.confidence import CONFIDENCE_TEXT


def sections(report: Report) -> Iterator[blocks.Section]:
    for number, study in enumerate(report.of(OwnJobStudy), start=1):
        shown = [*_blocks(study), _jobs(study, report)]
        title = f"{study.name} on {formatting.some(list(words.names(study).values()))}"
        yield blocks.Section(f"own-job-{number}", title, shown)


def _blocks(study: OwnJobStudy) -> Iterator[blocks.Block]:
    images = words.images(study)
    about = (f"Suite {study.suite}", f"Image: {images}" if images else "", words.prices(study))
    yield blocks.Text(" ".join(f"{text}." for text in about if text))
    of = words.charted(study)
    yield blocks.Charts(
        f"Medians over the jobs, all axes logarithmic; bands and bars are {CONFIDENCE_TEXT} "
        f"intervals{f', {of}' if of else ''}.",
        job_charts(study),
    )
    yield from tables(study)
    yield blocks.Remarks(list(words.remarks(study)))
    for side in study.sides:
        if told := words.bad_lines(side):
            lines = [
                (f"Line {line.number} {words.SOURCES[line.source]}: {line.problem}", line.text)
                for line in side.bad_lines
            ]
            yield blocks.Lines(f"{told}: which, and why", lines, side.bad_lines_left_out)


def _jobs(study: OwnJobStudy, report: Report) -> blocks.Folded:
    targets = [side.target for side in study.sides]
    starts = [side.cold_start for side in study.sides if side.cold_start]
    on_ec2 = any(job.instance_type for target in targets for job in target.jobs)
    jobs = machines.job_lines(targets, report.cost.jobs, words.job_places(study))
    return blocks.Folded(
        "Cold starts, machines, jobs",
        [
            blocks.ColdStarts(starts, words.names(study), on_ec2),
            machines.Machines.of(targets),
            blocks.Jobs(jobs),
        ],
    )
