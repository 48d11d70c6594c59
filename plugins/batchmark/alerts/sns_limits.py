"""What Amazon SNS takes: https://docs.aws.amazon.com/sns/latest/api/API_Publish.html."""

from __future__ import annotations

import json

# "less than 100 characters"
SUBJECT_CHARACTERS = 99
# SNS takes four times that, and bills each 64 KiB as a message; the attributes count, too.
TEXT_BYTES = 60 * 1024


def subject_line(text: str) -> str:
    """Text as a subject: ASCII, one line, short enough; it has to begin with a letter or digit."""
    plain = "".join(one if one.isprintable() and one.isascii() else "?" for one in text)
    return plain if len(plain) <= SUBJECT_CHARACTERS else plain[: SUBJECT_CHARACTERS - 3] + "..."


def size(text: str) -> int:
    """Bytes of a text as the provider's hook sends it: as JSON, where a 'µ' takes six."""
    return len(json.dumps(text))


def cut(text: str) -> str:
    """The beginning of a text, as much of it as fits."""
    while size(text) > TEXT_BYTES:
        text = text[: len(text) * TEXT_BYTES // size(text)]
    return text
