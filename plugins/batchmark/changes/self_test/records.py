"""What a test of the detector found: steps of known size, and alarms where none were put."""

from __future__ import annotations

from statistics import median
from typing import Literal

from pydantic import AwareDatetime, Field

from batchmark.rates import Rate
from batchmark.record import Record
from batchmark_job.result import Device

Source = Literal["history", "synthetic"]


class Machine(Record):
    """A target, and what its jobs really ran on."""

    target: str
    device: Device

    def __str__(self) -> str:
        return f"{self.target} on {self.device}"


class Steps(Record):
    """Steps of one size, each put into a copy of a series at a run that is known."""

    machine: Machine | None = Field(description="null for all of the part")
    size: float = Field(gt=0, description="0.1 makes every run from the step on 10 % slower")
    found: Rate = Field(description="within the runs that were waited for")
    found_early: Rate
    delays: tuple[int, ...] = Field(
        description="runs until found, of those found; 1: in the first slow one"
    )

    @property
    def median_delay(self) -> float | None:
        return median(self.delays) if self.delays else None


class Alarms(Record):
    """Alerts that untouched histories would have raised."""

    alarms: int = Field(ge=0)
    withdrawn: int = Field(ge=0, description="of these, no change once all runs are known")
    series_runs: int = Field(ge=0, description="runs of series that were looked at")
    low: float = Field(description="end of the 95 % interval, per 1,000 runs of a series")
    high: float | None = Field(description="null where no run was looked at")

    @property
    def per_thousand(self) -> float:
        return 1000 * self.alarms / self.series_runs if self.series_runs else 0.0


class Part(Record):
    """Histories of one kind of a suite."""

    source: Source
    series: int = Field(ge=1)
    runs: int = Field(ge=1)
    steps: tuple[Steps, ...] = Field(description="of all machines first, then by machine")
    alarms: Alarms

    @property
    def machines(self) -> list[Machine]:
        return list(dict.fromkeys(one.machine for one in self.steps if one.machine))

    def of(self, machine: Machine | None) -> list[Steps]:
        return [one for one in self.steps if one.machine == machine]


class SuiteTest(Record):
    suite: str
    parts: tuple[Part, ...]
    notes: tuple[str, ...] = Field(description="what could not be tested, and what stands in")


class SelfTest(Record):
    """How the detector does on this installation's own histories."""

    schema_version: Literal[1] = 1
    created_at: AwareDatetime
    months: int = Field(description="of history")
    seed: int
    detector: str = Field(description="its settings, as it writes them")
    waited: int = Field(description="runs after a step, in which it could be found")
    early: int
    suites: tuple[SuiteTest, ...]
    notes: tuple[str, ...] = ()
