"""Fits messages into SNS limits: https://docs.aws.amazon.com/sns/latest/api/API_Publish.html."""

from __future__ import annotations

import json

from batchmark.core import formatting

# "less than 100 characters"
SUBJECT_CHARACTERS = 99
SUBJECT_END = 24
IN_ASCII = str.maketrans(
    {"\N{RIGHTWARDS ARROW}": "->", formatting.MINUS: "-", formatting.TIMES: "x", "µ": "u"}
)
# SNS accepts four times as much, but bills each 64 KiB as a message, attributes included.
TEXT_BYTES = 60 * 1024


def subject_line(text: str) -> str:
    """Turn text that begins with a letter or digit into a subject: one short line of ASCII.

    Long text is cut in the middle, because its end says how large the change is.
    """
    plain = "".join(
        char if char.isprintable() and char.isascii() else "?" for char in text.translate(IN_ASCII)
    )
    if len(plain) <= SUBJECT_CHARACTERS:
        return plain
    return f"{plain[: SUBJECT_CHARACTERS - SUBJECT_END - 3]}...{plain[-SUBJECT_END:]}"


def size(text: str) -> int:
    """Return a text's size in bytes in the JSON that Airflow's SNS hook sends; 'µ' takes six."""
    return len(json.dumps(text))


def cut(text: str) -> str:
    """Truncate text to fit in one message."""
    while size(text) > TEXT_BYTES:
        text = text[: len(text) * TEXT_BYTES // size(text)]
    return text
