"""How steady targets are, in words with their figures."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from batchmark.analysis.steadiness import Steadiness

from batchmark.core import formatting
from batchmark.report.blocks import Section, Story, StudyAnswer, Table, Text
from batchmark.report.words import suites_and_targets

if TYPE_CHECKING:
    from batchmark.report.model import Report

QUESTION = "How steady is the target?"


def story(report: Report) -> Story | None:
    found = report.of(Steadiness)
    if not found:
        return None
    fewest = min((row.jobs for study in found for row in study.rows), default=0)
    return Story(
        "steadiness",
        suites_and_targets(one for study in found for one in study.studied),
        [_answer(study) for study in found],
        f"Each row was measured by {formatting.count(fewest, 'job')} or more.",
        ["A spread is the slowest job's median over the fastest's."],
    )


def _answer(study: Steadiness) -> StudyAnswer:
    name = study.target.target
    if not study.rows:
        reason = study.refused or "no row was measured twice"
        return StudyAnswer.unknown(QUESTION, f"{name}: {reason}", "More repeats would tell.")
    widest = max(study.rows, key=lambda row: row.spread)
    verdict = f"Within {formatting.multiple(widest.spread)}"
    return StudyAnswer(QUESTION, verdict, f"{name}, widest in {widest.name}.", [])


def sections(report: Report) -> Iterator[Section]:
    for number, study in enumerate(report.of(Steadiness), start=1):
        rows = [(row.name, str(row.jobs), formatting.multiple(row.spread)) for row in study.rows]
        table = Table("Spread of equal jobs", "", ("Row", "Jobs", "Slowest / fastest"), rows)
        blocks = [table] if study.rows else [Text(study.refused or "Nothing was measured twice.")]
        yield Section(f"steadiness-{number}", f"Steadiness of {study.target.target}", blocks)
