"""A job's settings, taken from the command line."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from batchmark_job.distributed.node import Node
from batchmark_job.measuring.limits import RowLimits
from batchmark_job.output import Output
from batchmark_job.result.version import GivenVersion
from batchmark_job.sharing.meeting import Place
from batchmark_job.suites import Point

RequestedDevice = Literal["auto", "cpu", "cuda"]


@dataclass(frozen=True)
class JobSettings:
    """What to measure, on which device, and where to write the document."""

    run_id: str
    job_id: str
    job_attempt: int
    target: str
    suite: str
    points: tuple[Point, ...]
    limits: RowLimits
    requested_device: RequestedDevice
    threads: int
    allow_cpu_fallback: bool
    output: Output
    metrics_namespace: str | None
    ceilings: bool
    place: Place | None = None  # its place among replicas in separate containers
    node: Node | None = None  # in a suite that several nodes measure together
    version: GivenVersion | None = None  # version of what is measured, if given

    @property
    def dtypes(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(point.dtype for point in self.points))
