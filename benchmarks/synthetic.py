"""Synthetic series for the detector's benchmarks, and a description of this machine."""

from __future__ import annotations

import os
import platform

import numpy as np
from numpy.typing import NDArray

from batchmark.changes.records import Series, SeriesKey
from batchmark_job.result.document import Device

RUNS_A_MONTH = 52 / 12  # on the weekly schedule
FIRST, INTERVAL = np.datetime64("2026-01-05", "us"), np.timedelta64(1, "D")


def series_key(*, target: str = "synthetic", parameters: str = "{}") -> SeriesKey:
    return SeriesKey(
        suite="synthetic",
        target=target,
        actual_device=Device.CPU,
        instance_type=None,
        cpu_model="synthetic",
        gpu_model=None,
        workload="synthetic",
        parameters=parameters,
        dtype="float64",
    )


def daily(key: SeriesKey, runs: NDArray[np.int64], seconds: NDArray[np.float64]) -> Series:
    """Return these runs as a series with one run per day."""
    return Series(key, "time", [run_name(run) for run in runs], FIRST + runs * INTERVAL, seconds)


def run_name(run: int) -> str:
    return f"run-{run:04}"


def this_machine() -> str:
    return f"{platform.platform()}, {os.cpu_count()} CPUs, Python {platform.python_version()}"
