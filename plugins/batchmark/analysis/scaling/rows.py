"""Rows of multi-node jobs, each with its samples from all of a target's jobs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Self

from batchmark.analysis.samples import RowSamples
from batchmark.core.intervals import Median, known_median
from batchmark_job.result.scaling import Scaling
from batchmark_job.result.values import Parameter

MOST = 10**6  # nodes, devices or images: a larger number can't be a count of them
TRAINING, ALL_REDUCE, READING = "resnet50_data_parallel", "all_reduce", "read_images"


@dataclass(frozen=True)
class NodesSamples:
    """A multi-node row's samples from all of a target's jobs."""

    nodes: int
    devices: int  # of each node
    pooled: RowSamples

    @classmethod
    def of(cls, pooled: RowSamples) -> Self | None:
        """Wrap a row, or return None if its parameters don't mention nodes, as in other suites."""
        nodes, devices = (_count(pooled.row.parameters.get(name)) for name in ("nodes", "devices"))
        return cls(nodes, devices, pooled) if nodes and devices else None

    @cached_property
    def problem(self) -> str | None:
        """The reason why there is no figure; None if there is one."""
        return self.pooled.problem or self._contradiction()

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
        """The median time of a call that all nodes make together, or None if there is no figure."""
        return None if self.problem else self.pooled.median

    @property
    def scalings(self) -> list[Scaling]:
        """Return the scaling record of each job that measured the row."""
        return [row.scaling for _, row in self.pooled.measured if row.scaling]

    def number(self, name: str) -> int | None:
        """Return the named parameter if it is a whole number above 0, else None."""
        return _count(self.parameters.get(name))

    def over_jobs(self, read: Callable[[Scaling], float | None]) -> float | None:
        """Return the median of a value over the jobs that report it."""
        return known_median(map(read, self.scalings))

    def _contradiction(self) -> str | None:
        """Return how the row's results contradict its parameters, or None if they don't."""
        nodes, devices, batch = self.nodes, self.devices, self.number("batch")
        for _, row in self.pooled.measured:
            told = [node.devices for node in row.scaling.nodes] if row.scaling else []
            if told != [devices] * nodes:
                return (
                    f"its parameters specify {nodes} x {devices} devices, but its nodes "
                    f"reported {told}"
                )
            if batch and row.items != self.ranks * batch:
                return f"a step has {row.items} images instead of {nodes} x {devices} x {batch}"
        return None


def _count(value: Parameter | None) -> int | None:
    return value if isinstance(value, int) and 0 < value <= MOST else None
