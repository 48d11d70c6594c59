"""Tables, charts and remarks of studies: the page and the terminal draw them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
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


def by_text(found: Iterable[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """Each text, with all that it is about."""
    about: dict[str, list[str]] = defaultdict(list)
    for text, name in found:
        about[text].append(name)
    return ((text, "; ".join(names)) for text, names in about.items())


def capitalized(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}"
