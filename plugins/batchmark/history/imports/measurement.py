"""Figures measured by other tools, their units, and their conversion to history rows."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, NamedTuple, Self, TypeAlias, TypedDict

from batchmark.analysis.samples import parameters_json
from batchmark.changes.records import UNKNOWN_DTYPE
from batchmark.core.formatting import shortened_list
from batchmark.core.intervals import Median
from batchmark.core.row_values import ToldMetric
from batchmark.history.columns import IMPORTED
from batchmark.history.imports.entry import (
    Entry,
    LeftOut,
    MisfitError,
    OtherUnitError,
    located,
    problem_of,
    shown,
)
from batchmark.history.imports.names import stable, stable_parameters
from batchmark.history.parquet import LARGEST_FIGURE
from batchmark.history.rows import Row, sample_columns, time_columns
from batchmark_job.result.document import Device
from batchmark_job.result.own_job import BETTER, HIGHER, LOWER, METRIC, UNIT
from batchmark_job.result.values import MOST_CHARACTERS

SECONDS = {
    **dict.fromkeys(("ns", "nsec", "nanosecond"), 1e-9),
    **dict.fromkeys(("us", "\N{GREEK SMALL LETTER MU}s", "usec", "microsecond"), 1e-6),
    **dict.fromkeys(("ms", "msec", "millisecond"), 1e-3),
    **dict.fromkeys(("s", "sec", "second"), 1.0),
    **dict.fromkeys(("min", "minute"), 60.0),
}
CALLS = ("call", "it", "iter", "iteration", "op", "operation", "run")

UNKNOWN = "unknown"
FIGURE = "value"  # the metric of a figure that is no time: the file names the benchmark alone


@dataclass
class ForeignMeasurement:
    """Another tool's result for a benchmark and its parameter values, with normalised names.

    Raises:
        ValueError: a name is not Unicode, the parameters are too long, or a figure is too large.
    """

    place: str  # in its file
    workload: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    commit: str | None = None  # what was measured; None if the tool did not know
    recorded_at: datetime | None = None  # of the measurement or its commit; None as above
    figures: Row = field(default_factory=dict)  # the history's columns of statistics
    machine: Row = field(default_factory=dict)  # the history's columns on what it ran on
    run: str | None = None  # id of its run, where there is no commit to name it after
    target: str | None = None  # these two where the file's figures name them, else as was asked
    device: Device | None = None
    reason: str | None = None  # why there are no figures
    skipped: bool = False  # the benchmark does not apply at this point
    branch: str | None = None  # of the commit

    def __post_init__(self) -> None:
        self.workload = stable(self.workload)
        self.parameters = stable_parameters(self.parameters)
        self.commit = self.commit and stable(self.commit)
        self.branch = self.branch and stable(self.branch)
        self.reason = self.reason and stable(self.reason)
        self.machine = {
            name: stable(value) if isinstance(value, str) else value
            for name, value in self.machine.items()
        }
        if (length := len(parameters_json(self.parameters))) > MOST_CHARACTERS:
            raise ValueError(
                f"its parameters are {length} characters long, more than the limit of "
                f"{MOST_CHARACTERS}"
            )
        for name, value in self.figures.items():
            if value is not None and not 0 <= value <= LARGEST_FIGURE:
                raise ValueError(
                    f"{name} is {value:g}, but must be between 0 and {LARGEST_FIGURE:g}"
                )

    @property
    def point(self) -> tuple[object, ...]:
        """The key that distinguishes this measurement from the others in its file."""
        machine = (self.target, self.device, self.machine.get("gpu_model"))
        return *machine, self.run_id, self.workload, parameters_json(self.parameters)

    @property
    def run_id(self) -> str:
        """The id of the run, which contains all measurements of one commit at one time."""
        if self.run:
            return self.run
        return f"{self.commit or IMPORTED}__{self._moment:%Y-%m-%dT%H:%M:%SZ}"

    @property
    def _moment(self) -> datetime:
        if self.recorded_at is None:
            raise ValueError("it has no date: set one with --date")
        return self.recorded_at.astimezone(UTC)

    def row(self, *, target: str, device: Device, raw_key: str) -> Row:
        """Return the history row, using `target` and `device` if the file doesn't name any."""
        device = self.device or device
        unmeasured = "skipped" if self.skipped else "failed"
        return {
            "run_id": self.run_id,
            "purpose": "scheduled",
            "raw_key": raw_key,
            "suite": IMPORTED,
            "workload": self.workload,
            "parameters": parameters_json(self.parameters),
            "dtype": UNKNOWN_DTYPE,
            "target": stable(self.target or target),
            "requested_device": device.value,
            "actual_device": device.value,
            "gpu_model": UNKNOWN if device is Device.CUDA else None,
            "cpu_model": UNKNOWN,
            "commit": self.commit,
            "branch": self.branch,
            "status": unmeasured if self.reason else "measured",
            "reason": self.reason,
            **time_columns(self._moment),
            **self.machine,
            **self.figures,
        }


Contents: TypeAlias = Iterable[ForeignMeasurement]


@dataclass(frozen=True)
class Parsed:
    """A file's measurements, and the entries that were skipped."""

    measurements: list[ForeignMeasurement]
    left_out: LeftOut

    @classmethod
    def of(
        cls, contents: Contents, left_out: LeftOut, commit: str | None, recorded_at: datetime | None
    ) -> Self:
        """Read a file's contents; `commit` and `recorded_at` are for entries that don't state them.

        Measurements that can't be told apart are left out.

        Raises:
            ValueError: the whole file is unreadable.
        """
        commit = commit and stable(commit)
        by_point = defaultdict[tuple[object, ...], list[ForeignMeasurement]](list)
        for one in contents:
            one.commit = one.commit or commit
            one.recorded_at = one.recorded_at or recorded_at
            try:
                by_point[one.point].append(one)
            except ValueError as error:
                left_out.lose(one.place, problem_of(error))
        for same in by_point.values():
            if len(same) > 1:
                places = shortened_list([one.place for one in same])
                left_out.lose(
                    "",
                    f"{shown(same[0].workload)} appears {len(same)} times in run {same[0].run_id}; "
                    f"these entries can't be told apart, so none is imported: {places}",
                )
        return cls([one for one, *others in by_point.values() if not others], left_out)

    @property
    def losses(self) -> list[str]:
        """Lines saying which entries have no figures and why, except for deliberate skips."""
        failed = (one for one in self.measurements if one.reason and not one.skipped)
        reasons = (located(one.place, str(one.reason)) for one in failed)
        return [*dict.fromkeys((*self.left_out.losses, *reasons))]


class Figures(TypedDict, total=False):
    """A ForeignMeasurement's place, with either its figures or the reason it has none."""

    place: str
    figures: Row
    reason: str


def figures_or_reason(entry: Entry, figures: Callable[..., Row], *arguments: Any) -> Figures:
    """Compute an entry's `figures` for a ForeignMeasurement, or give the `reason` it has none."""
    try:
        return {"place": entry.place, "figures": figures(entry, *arguments)}
    except ValueError as error:
        place = error.place if isinstance(error, MisfitError) else entry.place
        return {"place": place, "reason": problem_of(error)}


def sample_figures(samples: Sequence[float], processes: Sequence[int] | None = None) -> Row:
    """Return statistics for positive samples, for which lower is better.

    `processes` gives each process's sample count; by default, one process took all samples.
    """
    turns = [[[count] for count in processes]] if processes else None
    return {"samples": len(samples), **sample_columns(Median([samples], turns=turns))}


def spread(low: float | None, median: float, high: float | None) -> float | None:
    """Return the interquartile range divided by the median, or None if a quartile is missing."""
    return None if low is None or high is None else (high - low) / median


class Scale(NamedTuple):
    """Converts a time per call or a call rate to seconds per call."""

    seconds: float  # of one of the unit; at a rate, of one call
    is_rate: bool

    def value(self, figure: float) -> float:
        return self.seconds / figure if self.is_rate else self.seconds * figure


@dataclass(frozen=True)
class Unit:
    """A unit, and whether higher or lower is better."""

    name: str
    measures: Scale | ToldMetric

    @classmethod
    def of(cls, name: str, higher_is_better: bool | None = None) -> Self:
        """Find a unit by name; without `higher_is_better`, it must be a unit of time or rate.

        Raises:
            OtherUnitError: it is unknown whether higher or lower is better.
        """
        scale = _scale(name)
        if scale and higher_is_better in (None, scale.is_rate):
            return cls(name, scale)
        if higher_is_better is None:
            raise OtherUnitError(name)
        return cls(name, ToldMetric(FIGURE, stable(name), higher_is_better))

    @property
    def parameters(self) -> dict[str, str]:
        """The row parameters that describe a metric; empty for times and rates."""
        metric = self.measures
        if isinstance(metric, Scale):
            return {}
        better = HIGHER if metric.higher_is_better else LOWER
        return {METRIC: metric.name, UNIT: metric.unit, BETTER: better}

    def sample(self, entry: Entry) -> float:
        """Convert a figure to a row's sample, so that lower is better and times are in seconds.

        Raises:
            MisfitError: the value is not a number, not positive, or too large for a row.
        """
        value = entry.number()
        if value > 0:
            sample = self.measures.value(value)
            if 1 / LARGEST_FIGURE <= sample <= LARGEST_FIGURE:
                return sample
        is_time = isinstance(self.measures, Scale)
        wrong = (
            "is not a valid time or rate" if is_time else "can't be compared: it must be above 0"
        )
        raise MisfitError(entry.place, f"{value:g} {self.name} {wrong}")


def _scale(unit: str) -> Scale | None:
    over, slash, under = unit.partition("/")
    over, under = _singular(over), _singular(under)
    if over in SECONDS and (not slash or under in CALLS):
        return Scale(SECONDS[over], is_rate=False)
    if over in CALLS and under in SECONDS:
        return Scale(SECONDS[under], is_rate=True)
    return None


def _singular(name: str) -> str:
    name = name.strip().casefold()  # turns the micro sign into the Greek letter
    return name if name in SECONDS else name.removesuffix("s")


SECONDS_OF_CALLS = Unit.of("s")
