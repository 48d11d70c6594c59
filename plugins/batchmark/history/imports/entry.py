"""Reads values from another tool's file; error messages give the value's place in the file."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TypeVar

from pydantic import ValidationError

from batchmark.core.record import first_problem
from batchmark_job.result.values import EARLIEST, END

# As JSON has numbers; float() would also take "NaN", "1_000" and figures of other scripts.
NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
# A number, and no name such as 007 or 123456789012345678901.
WHOLE = re.compile(r"[+-]?(0|[1-9][0-9]{0,17})")
MOST_SHOWN = 100  # characters of a value in a message
SURROGATE = re.compile("[\ud800-\udfff]")  # half of a character: JSON can say it, UTF-8 can't
TWICE = object()  # in place of the value of a key that an object has twice

_Value = TypeVar("_Value")


class MisfitError(ValueError):
    """Raised if a value can't be used; the message says where and why."""

    def __init__(self, place: str, problem: str) -> None:
        super().__init__(located(place, problem))
        self.place = place
        self.problem = problem


class OtherUnitError(Exception):
    """Raised if a figure can't be compared because of its unit; the argument is that unit."""


@dataclass(frozen=True)
class LeftOut:
    """What a reader left out: problems with their places, and figure counts by unusable unit."""

    losses: list[str] = field(default_factory=list)
    other_units: Counter[str] = field(default_factory=Counter)

    def lose(self, place: str, problem: str) -> None:
        self.losses.append(located(place, problem))


@dataclass(frozen=True)
class Entry:
    """A value in a file, with its path for error messages."""

    value: object  # None, too, where the file has none
    left_out: LeftOut
    root: str = ""  # the entry's path from the top of the file
    name: str | None = None  # the entry's own
    path: str = ""  # from the entry

    @property
    def place(self) -> str:
        """The entry's place, such as `benchmarks[1] 'test_sort'`; empty for the whole file."""
        return self.root if self.name is None else f"{self.root} {shown(self.name)}"

    def with_value(self, value: object, step: str = "") -> Entry:
        """Return a copy with another value; if that is part of this entry, `step` is its path."""
        return replace(self, value=value, root=f"{self.root}{step}")

    def misfit(self, wanted: str) -> MisfitError:
        if self.value is TWICE:
            problem = "appears twice"
        elif self.value is None:
            problem = "is null or missing"
        else:
            problem = f"is {shown(self.value)}, not {wanted}"
        return MisfitError(self.place, f"{self.path} {problem}".lstrip())

    def at(self, *keys: str) -> Entry:
        """Follow keys through nested objects; if one is missing, return an entry without a value.

        Raises:
            MisfitError: a value along the path is not an object.
        """
        found = self
        for key in keys:
            if found.value is None:
                break
            if not isinstance(found.value, dict):
                raise found.misfit("an object")
            path = f"{found.path}{_step(key)}".removeprefix(".")
            found = replace(found, value=found.value.get(key), path=path)
        return found

    def each(self, *name: str) -> Iterator[Entry]:
        """Yield a list's entries; `name` is the key path to each entry's name."""
        if not isinstance(self.value, list):
            raise self.misfit("a list")
        for number, value in enumerate(self.value):
            yield self._inner(f"[{number}]", value, name)

    def items(self, *name: str) -> Iterator[tuple[str, Entry]]:
        """Yield an object's entries by key; `name` is the key path to each entry's name."""
        if not isinstance(self.value, dict):
            raise self.misfit("an object")
        for key, value in self.value.items():
            yield key, self._inner(_step(key), value, name)

    def fields(self) -> dict[str, object]:
        """Return an object's values by key, or an empty dict if the object is missing."""
        if self.value is None:
            return {}
        found = dict(self.items())
        for inner in found.values():
            if inner.value is TWICE:
                raise inner.misfit("")
        return {key: inner.value for key, inner in found.items()}

    def text(self) -> str:
        text = self.value
        if isinstance(text, str) and text.strip() and not SURROGATE.search(text):
            return text
        raise self.misfit("valid text")

    def number(self) -> float:
        """Read a finite number that is stored either as a number or as text."""
        value = self.value
        if isinstance(value, str) and NUMBER.fullmatch(value.strip()):
            value = float(value)
        if isinstance(value, bool) or not isinstance(value, int | float):
            has_comma = isinstance(value, str) and "," in value
            raise self.misfit("a number such as 1234.5" if has_comma else "a number")
        try:
            value = float(value)
        except OverflowError:
            value = math.inf
        if not math.isfinite(value):
            raise self.misfit("a finite number")
        return value

    def count(self) -> int:
        number = self.number()
        if number.is_integer() and 0 <= number < 2**31:
            return int(number)
        raise self.misfit("a whole number from 0 to 2147483647")

    def flag(self) -> bool:
        if isinstance(self.value, bool):
            return self.value
        word = str(self.value).strip().casefold()
        if word in ("true", "false"):
            return word == "true"
        raise self.misfit("true or false")

    def scalar(self) -> int | float | str:
        """Read a number, even if it is stored as text; return any other text unchanged."""
        value = self.value
        if not isinstance(value, str):
            return value if type(value) is int else self.number()
        if WHOLE.fullmatch(value):
            return int(value)
        is_number = NUMBER.fullmatch(value) and not value.lstrip("+-").isdecimal()
        return self.number() if is_number else self.text()

    def moment(self) -> datetime:
        """Read an ISO 8601 date, assuming UTC if it has no time zone."""
        try:
            moment = datetime.fromisoformat(self.text())
        except ValueError:
            raise self.misfit("a date such as 2026-11-28T10:00:00Z") from None
        return self._in_calendar(moment if moment.tzinfo else moment.replace(tzinfo=UTC))

    def milliseconds(self) -> datetime:
        """Read a time in milliseconds since the epoch."""
        try:
            return self._in_calendar(datetime.fromtimestamp(self.number() / 1000, UTC))
        except (OverflowError, OSError, ValueError):
            raise self.misfit("a time in milliseconds since the epoch") from None

    def _in_calendar(self, moment: datetime) -> datetime:
        try:
            moment = moment.astimezone(UTC)
        except OverflowError:
            moment = END
        if EARLIEST <= moment < END:
            return moment
        raise self.misfit(f"a date in or after {EARLIEST:%Y} and before {END:%Y}")

    def optional(self, read: Callable[[Entry], _Value], *keys: str) -> _Value | None:
        """Apply `read` to the value at these keys, or return None if there is no value.

        If the value can't be read, report that and return None.
        """
        with self.alone():
            found = self.at(*keys)
            return None if found.value in (None, "") else read(found)
        return None

    def wanted(self, read: Callable[[Entry], _Value], *keys: str) -> _Value | None:
        """Do the same as `optional`, but also report a missing value."""
        with self.alone():
            return read(self.at(*keys))
        return None

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Record an error raised in the `with` block in `left_out`; only this entry is lost."""
        try:
            yield
        except OtherUnitError as error:
            self.left_out.other_units[str(error)] += 1
        except (ValueError, RecursionError) as error:
            place = error.place if isinstance(error, MisfitError) else self.place
            self.left_out.lose(place, problem_of(error))

    @property
    def _whole_path(self) -> str:
        return ".".join(filter(None, (self.root, self.path)))

    def _inner(self, step: str, value: object, name: Sequence[str]) -> Entry:
        found: object = value
        for key in name:
            found = found.get(key) if isinstance(found, dict) else None
        own = found if name and isinstance(found, str) else self.name
        root = f"{self._whole_path}{step}".removeprefix(".")
        return Entry(value, self.left_out, root, own)


def _step(key: str) -> str:
    """Format a key as part of a one-line path."""
    is_plain = key.isprintable() and len(key) <= MOST_SHOWN
    return f".{key}" if is_plain else f"[{shown(key)}]"


def grouped_repetitions(entries: Sequence[Entry], key: str) -> list[Sequence[Entry]]:
    """Group a benchmark's repetitions, or separate all if two have the same number under `key`."""
    numbers = {str(entry.at(key).value) for entry in entries}
    return [entries] if len(numbers) == len(entries) else [[entry] for entry in entries]


def problem_of(error: Exception) -> str:
    """Describe an error in one line, leaving out its place."""
    if isinstance(error, ValidationError):
        return first_problem(error)
    return error.problem if isinstance(error, MisfitError) else str(error)


def located(place: str, problem: str) -> str:
    """Describe an error and its place in one line."""
    text = " ".join(problem.split())
    return f"{place}: {text}" if place else text


def shown(value: object) -> str:
    """Format a value for a one-line message, shortened if necessary."""
    if isinstance(value, list | dict):
        return "a list" if isinstance(value, list) else "an object"
    return f"{value!r:.{MOST_SHOWN}}"
