"""Values of options, read or refused with what was seen."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TypeVar

from batchmark_job.errors import InputError

Choice = TypeVar("Choice", bound=str)


def number(option: str, text: str | None, default: float) -> float:
    if text is None:
        return default
    try:
        return float(text)
    except ValueError:
        raise InputError(
            f"{option} {text!r} is not a number; give one such as {default:g}"
        ) from None


def one_of(option: str, value: str, known: Sequence[Choice]) -> Choice:
    for choice in known:
        if value == choice:
            return choice
    raise InputError(f"unknown {option} {value!r}; known: {', '.join(known)}")


def split(text: str | None) -> list[str]:
    """The values between commas; none where the option is missing or empty."""
    return text.split(",") if text else []


def whole_number(option: str, text: str) -> int:
    if not re.fullmatch(r"-?[0-9]{1,18}", text.strip()):
        raise InputError(f"{option} {text!r} is not a whole number; give digits only")
    number = int(text)
    if number < 0:
        raise InputError(f"{option} {number} is negative; give a positive number")
    return number
