"""Text that stays in its line, whoever wrote it: as records come in, and as lines go out."""

from __future__ import annotations

import unicodedata

# What ends a line, steers a terminal, turns the direction of reading or can't be seen: control and
# format characters, separators of lines and of paragraphs.
STEERING = ("Cc", "Cf", "Zl", "Zp")
_DELETE = 0x7F
_PICTURES = {number: 0x2400 + number for number in range(0x20)} | {_DELETE: 0x2421}


def printable(text: str) -> str:
    """The text with a visible sign in place of each character that steers; as long as before."""
    if text.isprintable():
        return text
    return "".join(
        "\N{REPLACEMENT CHARACTER}" if unicodedata.category(character) in STEERING else character
        for character in text.translate(_PICTURES)
    )
