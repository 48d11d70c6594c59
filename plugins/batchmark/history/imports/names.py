"""Normalises names from other tools' files so that a benchmark keeps its name between runs."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from batchmark.core.names import cut_to_length
from batchmark.history.imports.entry import SURROGATE, shown
from batchmark_job.result.printable import printable
from batchmark_job.result.values import MOST_CHARACTERS_OF_NAME

# As in `<function f at 0x7f3c5a1b2d30>`, or a pointer of a process on 64-bit Linux by itself.
ADDRESS = re.compile(r"\s+at 0x[0-9a-f]+|\b0x(?:7f|5[56])[0-9a-f]{10}\b", re.IGNORECASE)
NO_NUMBER = re.compile(r"\b(?:NaN|Infinity)\b")  # as Python writes them in JSON


def stable(text: str) -> str:
    """Normalise a name to one line of limited length, without memory addresses.

    Raises:
        ValueError: the text is not Unicode.
    """
    if SURROGATE.search(text):
        raise ValueError(f"{shown(text)} is not valid Unicode text")
    return cut_to_length(ADDRESS.sub("", printable(text)), MOST_CHARACTERS_OF_NAME)


def stable_parameters(parameters: Mapping[str, object]) -> dict[str, Any]:
    """Normalise a benchmark's parameters; raises the same errors as `stable`."""
    return {stable(name): _stable_value(value) for name, value in parameters.items()}


def _stable_value(value: object) -> object:
    """Normalise strings in a value; turn long values and any with NaN or infinity into strings."""
    if isinstance(value, str):
        return stable(value)
    if isinstance(value, dict):
        value = stable_parameters(value)
    elif isinstance(value, list):
        value = [_stable_value(one) for one in value]
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    short = stable(text)
    return value if short == text and not NO_NUMBER.search(text) else short
