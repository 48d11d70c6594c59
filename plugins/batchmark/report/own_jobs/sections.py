"""A section for each own job: charts, tables, lines that told nothing, its jobs."""

from __future__ import annotations

from collections.abc import Iterator

from batchmark.analysis.own_jobs.records import OwnJobStudy
from batchmark.report import machines
from batchmark.report.blocks import (
    Block,
    Charts,
    ColdStarts,
    Folded,
    Jobs,
    Lines,
    Machines,
    Remarks,
    Section,
    Text,
)
from batchmark.report.model import Report
from batchmark.report.own_jobs import words
from batchmark.report.own_jobs.charts import charts
from batchmark.report.own_jobs.tables import tables
from batchmark_job.result.confidence import CONFIDENCE_TEXT


def sections(report: Report) -> Iterator[Section]:
    for number, study in enumerate(report.of(OwnJobStudy), start=1):
        blocks = [*_blocks(study), _jobs(study, report)]
        yield Section(f"own-job-{number}", words.heading(study), blocks)


def _blocks(study: OwnJobStudy) -> Iterator[Block]:
    images = words.images(study)
    about = (f"Suite {study.suite}", f"Image: {images}" if images else "", words.prices(study))
    yield Text(" ".join(f"{text}." for text in about if text))
    of = words.charted(study)
    yield Charts(
        f"Medians over the jobs, all axes logarithmic; bands and bars are {CONFIDENCE_TEXT} "
        f"intervals{f', {of}' if of else ''}.",
        charts(study),
    )
    yield from tables(study)
    yield Remarks(list(words.remarks(study)))
    for side in study.sides:
        if told := words.bad_lines(side):
            lines = [(words.bad_line(line), line.text) for line in side.bad_lines]
            yield Lines(f"{told}: which, and why", lines, side.bad_lines_left_out)


def _jobs(study: OwnJobStudy, report: Report) -> Folded:
    targets = [side.target for side in study.sides]
    starts = [side.cold_start for side in study.sides if side.cold_start]
    on_ec2 = any(job.instance_type for target in targets for job in target.jobs)
    jobs = machines.job_lines(targets, report.cost.jobs, words.job_places(study))
    return Folded(
        "Cold starts, machines, jobs",
        [
            ColdStarts(starts, words.names(study), on_ec2),
            Machines(machines.Machines.of(targets)),
            Jobs(jobs),
        ],
    )
