"""Prints plain text and borderless tables in a terminal."""

from __future__ import annotations

from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from batchmark.core import output


def bare_table(**options: Any) -> Table:
    """Create a table without borders, so that its first column aligns with the text."""
    return Table(
        box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 0, 0, 1), **options
    )


def print_text(console: Console, text: str, style: str = "") -> None:
    """Print text without wrapping it or interpreting markup."""
    console.print(plain(text, style=style), soft_wrap=True)


def plain(*lines: str, style: str = "") -> Text:
    """Return text without markup or terminal control characters."""
    return Text(output.in_lines(lines), style=style)
