"""Results of a self-test: how many inserted steps were found, and how many alarms were raised."""

from __future__ import annotations

from statistics import median
from typing import Literal

from pydantic import AwareDatetime, Field

from batchmark.changes.shares import Rate
from batchmark.core.record import Record
from batchmark_job.result.confidence import CONFIDENCE_TEXT
from batchmark_job.result.document import Device

Source = Literal["history", "synthetic"]


class Machine(Record):
    """A target and the device that its jobs actually ran on."""

    target: str
    device: Device

    def __str__(self) -> str:
        return f"{self.target} on {self.device}"


class Steps(Record):
    """Detection results for steps of one size, each inserted at a known run in a copied history."""

    machine: Machine | None = Field(description="null for all of the part's machines together")
    size: float = Field(
        gt=0,
        description="relative size of the step: 0.1 makes every run from the step onwards 10 "
        "% slower",
    )
    found: Rate = Field(description="steps found within `waited` runs")
    found_early: Rate
    delays: tuple[int, ...] = Field(
        description="number of slow runs it took to find each step that was found; 1 means "
        "that the first one was enough"
    )

    @property
    def median_delay(self) -> float | None:
        return median(self.delays) if self.delays else None


class Alarms(Record):
    """Alarms that the unmodified histories would have raised."""

    alarms: int = Field(ge=0)
    withdrawn: int = Field(
        ge=0,
        description="how many of these alarms no longer count as changes once all runs are known",
    )
    series_runs: int = Field(
        ge=0,
        description="number of runs in which a series could have raised an alarm, summed "
        "over all series",
    )
    low: float = Field(
        description=f"lower end of the {CONFIDENCE_TEXT} interval for alarms per 1,000 runs "
        "of a series"
    )
    high: float | None = Field(description="upper end of the interval; null if there are no runs")

    @property
    def per_thousand(self) -> float:
        return 1000 * self.alarms / self.series_runs if self.series_runs else 0.0


class Part(Record):
    """Results for a suite's real or synthetic histories."""

    source: Source
    series: int = Field(ge=1)
    runs: int = Field(ge=1)
    steps: tuple[Steps, ...] = Field(
        description="first for all machines together, then for each machine"
    )
    alarms: Alarms

    @property
    def machines(self) -> list[Machine]:
        return list(dict.fromkeys(one.machine for one in self.steps if one.machine))

    def of(self, machine: Machine | None) -> list[Steps]:
        return [one for one in self.steps if one.machine == machine]


class SuiteTest(Record):
    suite: str
    parts: tuple[Part, ...]
    notes: tuple[str, ...] = Field(
        description="what could not be tested, and what was tested instead"
    )


class SelfTest(Record):
    """A report on how well the detector performs on this installation's own histories."""

    schema_version: Literal[1] = 1
    created_at: AwareDatetime
    months: int = Field(description="number of months of history that were tested")
    seed: int
    detector: str = Field(description="the detector's settings, as text")
    waited: int = Field(
        description="number of runs within which a step must be found, counted from its first run"
    )
    early: int
    suites: tuple[SuiteTest, ...]
    notes: tuple[str, ...] = ()
