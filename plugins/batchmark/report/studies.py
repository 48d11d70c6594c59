"""Collects what each kind of study in core/kinds has to say about a run.

Each kind's package exports `story`, its part of the first screen, and `sections`, its details.
Kinds with an extra page also export `beside`.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from typing import TYPE_CHECKING, Any

from batchmark.core.kinds import STUDIES
from batchmark.report.blocks import Beside, Section, Story

if TYPE_CHECKING:
    from batchmark.report.model import Report


def stories(report: Report) -> list[Story]:
    """Return the stories of the run's studies; there is always at least one."""
    return [story for room in _rooms() if (story := room.story(report))]


def sections(report: Report) -> Iterator[Section]:
    for room in _rooms():
        yield from room.sections(report)


def beside(report: Report) -> list[Beside]:
    """Build the report's extra pages."""
    found = (room.beside(report) for room in _rooms() if hasattr(room, "beside"))
    return [page for page in found if page]


def _rooms() -> Iterator[Any]:
    for name in (*STUDIES, "pairs"):
        yield import_module(f"batchmark.report.{name}")
