"""Computes how fast the nodes run all-reduces and read their files."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from pydantic import Field

from batchmark.analysis.roofline import rate
from batchmark.analysis.scaling.rows import ALL_REDUCE, READING, NodesSamples
from batchmark.core.intervals import Estimate
from batchmark.core.record import Record

MIB = 2**20
Pass = Literal["cold", "warm"]


class AllReducePoint(Record):
    """An all-reduce of one tensor across all ranks."""

    nodes: int
    devices: int
    size_bytes: int
    jobs: int
    samples: int
    seconds: Estimate
    bus_bytes_per_second: Estimate = Field(
        description="rate at which each link carries data: 2(n-1)/n times the all-reduce's "
        "bytes per second on n ranks"
    )

    @property
    def ranks(self) -> int:
        return self.nodes * self.devices


class ReadingPoint(Record):
    """A pass over all files; each node reads its own share."""

    nodes: int
    devices: int
    kind: Pass = Field(
        description="cold: the run's first pass, which fetches missing files from S3"
    )
    jobs: int
    samples: int
    seconds: Estimate
    bytes_per_second: Estimate = Field(description="combined rate of all nodes")


def all_reduce_points(found: Iterable[NodesSamples]) -> tuple[AllReducePoint, ...]:
    """Return points ordered by node count and size, skipping single ranks (nothing to reduce)."""
    points = []
    for samples in found:
        mib, median, ranks = samples.number("mib"), samples.median, samples.ranks
        if samples.workload != ALL_REDUCE or not (mib and median) or ranks < 2:
            continue
        seconds = median.estimate()
        points.append(
            AllReducePoint(
                nodes=samples.nodes,
                devices=samples.devices,
                size_bytes=mib * MIB,
                jobs=len(samples.pooled.measured),
                samples=median.samples.size,
                seconds=seconds,
                bus_bytes_per_second=seconds.inverse(mib * MIB).scaled(2 * (ranks - 1) / ranks),
            )
        )
    return tuple(sorted(points, key=lambda point: (point.nodes, point.size_bytes)))


def reading_points(found: Iterable[NodesSamples]) -> tuple[ReadingPoint, ...]:
    """Return points ordered by node count, with the cold pass first."""
    points = []
    for samples in found:
        kind, median = samples.parameters.get("pass"), samples.median
        if samples.workload != READING or not median or kind not in ("cold", "warm"):
            continue
        seconds = median.estimate()
        if moved := rate(samples.pooled.row.bytes_moved, seconds):
            points.append(
                ReadingPoint(
                    nodes=samples.nodes,
                    devices=samples.devices,
                    kind="cold" if kind == "cold" else "warm",
                    jobs=len(samples.pooled.measured),
                    samples=median.samples.size,
                    seconds=seconds,
                    bytes_per_second=moved,
                )
            )
    return tuple(sorted(points, key=lambda point: (point.nodes, point.kind)))
