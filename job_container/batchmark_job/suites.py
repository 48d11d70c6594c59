"""The suites: named grids of workloads and sizes, which are the same for CPU and GPU targets."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from batchmark_job.distributed.point import ScalingPoint, scaling_points
from batchmark_job.errors import InputError
from batchmark_job.measuring.limits import RowLimits
from batchmark_job.result.scaling_options import ScalingOptions
from batchmark_job.result.sharing_options import SharingOptions
from batchmark_job.sharing.point import SharingPoint, sharing_points
from batchmark_job.workloads.base import Axis
from batchmark_job.workloads.own.files import (
    find_user_files,
    find_workload,
    read_workload,
    user_folder,
)

USER_SUITE = "own"  # the suite of the user's own workloads
SHARING = "sharing"  # the suite of tasks that share a device
SCALING = "scaling"  # the suite of what several nodes do together
CUSTOM = "custom"  # the suite's name in a result when axes were given by hand


@dataclass(frozen=True)
class Point:
    workload: str
    parameters: Mapping[str, int]
    dtype: str = "float32"
    sharing: SharingPoint | None = None
    scaling: ScalingPoint | None = None

    @property
    def named_parameters(self) -> dict[str, Any]:
        """The parameters that distinguish the point's row from other rows."""
        more = self.sharing or self.scaling
        return {**self.parameters, **(more.parameters() if more else {})}


@dataclass(frozen=True)
class Grid:
    """A workload with every combination of its axes' values and dtypes."""

    workload: str
    axes: Mapping[str, Sequence[int]]
    dtypes: Sequence[str] = ("float32",)

    def points(self, dtypes: Sequence[str] = ()) -> list[Point]:
        """Return every combination, varying the dtype fastest; `dtypes` overrides the grid's own.

        Raises:
            InputError: a workload or axis is unknown, an axis is missing, or a value out of range.
        """
        axes = find_workload(self.workload).axes
        known = [axis.name for axis in axes]
        for name in self.axes:
            if name not in known:
                raise InputError(
                    f"workload {self.workload} has no axis {name!r}; known: {', '.join(known)}"
                )
        values = {axis.name: self._values(axis) for axis in axes}
        return [
            Point(self.workload, dict(zip(values, combination, strict=True)), dtype)
            for combination in itertools.product(*values.values())
            for dtype in dtypes or self.dtypes
        ]

    def _values(self, axis: Axis) -> Sequence[int]:
        if axis.name not in self.axes:
            if axis.default is None:
                raise InputError(
                    f"workload {self.workload} requires the axis {axis.name!r}: add --axis "
                    f"{axis.name}=N[,N…]"
                )
            return [axis.default]
        for value in self.axes[axis.name]:
            if not axis.minimum <= value <= axis.maximum:
                raise InputError(
                    f"{self.workload} does not support {axis.name}={value}; use {axis.minimum} to "
                    f"{axis.maximum}"
                )
        return self.axes[axis.name]


@dataclass(frozen=True)
class Suite:
    name: str
    summary: str
    grids: tuple[Grid, ...]
    limits: RowLimits = field(default_factory=RowLimits)
    sharing: SharingOptions | None = None  # how its tasks share the device
    scaling: ScalingOptions | None = None  # what several nodes measure together
    files: Path | None = None  # folder of the shards that they read

    def points(self, dtypes: Sequence[str] = ()) -> list[Point]:
        if self.scaling is not None:
            return [
                Point(point.measured.name, {}, dtype, scaling=point)
                for point in scaling_points(self.scaling, self.files)
                for dtype in (point.measured.trains and dtypes) or ("float32",)
            ]
        points = [point for grid in self.grids for point in grid.points(dtypes)]
        if self.sharing is None:
            return points
        shares = sharing_points(self.sharing)
        return [replace(point, sharing=share) for point in points for share in shares]


PRECISIONS = ("float32", "tf32", "bfloat16", "float16")

_SUITES = (
    Suite(
        name="smoke",
        summary="small sizes of everything; about a minute, up to two on a busy machine",
        grids=(
            Grid("matmul", {"size": (256, 512, 1024, 1536)}),
            Grid("image_convolution", {"size": (128, 256, 512), "batch": (1,)}),
            Grid("image_convolution", {"size": (256,), "batch": (2,)}),
            Grid("gaussian_blur", {"size": (512, 1024, 2048)}),
            Grid("edge_detection", {"size": (512, 1024, 2048)}),
            Grid("fft", {"size": (128, 256)}),
            Grid("sort", {"size": (10_000, 100_000)}),
            Grid("reduction", {"size": (100_000, 1_000_000)}),
            Grid("attention_forward", {"sequence": (64, 128)}),
            Grid("attention_backward", {"sequence": (64, 128)}),
            Grid("cnn_training_step", {"batch": (1, 2)}),
        ),
        limits=RowLimits(max_seconds=0.2, processes=2),
    ),
    Suite(
        name="blog",
        summary="the sizes of a published comparison",
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
    Suite(
        name="precision",
        summary="matrix products and convolutions in every precision that tensor cores support",
        grids=(
            Grid("matmul", {"size": (1024, 2048, 4096, 8192)}, PRECISIONS),
            Grid("image_convolution", {"size": (512, 1024, 2048, 4096)}, PRECISIONS),
        ),
    ),
    Suite(
        name="building_blocks",
        summary="Fourier transform, sort, sum and attention, from small to large",
        grids=(
            Grid("fft", {"size": (256, 512, 1024, 2048, 4096, 8192)}),
            Grid("sort", {"size": (10**4, 10**5, 10**6, 10**7, 10**8)}),
            Grid("reduction", {"size": (10**5, 10**6, 10**7, 10**8, 10**9)}),
            Grid("attention_forward", {"sequence": (128, 256, 512, 1024, 2048, 4096)}),
            Grid("attention_backward", {"sequence": (128, 256, 512, 1024, 2048, 4096)}),
        ),
    ),
    Suite(
        name="training",
        summary="training steps of a small CNN and of ResNet-50, and ResNet-50's inference",
        grids=(
            Grid("cnn_training_step", {"batch": (1, 8, 32, 128, 512)}),
            Grid("resnet50_inference", {"batch": (1, 4, 16, 64)}),
            Grid("resnet50_training", {"batch": (2, 4, 8, 16, 32)}),
        ),
    ),
    Suite(
        name=SHARING,
        summary="1 to 20 training steps of a small CNN at once on one device, in every mode",
        grids=(Grid("cnn_training_step", {"batch": (32,)}),),
        limits=RowLimits(max_seconds=6.0, turns=1),
        sharing=SharingOptions(),
    ),
    Suite(
        name=SCALING,
        summary="ResNet-50 trained by several nodes together, and their all-reduces and file reads",
        grids=(),
        limits=RowLimits(samples=50, max_seconds=60.0, processes=2, turns=1),
        scaling=ScalingOptions(),
    ),
)
SUITES: dict[str, Suite] = {suite.name: suite for suite in _SUITES}
NAMES = (*SUITES, USER_SUITE)


def find_suite(name: str) -> Suite:
    """Look up a suite by name; the suite for users' own workloads is built from their files.

    Raises:
        InputError: there is no such suite, or a user's own workload can't be used.
    """
    if name == USER_SUITE:
        return _user_suite()
    suite = SUITES.get(name)
    if suite is None:
        raise InputError(f"unknown suite {name!r}; known: {', '.join(NAMES)}")
    return suite


def _user_suite() -> Suite:
    workloads, problems = [], []
    for path in find_user_files().values():
        try:
            workloads.append(read_workload(path))
        except InputError as error:
            problems.append(str(error))
    if problems:
        raise InputError("; ".join(problems))
    if not workloads:
        raise InputError(f"suite {USER_SUITE} is empty: add a file NAME.py to {user_folder()}")
    grids = tuple(Grid(workload.name, workload.sizes, workload.dtypes) for workload in workloads)
    return Suite(USER_SUITE, "all your own workloads, with the sizes given in their files", grids)
