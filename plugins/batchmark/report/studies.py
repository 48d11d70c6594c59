"""The kinds of studies that a report may have, and what each says: the only list of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from batchmark.report.blocks import Section, Story
from batchmark.report.own_jobs import answer as own_jobs
from batchmark.report.own_jobs.sections import sections as own_job_sections
from batchmark.report.pairs.sections import sections as pair_sections
from batchmark.report.scaling import answer as scaling
from batchmark.report.scaling.sections import sections as scaling_sections
from batchmark.report.sharing import answer as sharing
from batchmark.report.sharing.sections import sections as sharing_sections

if TYPE_CHECKING:
    from batchmark.report.model import Report

STORIES = (sharing.story, scaling.story, own_jobs.story)
SECTIONS = (sharing_sections, scaling_sections, own_job_sections, pair_sections)


def stories(report: Report) -> list[Story]:
    """Of the kinds that the run has."""
    return [found for story in STORIES if (found := story(report))]


def sections(report: Report) -> Iterator[Section]:
    for of_kind in SECTIONS:
        yield from of_kind(report)
