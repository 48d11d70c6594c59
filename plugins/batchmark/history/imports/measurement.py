"""A figure that another tool measured, its unit, and the row it becomes."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, NamedTuple, Self, TypeAlias, TypedDict

from batchmark.analysis.samples import parameters_json
from batchmark.changes.records import UNKNOWN_DTYPE
from batchmark.core.intervals import Median
from batchmark.history.columns import IMPORTED
from batchmark.history.rows import Row, sample_columns, time_columns
from batchmark_job.result.document import Device
from batchmark_job.result.printable import printable

SECONDS = {
    **dict.fromkeys(("ns", "nsec", "nanosecond"), 1e-9),
    **dict.fromkeys(("us", "\N{GREEK SMALL LETTER MU}s", "usec", "microsecond"), 1e-6),
    **dict.fromkeys(("ms", "msec", "millisecond"), 1e-3),
    **dict.fromkeys(("s", "sec", "second"), 1.0),
    **dict.fromkeys(("min", "minute"), 60.0),
}
CALLS = ("call", "it", "iter", "iteration", "op", "operation", "run")

UNKNOWN = "unknown"


@dataclass(frozen=True)
class ForeignMeasurement:
    """A benchmark's result at one point of its parameters.

    Raises:
        TypeError: the commit is not a string.
        ValueError: the time can't be expressed in UTC.
    """

    commit: str | None  # what was measured; None if the tool did not know
    recorded_at: datetime  # time of the measurement, or of its commit
    workload: str
    parameters: Mapping[str, Any]
    figures: Row = field(default_factory=dict)  # the history's columns of statistics
    machine: Row = field(default_factory=dict)  # the history's columns on what it ran on
    run: str | None = None  # id of its run, where there is no commit to name it after
    target: str | None = None  # these two where the file's figures name them, else as was asked
    device: Device | None = None
    reason: str | None = None  # why there are no figures
    skipped: bool = False  # the benchmark does not apply at this point

    def __post_init__(self) -> None:
        if not isinstance(self.commit, str | None):
            raise TypeError(f"the commit {self.commit!r:.100} is not a string")
        try:
            self.recorded_at.astimezone(UTC)
        except OverflowError:
            raise ValueError(f"{self.recorded_at} is not a date in UTC") from None

    @property
    def run_id(self) -> str:
        """The measurements of one commit at one time are a run."""
        moment = self.recorded_at.astimezone(UTC)
        if self.run:
            return self.run
        return f"{self.commit or IMPORTED}__{moment:%Y-%m-%dT%H:%M:%SZ}"

    def row(self, *, target: str, device: Device, raw_key: str) -> Row:
        """Return its row; target and device are those of a file whose figures don't name theirs."""
        device = self.device or device
        unmeasured = "skipped" if self.skipped else "failed"
        row = {
            "run_id": self.run_id,
            "purpose": "scheduled",
            "raw_key": raw_key,
            "suite": IMPORTED,
            "workload": self.workload,
            "parameters": parameters_json(_shown(self.parameters)),
            "dtype": UNKNOWN_DTYPE,
            "target": self.target or target,
            "requested_device": device.value,
            "actual_device": device.value,
            "gpu_model": UNKNOWN if device is Device.CUDA else None,
            "cpu_model": UNKNOWN,
            "code_version": self.commit and self.commit[:12],
            "status": unmeasured if self.reason else "measured",
            "reason": self.reason,
            **time_columns(self.recorded_at),
            **self.machine,
            **self.figures,
        }
        return {name: _shown(value) for name, value in row.items()}


# What a file holds in its order: times of calls, and the unit of each figure that is none.
Contents: TypeAlias = Iterable[ForeignMeasurement | str]


class Parsed(NamedTuple):
    """A file's times of calls, and its number of figures in each other unit."""

    measurements: list[ForeignMeasurement]
    refused: Counter[str]

    @classmethod
    def of(cls, contents: Contents) -> Self:
        found = list(contents)
        units = Counter(one for one in found if isinstance(one, str))
        return cls([one for one in found if isinstance(one, ForeignMeasurement)], units)


class Figures(TypedDict, total=False):
    """One of these fields of a ForeignMeasurement."""

    figures: Row
    reason: str


def figures_or_reason(figures: Callable[..., Row], *arguments: Any) -> Figures:
    """Return a ForeignMeasurement's `figures`, or the `reason` why there are none."""
    try:
        return {"figures": figures(*arguments)}
    except ValueError as error:
        return {"reason": str(error)}


def from_milliseconds(milliseconds: float) -> datetime:
    """Return a time given in milliseconds since the epoch.

    Raises:
        ValueError: it is not a number, or beyond the calendar.
    """
    try:
        return datetime.fromtimestamp(milliseconds / 1000, UTC)
    except (OverflowError, OSError, TypeError, ValueError):
        raise ValueError(f"{milliseconds!r:.100} is not a date in milliseconds") from None


def sample_figures(samples: Sequence[float], name: str) -> Row:
    """Return the statistics of single calls' times in seconds.

    Raises:
        ValueError: a time is zero, negative or not finite.
    """
    for value in samples:
        to_seconds(value, "s")
    return {"samples": len(samples), **sample_columns(Median([samples], seed=name))}


def to_seconds(value: float, unit: str) -> float | None:
    """Convert a time, a time per call or a rate of calls to seconds per call; None for other units.

    Raises:
        ValueError: the value is zero, negative or not finite.
    """
    over, slash, under = unit.partition("/")
    over, under = _singular(over), _singular(under)
    is_time = over in SECONDS and (not slash or under in CALLS)
    if not (is_time or (over in CALLS and under in SECONDS)):
        return None
    if not (math.isfinite(value) and value > 0):
        raise ValueError(f"{value:g} {unit} is not the time of a call")
    return value * SECONDS[over] if is_time else SECONDS[under] / value


def _shown(value: Any) -> Any:
    """A value whose texts are printable, those within it, too."""
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, Mapping):
        return {_shown(name): _shown(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_shown(one) for one in value]
    return value


def _singular(name: str) -> str:
    name = name.strip().casefold()  # turns the micro sign into the Greek letter
    return name if name in SECONDS else name.removesuffix("s")
