"""What a call takes of the GPU alone, and until its caller knows."""

import pytest
import torch

from batchmark_job.measuring.samples.device_times import CALLS, time_device
from batchmark_job.measuring.samples.sampling import Rotation
from batchmark_job.workloads.matmul import TorchMatmul
from batchmark_job.workloads.support.cuda_graph import CudaGraph

pytestmark = pytest.mark.usefixtures("cuda")


def product(size=64):
    left, right = (torch.rand(size, size, device="cuda") for _ in range(2))
    return left, right


@pytest.mark.parametrize("implementation", [TorchMatmul(), CudaGraph(TorchMatmul())])
def test_a_call_has_a_time_of_the_gpu_alone_and_a_latency(implementation):
    found = time_device(Rotation([implementation.prepare(product())]), 1e-4)
    assert set(found) == {"kernel_seconds", "latency_seconds"}
    assert min(found.values()) > 0


def test_a_call_that_waits_for_the_gpu_can_not_be_queued():
    left, right = product()

    def call():
        result = left @ right
        torch.cuda.synchronize()
        return result

    assert set(time_device(Rotation([call]), 1e-4)) == {"latency_seconds"}


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
