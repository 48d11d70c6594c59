"""What a call takes of the GPU alone, and until its caller knows."""

import pytest
import torch

from batchmark_job.measuring.samples.device_times import (
    CALLS,
    TRANSFER_SAMPLES,
    time_device,
    time_transfers,
)
from batchmark_job.measuring.samples.sampling import Rotation
from batchmark_job.workloads.matmul import TorchMatmul
from batchmark_job.workloads.support.cuda_graph import CudaGraph


def product():
    return tuple(torch.rand(2, 64, 64, device="cuda"))


@pytest.mark.usefixtures("cuda")
@pytest.mark.parametrize("implementation", [TorchMatmul(), CudaGraph(TorchMatmul())])
def test_a_call_has_a_time_of_the_gpu_alone_and_a_latency(implementation):
    found = time_device(Rotation([implementation.prepare(product())]), 1e-4)
    assert set(found) == {"kernel_seconds", "latency_seconds"}
    assert min(found.values()) > 0


@pytest.mark.usefixtures("cuda")
def test_a_call_that_waits_for_the_gpu_can_not_be_queued():
    left, right = product()

    def call():
        result = left @ right
        torch.cuda.synchronize()
        return result

    assert set(time_device(Rotation([call]), 1e-4)) == {"latency_seconds"}


@pytest.mark.usefixtures("cuda")
def test_no_call_is_queued_alone_and_none_too_often():
    calls = []

    def call():
        calls.append(1)
        return torch.ones(1, device="cuda")

    time_device(Rotation([call]), 10.0)
    few = len(calls)
    calls.clear()
    time_device(Rotation([call]), 1e-9)
    assert few < len(calls) <= 20 + 5 * 2 * CALLS


def test_copies_that_memory_can_not_be_pinned_for_stay_unknown(monkeypatch):
    def full(_):
        raise torch.AcceleratorError("CUDA error: out of memory")

    released = []
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: released.append(None))
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    monkeypatch.setattr(torch.Tensor, "pin_memory", full)
    inputs = (torch.ones(8),)
    found = time_transfers(inputs, inputs, torch.ones(8))
    assert set(found) == {"allocate_seconds"}
    assert len(released) == 1 + TRANSFER_SAMPLES  # before each allocation
