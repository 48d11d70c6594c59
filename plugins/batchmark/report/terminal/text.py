"""Text on a terminal."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text


def print_text(console: Console, text: str, style: str = "") -> None:
    console.print(Text(clean(text), style=style), soft_wrap=True)


def clean(text: str) -> str:
    """Keep a terminal's control sequences out of the output."""
    return "".join(
        character if character.isprintable() or character == "\n" else "\N{REPLACEMENT CHARACTER}"
        for character in text
    )
