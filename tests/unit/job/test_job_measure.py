"""What becomes of a row when its workload behaves, and when it does not."""

from __future__ import annotations

import time
from itertools import count
from typing import TYPE_CHECKING, Any

import pytest
import torch

from batchmark_job.measure import Row, bench_for, measure
from batchmark_job.result import Conditions
from batchmark_job.suites import Limits
from batchmark_job.workloads import WORKLOADS
from tests.unit.job.stand_in_workloads import (
    after,
    matmul_by,
    raising,
    rival_called,
    slowed,
)

if TYPE_CHECKING:
    from batchmark_job.result import Measurement
    from batchmark_job.workloads.base import Implementation, Tensors, Workload
    from tests.unit.job.stand_in_workloads import Spoil

LIMITS = Limits(samples=10, max_seconds=0.2)
CUDA = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")


def measured(workload: Workload, limits: Limits = LIMITS, **bench: Any) -> Measurement:
    """On one thread: several wait for each other on a loaded machine."""
    bench = {"threads": 1, **bench}
    return measure(Row(workload, {"size": 32}, "float32"), bench_for("cpu", limits, **bench))


def measured_by(*rivals: Implementation, limits: Limits = LIMITS) -> Measurement:
    return measured(matmul_by(*rivals), limits)


def measured_spoilt(spoil: Spoil, limits: Limits = LIMITS) -> Measurement:
    return measured_by(rival_called("spoilt", spoil), limits=limits)


def test_measured_row_is_complete() -> None:
    measurement = measured(WORKLOADS["matmul"])
    # On a loaded machine samples may drift; what was found is there all the same.
    assert measurement.status in {"measured", "unsettled"}, measurement.reason
    assert measurement.timer == "monotonic"
    assert measurement.stopping is not None
    assert measurement.warmup_calls
    assert measurement.cold_seconds
    assert measurement.phases is not None
    assert measurement.phases.host_to_device_seconds is None
    assert measurement.flops == 2 * 32**3
    assert measurement.implementation is not None
    assert measurement.implementation.version
    assert measurement.implementation.threads
    assert measurement.correctness is not None
    assert measurement.conditions_before is not None
    assert measurement.conditions_during is not None
    assert measurement.conditions_after is not None
    chosen = [trial for trial in measurement.trials if trial.outcome == "chosen"]
    assert [trial.implementation for trial in chosen] == [measurement.implementation]


@CUDA
def test_measured_row_on_cuda() -> None:
    row = Row(WORKLOADS["matmul"], {"size": 512}, "float32")
    measurement = measure(row, bench_for("cuda", LIMITS))
    assert measurement.status == "measured", measurement.reason
    assert measurement.timer == "cuda_events"
    assert measurement.peak_memory_bytes
    assert measurement.phases is not None
    assert measurement.phases.host_to_device_seconds
    assert measurement.phases.device_to_host_seconds
    assert measurement.phases.allocate_seconds is not None


def test_wrong_result_fails_its_row() -> None:
    measurement = measured_spoilt(lambda product: product * 1.01)
    assert measurement.status == "failed"
    assert measurement.reason is not None
    assert measurement.reason.startswith("wrong result: relative error 0.01")
    assert measurement.reason.endswith(", float32 allows 1e-05")
    assert measurement.correctness is not None
    assert not measurement.correctness.passed
    assert measurement.samples_seconds == ()


def test_nan_fails_its_row() -> None:
    measurement = measured_spoilt(lambda product: product * float("nan"))
    assert measurement.status == "failed"
    assert measurement.reason == "wrong result: it contains nan"


def test_exception_fails_its_row() -> None:
    measurement = measured_spoilt(raising(LookupError("no such kernel\nsecond line")))
    assert measurement.status == "failed"
    assert measurement.reason == "LookupError: no such kernel"


@pytest.mark.parametrize("error", [MemoryError("gone"), torch.OutOfMemoryError("CUDA: gone")])
def test_running_out_of_memory_skips_its_row(error: Exception) -> None:
    measurement = measured_spoilt(raising(error))
    assert measurement.status == "skipped"
    assert measurement.reason == f"out of memory when tried: {error}"
    assert [trial.outcome for trial in measurement.trials] == ["failed"]


def test_broken_rival_says_more_than_one_out_of_memory() -> None:
    measurement = measured_by(
        rival_called("hungry", raising(MemoryError("gone"))),
        rival_called("broken", raising(LookupError("no such kernel"))),
    )
    assert measurement.status == "failed"
    assert measurement.reason == "LookupError: no such kernel"


def test_wrong_rival_leaves_its_trace_beside_the_right_one() -> None:
    measurement = measured_by(
        rival_called("wrong", lambda product: product * 1.01),
        rival_called("broken", raising(LookupError("no such kernel"))),
        rival_called("right"),
    )
    assert measurement.status in {"measured", "unsettled"}
    assert measurement.implementation is not None
    assert measurement.implementation.name == "right"
    wrong, broken, right = measurement.trials
    assert (wrong.outcome, broken.outcome, right.outcome) == ("wrong", "failed", "chosen")
    assert wrong.correctness is not None
    assert wrong.correctness.relative_error == pytest.approx(0.01, rel=0.01)
    assert broken.reason == "LookupError: no such kernel"


def test_result_that_turns_wrong_later_fails_its_row() -> None:
    measurement = measured_spoilt(after(1, lambda product: product * 1.01))
    assert measurement.status == "failed"
    assert measurement.reason is not None
    assert measurement.reason.startswith("wrong result after many calls: relative error 0.01")
    assert measurement.correctness is not None
    assert not measurement.correctness.passed
    assert len(measurement.samples_seconds) == 10


def test_only_the_first_result_is_compared_where_calls_build_on_another() -> None:
    class Training(type(matmul_by())):  # type: ignore[misc]
        repeatable = False

    def row(spoil: Spoil) -> Measurement:
        workload = Training()
        workload.implementations = (rival_called("step", spoil),)
        return measured(workload)

    assert row(after(1, lambda product: product * 1.01)).status in {"measured", "unsettled"}
    diverged = row(after(1, lambda product: product * float("inf")))
    assert diverged.status == "failed"
    assert diverged.reason == "wrong result after many calls: it is not finite"


def test_exception_while_sampling_keeps_what_was_found() -> None:
    measurement = measured_spoilt(after(5, raising(LookupError("card fell off the bus"))))
    assert measurement.status == "failed"
    assert measurement.reason == "LookupError: card fell off the bus"
    assert measurement.implementation is not None
    assert measurement.trials[0].outcome == "chosen"


def test_row_that_never_settles_says_so_and_keeps_its_samples() -> None:
    calls = count()

    def jumping(product: torch.Tensor) -> torch.Tensor:
        time.sleep(0.06 * (next(calls) % 2))
        return product

    measurement = measured_spoilt(jumping, Limits(samples=10, max_seconds=2.0))
    assert measurement.status == "unsettled"
    assert measurement.reason is not None
    assert measurement.reason.startswith("after 10 samples the median may be anything from 0.0")
    assert len(measurement.samples_seconds) == 10


def test_drifting_samples_are_warm_up_until_they_settle() -> None:
    """Six calls that get faster come before the steady ones; more than a warm-up window."""
    calls = count()

    def faster_at_last(product: torch.Tensor) -> torch.Tensor:
        time.sleep(max(0.02, 0.2 - 0.02 * next(calls)))
        return product

    limits = Limits(samples=10, max_seconds=1.0)
    measurement = measured_spoilt(faster_at_last, limits)
    assert measurement.warmup_calls is not None
    assert next(calls) == 1 + measurement.warmup_calls + len(measurement.samples_seconds)


def test_slow_row_ends_with_fewer_samples_and_says_so() -> None:
    measurement = measured_spoilt(slowed(0.1), Limits(max_seconds=0.03))
    assert measurement.status == "measured"
    assert len(measurement.samples_seconds) <= 3
    assert measurement.reason == (
        f"only {len(measurement.samples_seconds)} samples: 10 would have taken more than 0.3 s"
    )
    assert measurement.stopping is not None
    assert measurement.stopping.criterion == "max_seconds"


def test_cold_call_is_apart_and_inputs_are_not_timed() -> None:
    calls, inputs = count(), count()

    def slow_at_first(product: torch.Tensor) -> torch.Tensor:
        if next(calls) == 0:
            time.sleep(0.3)
        return product

    class SlowInputs(type(matmul_by())):  # type: ignore[misc]
        implementations = (rival_called("spoilt", slow_at_first),)

        def make_inputs(self, *arguments: object) -> Tensors:
            if next(inputs) == 0:
                time.sleep(0.3)
            return super().make_inputs(*arguments)  # type: ignore[no-any-return]

    measurement = measured(SlowInputs())
    assert measurement.cold_seconds is not None
    assert measurement.cold_seconds >= 0.3
    assert min(measurement.samples_seconds) < 0.3


def test_gradients_are_there_for_who_needs_them() -> None:
    modes: list[bool] = []

    def note(product: torch.Tensor) -> torch.Tensor:
        modes.append(torch.is_inference_mode_enabled())
        return product

    workload = matmul_by(rival_called("step", note))
    measured(workload)
    assert set(modes) == {True}
    modes.clear()
    type(workload).needs_gradients = True
    measured(workload)
    assert set(modes) == {False}


class WatchfulMonitor:
    """Says that the machine was slow all the time, and that a call takes 3 joules a second."""

    def __init__(self) -> None:
        self.started = time.perf_counter()

    def now(self) -> Conditions:
        return Conditions(cpu_frequency_hz=1e9)

    def during(self, start: float, end: float) -> Conditions:
        assert start < end
        return Conditions(cpu_frequency_hz=2e9)

    def throttled(self, start: float, end: float) -> bool:
        assert self.started < start < end <= time.perf_counter()
        return True

    def energy_joules(self) -> float:
        return 3 * (time.perf_counter() - self.started)


def test_conditions_and_throttled_samples_are_recorded() -> None:
    measurement = measured(matmul_by(rival_called("plain")), monitor=WatchfulMonitor())
    assert measurement.conditions_before == Conditions(cpu_frequency_hz=1e9)
    assert measurement.conditions_during == Conditions(cpu_frequency_hz=2e9)
    assert measurement.throttled_samples == tuple(range(10))
    assert measurement.energy_joules is None  # too short for NVML's counter


def test_energy_is_per_call() -> None:
    workload = matmul_by(rival_called("slow", slowed(0.15)))
    measurement = measured(workload, monitor=WatchfulMonitor())
    assert measurement.energy_joules is not None
    assert measurement.energy_joules >= 3 * 0.15
    mean = sum(measurement.samples_seconds) / len(measurement.samples_seconds)
    assert measurement.energy_joules == pytest.approx(3 * mean, rel=0.2)


def test_dtype_nobody_has_is_skipped_with_the_reasons() -> None:
    row = Row(WORKLOADS["edge_detection"], {"size": 16, "batch": 1}, "tf32")
    measurement = measure(row, bench_for("cpu", LIMITS))
    assert measurement.status == "skipped"
    assert measurement.reason is not None
    assert "opencv" in measurement.reason
    assert {trial.outcome for trial in measurement.trials} == {"refused"}


def test_workload_without_any_rival_is_skipped() -> None:
    measurement = measured(matmul_by())
    assert measurement.status == "skipped"
    assert measurement.reason == "matmul has no implementation for cpu"
