"""Samples how busy a job keeps its machine, and summarises it in the document.

CPUUtilization   percent of the CPU time that the compute threads could have had
MemoryUsed       resident memory of the job's processes, shared pages counted once
GPUUtilization   percent of the last second or less in which a kernel ran, according to NVML
GPUMemoryUsed    GPU memory in use, including the driver's share
GPUPower         power drawn by the whole board
GPUClock         clock of the streaming multiprocessors
GPUTemperature   temperature of the chip

A megabyte is 10^6 bytes. GPU metrics describe the measured GPU, which is the first visible one, and
exist only with NVML. Given a namespace, all metrics also go to CloudWatch at the end.
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, NamedTuple, Protocol

import boto3
import psutil
from botocore.config import Config

from batchmark_job.errors import one_line, warn
from batchmark_job.machine.nvml import Gpu
from batchmark_job.result.document import MetricSummary

# NVML's utilisation covers the last second at most: sampling less often would miss most of a job.
PERIOD_SECONDS = 1.0
LAST_SAMPLE_SECONDS = 1.0  # a hanging driver must not delay the end of the job
# Batch kills a container 30 s after SIGTERM, and writing the document may take 20 of them.
PUBLISH_SECONDS = 5.0
DATUMS_PER_CALL = 1000  # PutMetricData's limit


class Unit(NamedTuple):
    """A metric's unit for readers and for CloudWatch, which has no watt, hertz or degree."""

    name: str
    cloudwatch: str


UNITS = {
    "CPUUtilization": Unit("percent", "Percent"),
    "MemoryUsed": Unit("megabytes", "Megabytes"),
    "GPUUtilization": Unit("percent", "Percent"),
    "GPUMemoryUsed": Unit("megabytes", "Megabytes"),
    "GPUPower": Unit("watts", "None"),
    "GPUClock": Unit("megahertz", "None"),
    "GPUTemperature": Unit("degrees Celsius", "None"),
}


class Meter(Protocol):
    """One source of samples."""

    def read(self) -> dict[str, float]:
        """Return values by metric, in UNITS; must be cheap, because measurements are running."""


class ProcessMeter:
    """A meter for this process and its workers; `usage` gives the workers' CPU time and memory."""

    def __init__(self, compute_threads: int, usage: Callable[[], tuple[float, int]]) -> None:
        self._compute_threads = compute_threads
        self._usage = usage
        self._process = psutil.Process()
        self._last: tuple[float, float] | None = None

    def read(self) -> dict[str, float]:
        now, (workers_seconds, workers_bytes) = time.monotonic(), self._usage()
        values = {"MemoryUsed": (self._process.memory_info().rss + workers_bytes) / 1e6}
        used = time.process_time() + workers_seconds
        if self._last is not None and now > self._last[0]:
            share = (used - self._last[1]) / ((now - self._last[0]) * self._compute_threads)
            values["CPUUtilization"] = min(100.0, max(0.0, 100 * share))
        self._last = now, used
        return values


class GpuMeter:
    """A meter for one GPU; metrics that the GPU lacks are left out."""

    def __init__(self, gpu: Gpu) -> None:
        self._gpu = gpu

    def read(self) -> dict[str, float]:
        gpu = self._gpu
        found = {
            "GPUUtilization": (gpu.utilization_percent(), 1),
            "GPUMemoryUsed": (gpu.memory_used_bytes(), 1e6),
            "GPUPower": (gpu.power_watts(), 1),
            "GPUClock": (gpu.clock_hz(), 1e6),
            "GPUTemperature": (gpu.temperature_celsius(), 1),
        }
        return {name: value / unit for name, (value, unit) in found.items() if value is not None}


def meters_for(
    compute_threads: int, usage: Callable[[], tuple[float, int]], gpu: Gpu | None
) -> list[Meter]:
    process = ProcessMeter(compute_threads, usage)
    return [process, GpuMeter(gpu)] if gpu else [process]


@dataclass
class StatisticSet:
    """Statistics of one metric over a minute or a whole job, in CloudWatch's format."""

    count: int = 0
    total: float = 0.0
    minimum: float = float("inf")
    maximum: float = float("-inf")

    def add(self, value: float) -> None:
        self.count += 1
        self.total += value
        self.minimum = min(self.minimum, value)
        self.maximum = max(self.maximum, value)


class Telemetry:
    """Samples its meters every PERIOD_SECONDS, and publishes to CloudWatch if given a namespace.

    Neither sampling nor publishing can fail the job; an error is only logged.
    """

    def __init__(self, meters: Sequence[Meter], namespace: str | None, target: str) -> None:
        self._meters = list(meters)
        self._namespace = namespace
        self._target = target
        self._minutes: defaultdict[tuple[str, datetime], StatisticSet] = defaultdict(StatisticSet)
        self._whole: defaultdict[str, StatisticSet] = defaultdict(StatisticSet)
        self._recording = threading.Lock()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="telemetry", daemon=True)
        self._publishing = threading.Lock()
        self._published = False

    def start(self) -> None:
        """Take the first sample, and start a thread that takes the rest."""
        if self._meters:
            self._sample()
            self._thread.start()

    def stop(self) -> None:
        """Take a last sample and stop; safe to call more than once, from any thread."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(LAST_SAMPLE_SECONDS)

    def summary(self) -> tuple[MetricSummary, ...]:
        """Summarise each metric over all samples so far; after stop(), the summary is final."""
        with self._recording:
            return tuple(
                MetricSummary(
                    metric=metric,
                    unit=UNITS[metric].name,
                    samples=samples.count,
                    minimum=samples.minimum,
                    mean=samples.total / samples.count,
                    maximum=samples.maximum,
                )
                for metric, samples in self._whole.items()
            )

    def publish(self) -> None:
        """Stop and send everything once, within PUBLISH_SECONDS; later calls wait for the first."""
        with self._publishing:
            if self._published:
                return
            self._published = True
            self.stop()
            if self._namespace is None or not self._minutes:
                return
            sending = threading.Thread(target=self._send, name="publish metrics", daemon=True)
            sending.start()
            # boto3 has no timeout for some waits, such as for a name server.
            sending.join(PUBLISH_SECONDS)
            if sending.is_alive():
                warn(f"metrics not published: timed out after {PUBLISH_SECONDS:g} s")

    def datums(self) -> list[dict[str, Any]]:
        """Return PutMetricData's MetricData: one set of statistics per metric and minute."""
        with self._recording:
            return [
                {
                    "MetricName": metric,
                    "Dimensions": [{"Name": "Target", "Value": self._target}],
                    "Timestamp": minute,
                    "Unit": UNITS[metric].cloudwatch,
                    "StorageResolution": 60,
                    "StatisticValues": {
                        "SampleCount": samples.count,
                        "Sum": samples.total,
                        "Minimum": samples.minimum,
                        "Maximum": samples.maximum,
                    },
                }
                for (metric, minute), samples in self._minutes.items()
            ]

    def _run(self) -> None:
        while not self._stopping.wait(PERIOD_SECONDS):
            self._sample()
        self._sample()

    def _sample(self) -> None:
        minute = datetime.now(UTC).replace(second=0, microsecond=0)
        for meter in list(self._meters):
            try:
                values = meter.read()
            except Exception as error:
                self._meters.remove(meter)
                warn(f"{type(meter).__name__} stopped early: {one_line(error)}")
                continue
            with self._recording:
                for metric, value in values.items():
                    self._minutes[metric, minute].add(value)
                    self._whole[metric].add(value)

    def _send(self) -> None:
        try:
            datums = self.datums()
            client = _cloudwatch()
            for start in range(0, len(datums), DATUMS_PER_CALL):
                client.put_metric_data(
                    Namespace=self._namespace, MetricData=datums[start : start + DATUMS_PER_CALL]
                )
        except Exception as error:
            warn(f"metrics not published: {one_line(error)}")


def _cloudwatch() -> Any:
    config = Config(
        retries={"mode": "standard", "total_max_attempts": 2}, connect_timeout=2, read_timeout=2
    )
    return boto3.client("cloudwatch", config=config)
