"""Replaces characters that would break a line or a terminal, in records and in output."""

from __future__ import annotations

import unicodedata

# What ends a line, controls a terminal, changes the reading direction or is invisible: control and
# format characters, separators of lines and of paragraphs.
STEERING = ("Cc", "Cf", "Zl", "Zp")
_DELETE = 0x7F
_PICTURES = {number: 0x2400 + number for number in range(0x20)} | {_DELETE: 0x2421}


def printable(text: str) -> str:
    """Replace control and format characters by visible ones; the text's length stays the same."""
    if text.isprintable():
        return text
    return "".join(
        "\N{REPLACEMENT CHARACTER}" if unicodedata.category(character) in STEERING else character
        for character in text.translate(_PICTURES)
    )
