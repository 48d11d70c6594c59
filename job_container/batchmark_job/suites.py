"""The suites: named grids of workloads and sizes. CPU and GPU targets run the same grid."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from batchmark_job.exceptions import InputError
from batchmark_job.workloads import WORKLOADS

CUSTOM = "custom"  # the suite's name in a result when axes were given by hand


@dataclass(frozen=True)
class Limits:
    """When sampling stops: after `samples`, or after `max_seconds` once there are a minimum."""

    samples: int = 20
    max_seconds: float = 10.0
    minimum_samples: int = 6  # fewer allow no 95 % interval of a median

    def __post_init__(self) -> None:
        if self.samples < self.minimum_samples:
            raise InputError(
                f"--samples {self.samples} is too few; give {self.minimum_samples} or more"
            )
        if not (math.isfinite(self.max_seconds) and self.max_seconds > 0):
            raise InputError(
                f"--max-seconds {self.max_seconds} is no time; give a finite number above 0"
            )

    def reached(self, samples: int, seconds: float) -> bool:
        if samples >= self.samples:
            return True
        return samples >= self.minimum_samples and seconds >= self.max_seconds


@dataclass(frozen=True)
class Point:
    """One point of a workload's grid."""

    workload: str
    parameters: Mapping[str, int]


@dataclass(frozen=True)
class Grid:
    """A workload on all combinations of its axes' values."""

    workload: str
    axes: Mapping[str, Sequence[int]]

    def points(self) -> list[Point]:
        """Every combination, the last axis fastest.

        Raises:
            InputError: an unknown workload or axis, or a value out of an axis's range.
        """
        workload = WORKLOADS.get(self.workload)
        if workload is None:
            raise InputError(f"unknown workload {self.workload!r}; known: {', '.join(WORKLOADS)}")
        known = {axis.name: axis for axis in workload.axes}
        for name in self.axes:
            if name not in known:
                raise InputError(
                    f"workload {self.workload} has no axis {name!r}; it has {', '.join(known)}"
                )
        values: dict[str, Sequence[int]] = {}
        for axis in workload.axes:
            if axis.name in self.axes:
                values[axis.name] = self.axes[axis.name]
            elif axis.default is not None:
                values[axis.name] = [axis.default]
            else:
                raise InputError(
                    f"workload {self.workload} needs its axis {axis.name!r}; "
                    f"give --axis {axis.name}=N[,N…]"
                )
            for value in values[axis.name]:
                if not axis.minimum <= value <= axis.maximum:
                    raise InputError(
                        f"{self.workload} can't have {axis.name}={value}; "
                        f"give {axis.minimum} to {axis.maximum}"
                    )
        return [
            Point(self.workload, dict(zip(values, combination, strict=True)))
            for combination in itertools.product(*values.values())
        ]


@dataclass(frozen=True)
class Suite:
    name: str
    summary: str
    grids: tuple[Grid, ...]
    limits: Limits = Limits()

    def points(self) -> list[Point]:
        return [point for grid in self.grids for point in grid.points()]


_SUITES = (
    Suite(
        name="smoke",
        summary="small sizes of everything, done in seconds",
        grids=(
            Grid("matmul", {"size": (256, 512, 1024, 1536)}),
            Grid("image_convolution", {"size": (128, 256, 512), "batch": (1,)}),
            Grid("image_convolution", {"size": (256,), "batch": (2,)}),
            Grid("gaussian_blur", {"size": (512, 1024, 2048)}),
            Grid("edge_detection", {"size": (512, 1024, 2048)}),
        ),
        limits=Limits(samples=15, max_seconds=0.3),
    ),
    Suite(
        name="blog",
        summary="the grid of the published comparison we start from",
        grids=(
            Grid("matmul", {"size": (1000, 5000, 8000, 10000)}),
            Grid("image_convolution", {"size": (2048, 4096), "batch": (1, 2)}),
            Grid("gaussian_blur", {"size": (2048,)}),
        ),
    ),
    Suite(
        name="sam",
        summary="the SAM stack's GPU and CPU grids united, so that every row can be compared",
        grids=(
            Grid(
                "matmul",
                {"size": (1000, 2000, 3000, 4000, 5000, 7500, 10000, 12500, 15000)},
            ),
            Grid("image_convolution", {"size": (2048, 4096, 8192), "batch": (1, 2, 4, 8)}),
            Grid("gaussian_blur", {"size": (2048, 4096, 8192)}),
            Grid("edge_detection", {"size": (2048, 4096, 8192)}),
        ),
    ),
)
SUITES: dict[str, Suite] = {suite.name: suite for suite in _SUITES}


def find_suite(name: str) -> Suite:
    suite = SUITES.get(name)
    if suite is None:
        raise InputError(f"unknown suite {name!r}; known: {', '.join(SUITES)}")
    return suite
