"""How one row is measured: cold call, warm-up, warm samples, transfers, correctness."""

from __future__ import annotations

import gc
import statistics
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from batchmark_job import memory
from batchmark_job.result import (
    Correctness,
    Implementation,
    Measurement,
    MeasurementStatus,
    Phases,
)
from batchmark_job.workloads.base import TOLERANCES

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from torch import Tensor

    from batchmark_job.suites import Limits
    from batchmark_job.workloads.base import Call, Tensors, Workload
    from batchmark_job.workloads.base import Implementation as Candidate

SEED = 20261101
TRANSFER_SAMPLES = 5
WARMUP_CALLS = 5
WARMUP_SHARE = 0.1  # of the time that sampling may take


class DeviceTimer:
    """Monotonic time around a call, the device idle before and finished after it."""

    def __init__(self, device: str) -> None:
        self.device = device

    def synchronize(self) -> None:
        if self.device == "cuda":
            import torch

            torch.cuda.synchronize()

    def seconds(self, call: Callable[[], Any]) -> tuple[float, Any]:
        """Duration and result of one call."""
        self.synchronize()
        start = time.perf_counter()
        result = call()
        self.synchronize()
        return time.perf_counter() - start, result


@dataclass
class Row:
    """One row being measured; readable from another thread at any moment."""

    workload: Workload
    parameters: Mapping[str, int]
    dtype: str
    implementation: Implementation | None = None
    cold_seconds: float | None = None
    samples: list[float] = field(default_factory=list)
    phases: Phases | None = None
    correctness: Correctness | None = None

    def finish(self, status: MeasurementStatus, reason: str | None = None) -> Measurement:
        return Measurement(
            workload=self.workload.name,
            parameters=dict(self.parameters),
            dtype=self.dtype,
            status=status,
            reason=reason,
            implementation=self.implementation,
            cold_seconds=self.cold_seconds,
            samples_seconds=tuple(self.samples),
            phases=self.phases,
            flops=self.workload.flops(self.parameters),
            bytes_moved=self.workload.bytes_moved(self.parameters, self.dtype),
            correctness=self.correctness,
        )


def measure(row: Row, device: str, limits: Limits) -> Measurement:
    """Measure a row; what goes wrong becomes its status, never an exception."""
    try:
        return _measure(row, device, limits)
    except Exception as error:
        if _is_out_of_memory(error):
            reason = f"out of memory when tried: {_first_line(error)}"
            return row.finish(MeasurementStatus.SKIPPED, reason)
        reason = f"{type(error).__name__}: {_first_line(error)}"
        return row.finish(MeasurementStatus.FAILED, reason)
    finally:
        _free_memory(device)


def _measure(row: Row, device: str, limits: Limits) -> Measurement:
    workload, parameters, dtype = row.workload, row.parameters, row.dtype
    candidate = workload.implementation(device, dtype)
    if isinstance(candidate, str):
        return row.finish(MeasurementStatus.SKIPPED, candidate)
    row.implementation = Implementation(name=candidate.name, version=candidate.version())
    shortage = memory.shortage(workload, candidate, parameters, dtype, device)
    if shortage:
        return row.finish(MeasurementStatus.SKIPPED, shortage)

    host_inputs = candidate.arrange(workload.make_inputs(parameters, dtype, SEED))
    timer = DeviceTimer(device)
    output = _time_calls(row, candidate, host_inputs, timer, limits)
    error = workload.relative_error(host_inputs, output, np.random.default_rng(SEED))
    return _judged(row, error)


def _judged(row: Row, error: float) -> Measurement:
    if not np.isfinite(error):
        return row.finish(MeasurementStatus.FAILED, f"wrong result: it contains {error}")
    row.correctness = Correctness(relative_error=error, tolerance=TOLERANCES[row.dtype])
    if not row.correctness.passed:
        allowed = row.correctness.tolerance
        reason = f"wrong result: relative error {error:.2g}, {row.dtype} allows {allowed:g}"
        return row.finish(MeasurementStatus.FAILED, reason)
    return row.finish(MeasurementStatus.MEASURED)


def _time_calls(
    row: Row, candidate: Candidate, host_inputs: Tensors, timer: DeviceTimer, limits: Limits
) -> Tensor:
    """Fill the row's times; returns the last call's output."""
    import torch

    with torch.inference_mode():
        transfers: dict[str, float] = {}
        inputs = host_inputs
        if timer.device == "cuda":
            inputs, transfers = _to_device(host_inputs, timer)
        call = candidate.prepare(inputs)
        row.cold_seconds, output = timer.seconds(call)
        _warm_up(call, timer, limits)
        output = _sample(call, timer, limits, row.samples)
        if timer.device == "cuda":
            transfers["device_to_host_seconds"] = _from_device(output, timer)
        row.phases = Phases(compute_seconds=statistics.median(row.samples), **transfers)
    return output


def _warm_up(call: Call, timer: DeviceTimer, limits: Limits) -> None:
    seconds = 0.0
    for _ in range(WARMUP_CALLS):
        seconds += timer.seconds(call)[0]
        if seconds >= WARMUP_SHARE * limits.max_seconds:
            return


def _sample(call: Call, timer: DeviceTimer, limits: Limits, samples: list[float]) -> Tensor:
    gc.collect()
    gc.disable()
    try:
        start = time.perf_counter()
        while True:
            seconds, output = timer.seconds(call)
            samples.append(seconds)
            if limits.reached(len(samples), time.perf_counter() - start):
                return output  # type: ignore[no-any-return]
    finally:
        gc.enable()


def _to_device(host_inputs: Tensors, timer: DeviceTimer) -> tuple[Tensors, dict[str, float]]:
    import torch

    def allocate() -> Tensors:
        return tuple(torch.empty_like(tensor, device=timer.device) for tensor in host_inputs)

    def copy() -> None:
        for target, source in zip(inputs, pinned, strict=True):
            target.copy_(source, non_blocking=True)

    pinned = tuple(tensor.pin_memory() for tensor in host_inputs)
    allocate_seconds, inputs = timer.seconds(allocate)
    timer.seconds(copy)
    copies = [timer.seconds(copy)[0] for _ in range(TRANSFER_SAMPLES)]
    return inputs, {
        "allocate_seconds": allocate_seconds,
        "host_to_device_seconds": statistics.median(copies),
    }


def _from_device(output: Tensor, timer: DeviceTimer) -> float:
    import torch

    target = torch.empty_like(output, device="cpu").pin_memory()
    timer.seconds(lambda: target.copy_(output, non_blocking=True))
    return statistics.median(
        timer.seconds(lambda: target.copy_(output, non_blocking=True))[0]
        for _ in range(TRANSFER_SAMPLES)
    )


def _is_out_of_memory(error: Exception) -> bool:
    import torch

    # The CPU allocator of torch raises a plain RuntimeError.
    return isinstance(error, MemoryError | torch.OutOfMemoryError) or "can't allocate" in str(error)


def _free_memory(device: str) -> None:
    if device == "cuda":
        import torch

        torch.cuda.empty_cache()


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or ["no message"])[0]
