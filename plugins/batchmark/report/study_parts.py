"""Tables and charts of studies: the page and the terminal draw them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from batchmark.core.formatting import Figure


class StudyTable(NamedTuple):
    title: str
    caption: str
    headings: Sequence[str]
    rows: Sequence[Sequence[Figure]]
    folded: bool = False


class StudyChart(NamedTuple):
    title: str
    svg: str


def plain(text: str) -> Figure:
    return Figure(text, "")
