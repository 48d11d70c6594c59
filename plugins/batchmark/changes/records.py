"""Records of series and changes, shared by detection, attribution, alerts and pages."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import AwareDatetime, Field

from batchmark.changes.metric import Metric
from batchmark.core import formatting
from batchmark.core.record import Record
from batchmark.core.row_values import ToldMetric
from batchmark.core.version import Version
from batchmark_job.result.document import Device
from batchmark_job.result.values import Parameter, Shown

NEAR_RUNS = 3  # on either side, to which a later run may move a change
UNKNOWN_DTYPE = "unknown"  # of what other tools measured
RerunOutcome = Literal["confirmed", "refuted", "unsettled"]
ChangeKind = Literal[
    "slower", "faster", "dearer", "cheaper", "noisier", "steadier", "speedup lost", "speedup gained"
]


WORSE: dict[Metric, ChangeKind] = {
    Metric.TIME: "slower",
    Metric.PRICE: "dearer",
    Metric.NOISE: "noisier",
    Metric.SPEEDUP: "speedup lost",
}
BETTER: dict[Metric, ChangeKind] = {
    Metric.TIME: "faster",
    Metric.PRICE: "cheaper",
    Metric.NOISE: "steadier",
    Metric.SPEEDUP: "speedup gained",
}


class SeriesKey(Record):
    """A series' identity: a suite's row on one target and machine, in the history's columns.

    A price belongs to a target, so its workload, parameters and dtype are empty.
    """

    suite: Shown
    target: Shown
    actual_device: Device
    instance_type: Shown | None = Field(description="null outside EC2")
    cpu_model: Shown
    gpu_model: Shown | None
    workload: Shown | None = None
    parameters: Shown | None = Field(
        default=None, description="JSON with sorted keys and without spaces"
    )
    dtype: Shown | None = None
    against: Shown | None = Field(
        default=None, description="CPU target that a speedup is relative to; null for other metrics"
    )

    @property
    def is_metric(self) -> bool:
        """Whether the series' figures are metric values of a user's own job, not seconds."""
        return ToldMetric.of(self.values) is not None

    @property
    def machine(self) -> SeriesKey:
        """The key shared by all of a machine's rows."""
        return self.model_copy(update={"workload": None, "parameters": None, "dtype": None})

    @property
    def row(self) -> str:
        """The series' display name within its target."""
        if self.workload is None:
            return "price"
        dtype = None if self.dtype == UNKNOWN_DTYPE else self.dtype
        return formatting.row(self.workload, self.values, dtype)

    @property
    def values(self) -> dict[str, Parameter]:
        """The row's parameters; empty for a price."""
        if self.workload is None:
            return {}
        found: dict[str, Parameter] = json.loads(self.parameters or "{}")
        return found


@dataclass(frozen=True)
class Series:
    """A series' figures, one per run, in any order. Runs without a figure are NaN or left out."""

    key: SeriesKey
    metric: Metric
    run_ids: Sequence[str]  # of the n runs; of equal ids, the one recorded last counts
    recorded_at: NDArray[np.datetime64]  # shape (n,), datetime64[us] in UTC; it orders the runs
    values: NDArray[np.float64]  # shape (n,), in the units of `Level.median`
    fell_back: bool = False  # a GPU target's figures, measured on the CPU
    # What the fresh jobs of runs measured, in their order, by run; in the units of `values`.
    fresh: Mapping[str, Sequence[float]] = field(default_factory=dict)
    began: Mapping[str, datetime] = field(default_factory=dict)  # when each run's first job began

    @property
    def has_fresh(self) -> bool:
        return any(self.fresh.values())

    @property
    def target_label(self) -> str:
        return formatting.target_label(self.key.target, fell_back=self.fell_back)

    def began_at(self, place: int) -> datetime:
        """Return when a run began or, if that is unknown, when it was recorded."""
        return self.began.get(self.run_ids[place]) or moment(self.recorded_at[place])

    def usable(self) -> NDArray[np.int64]:
        """Return the indexes of the runs with a figure above 0, in chronological order."""
        return self._usable

    @cached_property
    def _usable(self) -> NDArray[np.int64]:
        values = np.asarray(self.values, dtype=float)
        known = np.isfinite(values) & (values > 0) & ~np.isnat(self.recorded_at)
        places = np.flatnonzero(known)
        order = places[np.argsort(self.recorded_at[places], kind="stable")].tolist()
        last = {self.run_ids[place]: place for place in order}
        return np.array(
            [place for place in order if last[self.run_ids[place]] == place], dtype=np.int64
        )


class Level(Record):
    """A series' level between two changes."""

    median: float = Field(
        ge=0,
        description="median of its runs, in seconds (time), USD per hour (price), "
        "interquartile range / median (noise) or CPU time / GPU time (speedup); "
        "for a metric of a user's own job, its value, or 1 / value if higher is better",
    )
    spread: float | None = Field(
        ge=0,
        description="run-to-run standard deviation, relative to the median; null for a single run",
    )
    runs: int = Field(ge=1)
    fresh: int = Field(
        default=0, ge=0, description="number of fresh jobs whose figures count beside the runs'"
    )


class ChangePoint(Record):
    """A series' move from one level to another."""

    series: SeriesKey
    metric: Metric
    first_run_id: Shown = Field(description="ID of the first run at the new level")
    first_recorded_at: AwareDatetime
    first_began_at: AwareDatetime | None = Field(
        default=None, description="when the first run at the new level began; null if unknown"
    )
    last_run_id: Shown = Field(description="ID of the last run at the old level")
    near_run_ids: tuple[Shown, ...] = Field(
        description="IDs of the runs around the first one; a later run may find that the "
        "change began at one of these instead"
    )
    before: Level
    after: Level
    change: float = Field(gt=-1, description="relative change of the median: after / before - 1")
    p_value: float = Field(
        ge=0, le=1, description="probability that equal levels would look this different"
    )
    drift: float | None = Field(
        default=None,
        description="relative change per run of a series that drifts; null for a step",
    )
    common: bool = Field(
        default=False,
        description="whether the change was found by pooling the target's rows rather than in this "
        "row alone",
    )

    @property
    def since(self) -> datetime:
        """When the first run at the new level began or, if that is unknown, was recorded."""
        return self.first_began_at or self.first_recorded_at

    @property
    def worse(self) -> bool:
        return self.change < 0 if self.metric == Metric.SPEEDUP else self.change > 0

    @property
    def kind(self) -> ChangeKind:
        return (WORSE if self.worse else BETTER)[self.metric]


class Confirmation(Record):
    """The verdict on a suspect, based on fresh jobs."""

    series: SeriesKey
    kind: Literal["run", "level"] = Field(
        description="run: a single run; level: several consecutive runs that may be at a "
        "slower level"
    )
    run_id: Shown = Field(description="ID of the run, or of the first one if there are several")
    expected: float = Field(gt=0, description="the previous level, in the units of `Level.median`")
    suspect: float = Field(
        gt=0, description="the run's figure, or the median figure of several runs"
    )
    reruns: tuple[float, ...] = Field(description="the fresh jobs' figures in job order")
    job_ids: tuple[Shown, ...] = Field(description="IDs of the fresh jobs")
    hosts: int | None = Field(
        description="number of instances that the fresh jobs ran on; null if unknown"
    )
    other_hosts: int | None = Field(
        default=None,
        description="how many of these instances the run itself did not use; null if unknown",
    )
    outcome: RerunOutcome
    reason: Shown


class Cause(Record):
    """Something that differs between the last run before a change and the first one after it."""

    name: Shown = Field(description="what differs, such as 'image digest' or 'driver version'")
    before: Shown | None
    after: Shown | None
    run_id: Shown | None = Field(
        default=None,
        description="ID of the first run with the difference, if it is not the change's first run",
    )

    @property
    def difference(self) -> tuple[str, str | None, str | None]:
        return self.name, self.before, self.after


class Change(Record):
    """An event in which one series moved to another level, or several did so together."""

    kind: ChangeKind
    points: tuple[ChangePoint, ...] = Field(
        min_length=1, description="the series that moved, with the largest change first"
    )
    environment: bool = Field(
        description="whether so many of a target's series moved that its environment must be the "
        "reason"
    )
    causes: tuple[Cause, ...] = Field(
        description="what differs, with the most likely cause first; a hint, not proof"
    )
    version_before: Version = Field(
        default=Version(),
        description="version measured by the last run before the change; empty for prices",
    )
    version: Version = Field(
        default=Version(), description="version measured by the first run after the change"
    )
    confirmations: tuple[Confirmation, ...] = ()
    speedups: tuple[ChangePoint, ...] = Field(
        default=(), description="speedups that changed because `points` did"
    )
    fell_back: tuple[Shown, ...] = Field(
        default=(), description="GPU targets whose jobs ran on the CPU"
    )
    usd_per_hour: dict[Shown, float] = Field(
        default={}, description="hourly cost of an instance after the change, by target"
    )
    usd_per_month: float | None = Field(
        description="additional monthly cost of an instance that is busy all month (730 "
        "hours), summed over the targets, assuming that the rows that moved take "
        "equal shares of its time; negative for a saving; null if unknown"
    )
    usd_reason: Shown | None = Field(default=None, description="why the cost is not known")

    @property
    def targets(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(point.series.target for point in self.points))

    @property
    def first_run_id(self) -> str:
        return min(self.points, key=lambda point: point.first_recorded_at).first_run_id


class RunChanges(Record):
    """All changes found by one run, stored as `runs/<run>/changes.json`."""

    run_id: str
    changes: tuple[Change, ...]
    confirmations: tuple[Confirmation, ...] = Field(
        default=(),
        description="one for every suspect that was measured again, including refuted ones",
    )


def moment(recorded_at: np.datetime64) -> datetime:
    """Convert a numpy time to a datetime in UTC."""
    found: datetime = recorded_at.astype("datetime64[us]").item()
    return found.replace(tzinfo=UTC)
