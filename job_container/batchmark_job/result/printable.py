"""Replaces characters in records and output that would break a line or disrupt a terminal."""

from __future__ import annotations

import unicodedata

# What ends a line, controls a terminal, changes the reading direction or is invisible: control and
# format characters, separators of lines and of paragraphs.
STEERING = ("Cc", "Cf", "Zl", "Zp")
_DELETE = 0x7F
_PICTURES = {number: 0x2400 + number for number in range(0x20)} | {_DELETE: 0x2421}


def printable(text: str) -> str:
    """Replace control and format characters with visible ones, keeping the text's length."""
    if text.isprintable():
        return text
    return "".join(
        "\N{REPLACEMENT CHARACTER}" if unicodedata.category(character) in STEERING else character
        for character in text.translate(_PICTURES)
    )
