"""What a change of a series is: the records that detection, attribution, alerts and pages share."""

from __future__ import annotations

from typing import Literal

from pydantic import AwareDatetime, Field

from batchmark.record import Record
from batchmark_job.result import Device

Metric = Literal["time", "price", "noise", "speedup"]
Outcome = Literal["confirmed", "refuted", "unsettled"]
Kind = Literal[
    "slower",
    "faster",
    "dearer",
    "cheaper",
    "noisier",
    "steadier",
    "speedup lost",
    "speedup gained",
]
WORSE: dict[Metric, Kind] = {
    "time": "slower",
    "price": "dearer",
    "noise": "noisier",
    "speedup": "speedup lost",
}
BETTER: dict[Metric, Kind] = {
    "time": "faster",
    "price": "cheaper",
    "noise": "steadier",
    "speedup": "speedup gained",
}


class SeriesKey(Record):
    """One row of a suite on one target, as it really ran; the columns that name it in the history.

    A price is its target's own: it has no workload, parameters and dtype.
    """

    suite: str
    target: str
    actual_device: Device
    instance_type: str | None = Field(description="null off EC2")
    cpu_model: str
    gpu_model: str | None
    workload: str | None = None
    parameters: str | None = Field(default=None, description="JSON, keys sorted, no spaces")
    dtype: str | None = None
    against: str | None = Field(
        default=None, description="the CPU target of a speedup; null for all else"
    )


class Level(Record):
    """A series between two changes."""

    median: float = Field(
        ge=0,
        description="over its runs: seconds (time), USD an hour (price), interquartile range over "
        "median (noise), CPU time over GPU time (speedup)",
    )
    spread: float | None = Field(
        ge=0, description="sd from run to run, relative to the median; null for a single run"
    )
    runs: int = Field(ge=1)


class ChangePoint(Record):
    """A series that moved from one level to another."""

    series: SeriesKey
    metric: Metric
    first_run_id: str = Field(description="first run of the new level")
    first_recorded_at: AwareDatetime
    last_run_id: str = Field(description="last run of the old level")
    near_run_ids: tuple[str, ...] = Field(
        description="runs about the first one, among which a later look may place the same change"
    )
    before: Level
    after: Level
    change: float = Field(gt=-1, description="after / before - 1, of the medians")
    p_value: float = Field(ge=0, le=1, description="that equal levels look as different as this")

    @property
    def worse(self) -> bool:
        return self.change < 0 if self.metric == "speedup" else self.change > 0

    @property
    def kind(self) -> Kind:
        return (WORSE if self.worse else BETTER)[self.metric]


class Confirmation(Record):
    """What fresh jobs said of a suspect."""

    series: SeriesKey
    kind: Literal["run", "level"] = Field(
        description="a run beyond its series' noise, or a new level of several runs"
    )
    run_id: str = Field(description="the run itself, or the first of the new level")
    expected: float = Field(gt=0, description="the level before, in seconds")
    suspect: float = Field(gt=0, description="the run's own figure, in seconds")
    reruns: tuple[float, ...] = Field(description="of fresh jobs, in seconds, in their order")
    job_ids: tuple[str, ...] = Field(description="of the fresh jobs")
    hosts: int | None = Field(description="instances that they ran on; null if unknown")
    other_hosts: int | None = Field(
        default=None, description="of these, other ones than the run's own; null if unknown"
    )
    outcome: Outcome
    reason: str


class Cause(Record):
    """Something that differs between the last run before a change and the first one after it."""

    name: str = Field(description="such as 'image digest' or 'driver version'")
    before: str | None
    after: str | None
    run_id: str | None = Field(
        default=None, description="first run with it, where that is another than the change's"
    )

    @property
    def difference(self) -> tuple[str, str | None, str | None]:
        return self.name, self.before, self.after


class Change(Record):
    """One thing that happened: a series that moved, or many that moved together."""

    kind: Kind
    points: tuple[ChangePoint, ...] = Field(min_length=1, description="the largest change first")
    environment: bool = Field(
        description="so many series of a target moved together that its environment is to blame"
    )
    causes: tuple[Cause, ...] = Field(
        description="what differs, the most telling first; a hint, no proof"
    )
    confirmations: tuple[Confirmation, ...] = ()
    speedups: tuple[ChangePoint, ...] = Field(
        default=(), description="that moved because these times did"
    )
    fell_back: tuple[str, ...] = Field(
        default=(), description="GPU targets whose jobs ran on the CPU"
    )
    usd_per_hour: dict[str, float] = Field(
        default={}, description="what an instance costs after the change, by target"
    )
    usd_per_month: float | None = Field(
        description="what the work of an instance that is busy all month (730 hours) costs more "
        "from now on, summed over the targets, the rows that moved taken as equal shares of the "
        "time; below 0 it is saved; null without a price"
    )
    usd_reason: str | None = Field(default=None, description="why that is not known")

    @property
    def targets(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(point.series.target for point in self.points))

    @property
    def first_run_id(self) -> str:
        return min(self.points, key=lambda point: point.first_recorded_at).first_run_id


class RunChanges(Record):
    """All that one run says of changes: `runs/<run>/changes.json`."""

    run_id: str
    changes: tuple[Change, ...]
    confirmations: tuple[Confirmation, ...] = Field(
        default=(), description="of every suspect that was run again, refuted ones too"
    )
