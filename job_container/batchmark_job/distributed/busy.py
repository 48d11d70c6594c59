"""Samples a node's GPU utilisation while its ranks run."""

from __future__ import annotations

import contextlib
import statistics
import threading
import time
from collections.abc import Sequence

from batchmark_job.errors import one_line, warn
from batchmark_job.machine import nvml

PERIOD_SECONDS = 0.5  # NVML's utilisation is itself a mean over 1/6 to 1 s
MOST_READINGS = 10_000  # 83 minutes; a node sends them in one line of at most lines.MOST_BYTES


class GpuUtilisation:
    """Samples GPU utilisation through NVML, without loading torch."""

    def __init__(self, gpus: Sequence[nvml.Gpu]) -> None:
        self._gpus = gpus
        self._stop = threading.Event()
        self._readings: list[tuple[float, float]] = []
        self._thread: threading.Thread | None = None

    @classmethod
    def of(cls, device: str, devices: int) -> GpuUtilisation | None:
        """Return a sampler for the first `devices` GPUs, or None on the CPU or without NVML."""
        if device != "cuda":
            return None
        try:
            return cls(nvml.all_gpus()[:devices])
        except Exception as error:
            warn(f"GPU utilisation is not recorded: {one_line(error)}")
            return None

    def start(self) -> None:
        self._stop.clear()
        self._readings = []
        self._thread = threading.Thread(target=self._read, name="busy", daemon=True)
        self._thread.start()

    def stop(self) -> tuple[tuple[float, float], ...]:
        """Stop sampling, and return (seconds since the start, mean GPU utilisation) per reading."""
        self._stop.set()
        if self._thread:
            self._thread.join()
        return tuple(self._readings)

    def _read(self) -> None:
        began = time.monotonic()
        while not self._stop.wait(PERIOD_SECONDS) and len(self._readings) < MOST_READINGS:
            with contextlib.suppress(Exception):
                found = [gpu.utilization_percent() for gpu in self._gpus]
                known = [percent / 100 for percent in found if percent is not None]
                if known:
                    self._readings.append((time.monotonic() - began, statistics.fmean(known)))
