"""What Amazon SNS takes: https://docs.aws.amazon.com/sns/latest/api/API_Publish.html."""

from __future__ import annotations

import json

from batchmark import figures

# "less than 100 characters"
SUBJECT_CHARACTERS = 99
SUBJECT_END = 24
IN_ASCII = str.maketrans(
    {"\N{RIGHTWARDS ARROW}": "->", figures.MINUS: "-", figures.TIMES: "x", "µ": "u"}
)
# SNS takes four times that, and bills each 64 KiB as a message; the attributes count, too.
TEXT_BYTES = 60 * 1024


def subject_line(text: str) -> str:
    """Text as a subject: ASCII, one line, short enough; it has to begin with a letter or digit.

    Of one that is too long the end stays, which says by how much.
    """
    plain = "".join(
        one if one.isprintable() and one.isascii() else "?" for one in text.translate(IN_ASCII)
    )
    if len(plain) <= SUBJECT_CHARACTERS:
        return plain
    return f"{plain[: SUBJECT_CHARACTERS - SUBJECT_END - 3]}...{plain[-SUBJECT_END:]}"


def size(text: str) -> int:
    """Bytes of a text as the provider's hook sends it: as JSON, where a 'µ' takes six."""
    return len(json.dumps(text))


def cut(text: str) -> str:
    """The beginning of a text, as much of it as fits."""
    while size(text) > TEXT_BYTES:
        text = text[: len(text) * TEXT_BYTES // size(text)]
    return text
