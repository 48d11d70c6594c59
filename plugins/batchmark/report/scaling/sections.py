"""Sections of each training, of what is common to a target, and of what more nodes would do."""

from __future__ import annotations

from collections.abc import Iterator

from batchmark.analysis.scaling.studies import ScalingStudy, Training
from batchmark.report.blocks import Block, Charts, Remarks, Section, Text, Traces, capitalized
from batchmark.report.model import Report
from batchmark.report.scaling import words
from batchmark.report.scaling.answer import WHAT_IF, WHAT_IF_SECTION, what_if
from batchmark.report.scaling.charts import training_charts
from batchmark.report.scaling.tables import published_table, study_tables, training_tables
from batchmark.report.words import measured_target, target_and_gpu
from batchmark_job.result.confidence import CONFIDENCE_TEXT


def sections(report: Report) -> Iterator[Section]:
    for number, study in enumerate(report.of(ScalingStudy), start=1):
        if study.refused:
            refused = Text(f"Not judged: {study.refused}", "notice")
            yield Section(f"scaling-{number}", target_and_gpu(study.target), [refused])
        for place, training in enumerate(words.trainings(study), start=1):
            name = words.training_name(study, training)
            yield Section(f"scaling-{number}-{place}", name, list(_blocks(study, training)))
        name = f"Network, files and jobs of {measured_target(study.target)}, {study.dtype}"
        yield Section(f"scaling-{number}-rest", name, list(_rest(study)))
    if predicted := what_if(report.of(ScalingStudy)):
        more = "The prediction, its check and what it assumes"
        yield Section(WHAT_IF_SECTION, WHAT_IF, [Text(capitalized(predicted), "")], more)


def _blocks(study: ScalingStudy, training: Training) -> Iterator[Block]:
    yield Text(words.about(study, training))
    yield Charts(
        f"Medians over the number of nodes, and their {CONFIDENCE_TEXT} intervals as bands. A "
        "dotted line is the ideal.",
        training_charts(study, training),
    )
    yield from training_tables(study, training)


def _rest(study: ScalingStudy) -> Iterator[Block]:
    if published := published_table(study):
        yield published
    yield from study_tables(study)
    yield Remarks(list(words.remarks(study)))
    yield Traces(study.target.jobs, words.job_nodes(study))
