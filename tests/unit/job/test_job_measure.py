"""What becomes of a row when its workload behaves, and when it does not."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest
import torch

from batchmark_job.measure import Row, measure
from batchmark_job.suites import Limits
from batchmark_job.workloads import WORKLOADS
from batchmark_job.workloads.matmul import Matmul, TorchMatmul

if TYPE_CHECKING:
    from collections.abc import Callable

    from batchmark_job.result import Measurement
    from batchmark_job.workloads.base import Call, Tensors

LIMITS = Limits(samples=8, max_seconds=0.2)
CUDA = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")


def spoilt_matmul(spoil: Callable[[torch.Tensor], torch.Tensor]) -> Matmul:
    """Matmul whose implementation does something else with the product."""

    class Spoilt(TorchMatmul):
        name = "spoilt"

        def prepare(self, inputs: Tensors) -> Call:
            call = super().prepare(inputs)
            return lambda: spoil(call())

    class SpoiltMatmul(Matmul):
        implementations = (Spoilt(),)

    return SpoiltMatmul()


def measure_spoilt(spoil: Callable[[torch.Tensor], torch.Tensor]) -> Measurement:
    return measure(Row(spoilt_matmul(spoil), {"size": 32}, "float32"), "cpu", LIMITS)


@pytest.mark.parametrize("name", WORKLOADS)
def test_measured_row_is_complete(name: str) -> None:
    workload = WORKLOADS[name]
    parameters = {axis.name: axis.default or 64 for axis in workload.axes}
    measurement = measure(Row(workload, parameters, "float32"), "cpu", LIMITS)
    assert measurement.status == "measured", measurement.reason
    assert measurement.parameters == parameters
    assert 6 <= len(measurement.samples_seconds) <= 8
    assert measurement.phases is not None
    assert measurement.phases.compute_seconds in measurement.samples_seconds or (
        len(measurement.samples_seconds) % 2 == 0
    )
    assert measurement.phases.host_to_device_seconds is None
    assert measurement.flops == workload.flops(parameters)
    assert measurement.implementation is not None
    assert measurement.implementation.version


@CUDA
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
@pytest.mark.parametrize("name", WORKLOADS)
def test_measured_row_on_cuda(name: str, dtype: str) -> None:
    workload = WORKLOADS[name]
    parameters = {axis.name: axis.default or 512 for axis in workload.axes}
    measurement = measure(Row(workload, parameters, dtype), "cuda", LIMITS)
    assert measurement.status == "measured", measurement.reason
    assert measurement.phases is not None
    assert measurement.phases.host_to_device_seconds
    assert measurement.phases.device_to_host_seconds
    assert measurement.phases.allocate_seconds is not None


def test_wrong_result_fails_its_row() -> None:
    measurement = measure_spoilt(lambda product: product * 1.01)
    assert measurement.status == "failed"
    assert measurement.reason is not None
    assert measurement.reason.startswith("wrong result: relative error 0.01")
    assert measurement.correctness is not None
    assert not measurement.correctness.passed


def test_nan_fails_its_row() -> None:
    measurement = measure_spoilt(lambda product: product * float("nan"))
    assert measurement.status == "failed"
    assert measurement.reason == "wrong result: it contains nan"


def test_exception_fails_its_row() -> None:
    def explode(product: torch.Tensor) -> torch.Tensor:
        raise LookupError("no such kernel\nsecond line")

    measurement = measure_spoilt(explode)
    assert measurement.status == "failed"
    assert measurement.reason == "LookupError: no such kernel"


@pytest.mark.parametrize("error", [MemoryError("gone"), torch.OutOfMemoryError("CUDA: gone")])
def test_running_out_of_memory_skips_its_row(error: Exception) -> None:
    def explode(product: torch.Tensor) -> torch.Tensor:
        raise error

    measurement = measure_spoilt(explode)
    assert measurement.status == "skipped"
    assert measurement.reason == f"out of memory when tried: {error}"


def test_time_limit_ends_sampling_of_a_slow_row() -> None:
    def slow(product: torch.Tensor) -> torch.Tensor:
        time.sleep(0.1)
        return product

    measurement = measure_spoilt(slow)
    assert measurement.status == "measured"
    assert len(measurement.samples_seconds) == 6
    assert min(measurement.samples_seconds) >= 0.1


def test_cold_call_is_apart_and_inputs_are_not_timed() -> None:
    calls = 0

    def slow_at_first(product: torch.Tensor) -> torch.Tensor:
        nonlocal calls
        calls += 1
        if calls == 1:
            time.sleep(0.3)
        return product

    class SlowInputs(Matmul):
        implementations = spoilt_matmul(slow_at_first).implementations

        def make_inputs(self, *arguments: object) -> Tensors:
            time.sleep(0.3)
            return super().make_inputs(*arguments)  # type: ignore[arg-type]

    measurement = measure(Row(SlowInputs(), {"size": 32}, "float32"), "cpu", LIMITS)
    assert measurement.cold_seconds is not None
    assert measurement.cold_seconds >= 0.3
    assert min(measurement.samples_seconds) < 0.1
    warmups = calls - 1 - len(measurement.samples_seconds)
    assert 1 <= warmups <= 5


def test_dtype_nobody_has_is_skipped_with_the_reason() -> None:
    row = Row(WORKLOADS["edge_detection"], {"size": 16, "batch": 1}, "bfloat16")
    measurement = measure(row, "cpu", LIMITS)
    assert measurement.status == "skipped"
    assert measurement.reason == "opencv has no bfloat16; it has float32, float64"
