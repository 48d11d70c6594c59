"""The shell script that an own job runs below, and the variables that it reads."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path

CHECK = "BATCHMARK_CHECK"  # a shell command that runs after the job's
OUTPUT = "BATCHMARK_OUTPUT"  # the path of a file, whose SHA-256 is told
OUTPUT_SHA256 = "BATCHMARK_OUTPUT_SHA256"  # that it must have, in lower case


@cache
def script() -> str:
    """`wrapper.sh` without comments and indents, as overrides of a job have 8,192 characters."""
    lines = map(str.strip, Path(__file__).with_suffix(".sh").read_text().splitlines())
    return "\n".join(line for line in lines if line and not line.startswith("#"))


def command(words: Sequence[str]) -> list[str]:
    """What Batch runs in place of a command.

    Raises:
        ValueError: there are no words; an image's own command can't be known.
    """
    if not words:
        raise ValueError("no command, and the image's own can't be known: give it, or shell=false")
    return ["sh", "-c", script(), "sh", *words]
