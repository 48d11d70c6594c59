"""How hard a job drives its machine: sampled while it measures, sent to CloudWatch at the end.

CPUUtilization   percent of the CPU time that the compute threads could have had
MemoryUsed       resident memory of this process; a megabyte is 10^6 bytes
GPUUtilization   percent of the last second or less in which a kernel ran, as NVML tells it
GPUMemoryUsed    used memory of the GPU, the driver's own share included

GPU metrics are means over the GPUs the job sees, and exist only where it measures on CUDA.
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Protocol

import psutil

from batchmark_job.result import Device

if TYPE_CHECKING:
    from collections.abc import Sequence

PERIOD_SECONDS = 5.0
LAST_SAMPLE_SECONDS = 1.0  # a driver that hangs must not hold up the end
# Batch kills a container 30 s after it told it to stop, and the document may take 20 of them.
PUBLISH_SECONDS = 5.0
DATUMS_PER_CALL = 1000  # the most that PutMetricData takes

UNITS = {
    "CPUUtilization": "Percent",
    "MemoryUsed": "Megabytes",
    "GPUUtilization": "Percent",
    "GPUMemoryUsed": "Megabytes",
}


class Meter(Protocol):
    """One source of samples."""

    def read(self) -> dict[str, float]:
        """Values by metric, in the units of UNITS; cheap, since measurements run meanwhile."""


class ProcessMeter:
    """This process alone: looking for children would take milliseconds, and it has none."""

    def __init__(self, compute_threads: int) -> None:
        self._compute_threads = compute_threads
        self._process = psutil.Process()
        self._last: tuple[float, float] | None = None

    def read(self) -> dict[str, float]:
        values = {"MemoryUsed": self._process.memory_info().rss / 1e6}
        now, used = time.monotonic(), time.process_time()
        if self._last is not None and now > self._last[0]:
            share = (used - self._last[1]) / ((now - self._last[0]) * self._compute_threads)
            values["CPUUtilization"] = min(100.0, 100 * share)
        self._last = now, used
        return values


class GpuMeter:
    """The GPUs that torch sees, and no other GPU of the machine."""

    def __init__(self, uuids: Sequence[str]) -> None:
        import pynvml

        self._nvml = pynvml
        pynvml.nvmlInit()
        self._gpus = [pynvml.nvmlDeviceGetHandleByUUID(uuid) for uuid in uuids]

    def read(self) -> dict[str, float]:
        percents = [self._nvml.nvmlDeviceGetUtilizationRates(gpu).gpu for gpu in self._gpus]
        used_bytes = [self._nvml.nvmlDeviceGetMemoryInfo(gpu).used for gpu in self._gpus]
        return {
            "GPUUtilization": sum(percents) / len(percents),
            "GPUMemoryUsed": sum(used_bytes) / len(used_bytes) / 1e6,
        }


def meters_for(device: Device, compute_threads: int) -> list[Meter]:
    """What can be sampled where this device is measured; says what can't."""
    meters: list[Meter] = [ProcessMeter(compute_threads)]
    if device is Device.CUDA:
        try:
            meters.append(GpuMeter(_visible_gpus()))
        except Exception as error:
            _warn(f"no GPU metrics: {_one_line(error)}")
    return meters


def _visible_gpus() -> list[str]:
    """NVML's names for torch's devices: the numbers differ where CUDA_VISIBLE_DEVICES is set."""
    import torch

    properties = map(torch.cuda.get_device_properties, range(torch.cuda.device_count()))
    return [f"GPU-{gpu.uuid}" for gpu in properties]


@dataclass
class StatisticSet:
    """Samples of one metric in one minute, as CloudWatch takes them together."""

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
    """Samples its meters every PERIOD_SECONDS from start to stop; without a namespace for itself.

    Neither sampling nor publishing ever fails the job: what goes wrong is one line in its log.
    """

    def __init__(self, meters: Sequence[Meter], namespace: str | None, target: str) -> None:
        self._meters = list(meters)
        self._namespace = namespace
        self._target = target
        self._minutes: defaultdict[tuple[str, datetime], StatisticSet] = defaultdict(StatisticSet)
        self._recording = threading.Lock()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="telemetry", daemon=True)
        self._publishing = threading.Lock()
        self._published = False

    def start(self) -> None:
        """Take the first sample and leave the others to a thread."""
        if self._meters:
            self._sample()
            self._thread.start()

    def stop(self) -> None:
        """Take the last sample; may be called again, from any thread."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(LAST_SAMPLE_SECONDS)

    def publish(self) -> None:
        """Stop and send everything once, within PUBLISH_SECONDS; a second caller waits for that."""
        with self._publishing:
            if self._published:
                return
            self._published = True
            self.stop()
            if self._namespace is None or not self._minutes:
                return
            sending = threading.Thread(target=self._send, name="publish metrics", daemon=True)
            sending.start()
            # Not all of boto3's waits, such as for a name server, have a limit of their own.
            sending.join(PUBLISH_SECONDS)
            if sending.is_alive():
                _warn(f"metrics not published: not done within {PUBLISH_SECONDS:g} s")

    def datums(self) -> list[dict[str, Any]]:
        """PutMetricData's MetricData: for each metric and minute one set of statistics."""
        with self._recording:
            return [
                {
                    "MetricName": metric,
                    "Dimensions": [{"Name": "Target", "Value": self._target}],
                    "Timestamp": minute,
                    "Unit": UNITS[metric],
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
                _warn(f"{type(meter).__name__} ends early: {_one_line(error)}")
                continue
            with self._recording:
                for metric, value in values.items():
                    self._minutes[metric, minute].add(value)

    def _send(self) -> None:
        try:
            datums = self.datums()
            client = _cloudwatch()
            for start in range(0, len(datums), DATUMS_PER_CALL):
                client.put_metric_data(
                    Namespace=self._namespace, MetricData=datums[start : start + DATUMS_PER_CALL]
                )
        except Exception as error:
            _warn(f"metrics not published: {_one_line(error)}")


def _cloudwatch() -> Any:
    import boto3
    from botocore.config import Config

    config = Config(
        retries={"mode": "standard", "total_max_attempts": 2}, connect_timeout=2, read_timeout=2
    )
    return boto3.client("cloudwatch", config=config)


def _warn(text: str) -> None:
    print(f"batchmark_job: warning: {text}", flush=True)


def _one_line(error: Exception) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())
