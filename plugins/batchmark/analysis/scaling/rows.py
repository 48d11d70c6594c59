"""The rows that several nodes measured together, each with its samples of all jobs of a target."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from typing import Self

from batchmark.analysis.pooling import TargetJobs
from batchmark.analysis.samples import RowKey, RowSamples
from batchmark.core.intervals import Median
from batchmark_job.result_scaling import Scaling
from batchmark_job.result_values import Parameter

TRAINING, ALL_REDUCE, READING = "resnet50_data_parallel", "all_reduce", "read_images"


@dataclass(frozen=True)
class NodesSamples:
    """A row's samples in all jobs of a target."""

    nodes: int
    devices: int  # of each node
    pooled: RowSamples
    problem: str | None  # why there is no figure

    @classmethod
    def of(cls, target: TargetJobs, key: RowKey) -> Self | None:
        """None for a row whose parameters name no nodes, as those of other suites."""
        parameters = dict(key[1])
        nodes, devices = parameters.get("nodes"), parameters.get("devices")
        if not (isinstance(nodes, int) and isinstance(devices, int)):
            return None
        problem = target.problem(key)
        found = problem and problem.removeprefix(f"{target.name}: ")
        return cls(nodes, devices, target.samples[key], found)

    @property
    def workload(self) -> str:
        return self.pooled.row.workload

    @property
    def parameters(self) -> dict[str, Parameter]:
        return self.pooled.row.parameters

    @property
    def ranks(self) -> int:
        return self.nodes * self.devices

    @property
    def median(self) -> Median | None:
        """Seconds per call of all nodes; None where there is no figure."""
        return None if self.problem else self.pooled.median

    @property
    def scalings(self) -> list[Scaling]:
        """One for each job that measured the row."""
        return [row.scaling for _, row in self.pooled.measured if row.scaling]

    def number(self, name: str) -> int | None:
        """A parameter that is a whole number."""
        value = self.parameters.get(name)
        return value if isinstance(value, int) else None

    def over_jobs(self, read: Callable[[Scaling], float | None]) -> float | None:
        """The median over the jobs that tell it."""
        known = [value for one in self.scalings if (value := read(one)) is not None]
        return median(known) if known else None
