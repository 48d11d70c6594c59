"""What a job does on GPUs of several kinds, all simulated; no figure here is a GPU's."""

import pynvml
import pytest
import torch

from batchmark_job.machine import cards, memory
from batchmark_job.measuring.ceilings import Bounds, measure_ceilings
from batchmark_job.measuring.limits import RowLimits
from batchmark_job.measuring.rows import Row
from batchmark_job.result.document import parse_document
from batchmark_job.suites import Point
from batchmark_job.workloads.attention import (
    AttentionBackward,
    EfficientAttention,
    ExplicitAttention,
    TorchAttention,
)
from batchmark_job.workloads.builtin import WORKLOADS
from batchmark_job.workloads.matmul import TorchMatmul
from batchmark_job.workloads.support import torch_calls
from batchmark_job.workloads.support.cuda_graph import CudaGraph
from tests.builders.outputs import wrongness
from tests.stand_ins import cuda
from tests.stand_ins.nvml import NoDriver
from tests.stand_ins.workers import bench_here, run_job_here

pytestmark = pytest.mark.skipif(cuda.REAL_DEVICE, reason="simulates a GPU where there is none")
LIMITS = RowLimits(samples=10, max_seconds=0.1)
SMALL = {"cache_bytes": 2**16}
NOT_CAPTURED = pytest.raises(RuntimeError, match="not permitted when stream is capturing")


def measured(name, parameters, dtype="float32"):
    return Row(WORKLOADS[name], parameters, dtype).measure(bench_here(LIMITS, device="cuda"))


@pytest.mark.parametrize("dtype", ["tf32", "bfloat16"])
def test_what_a_t4_has_no_tensor_cores_for_is_refused(dtype):
    reason = f"simulated Tesla T4 has compute capability 7.5, but {dtype} requires 8.0"
    with cuda.installed("T4", **SMALL):
        row = measured("matmul", {"size": 64}, dtype)
        found = measure_ceilings("cuda", [dtype, "float16"], Bounds(0.01, 64, 128, 2**20))
    assert (row.status, row.reason) == ("skipped", reason)
    assert [ceiling.dtype for ceiling in found if ceiling.dtype] == ["float16"]
    with cuda.installed("A10G"):
        assert torch_calls.native_refusal("cuda", dtype) is None


def test_the_device_is_as_strict_as_one_is_and_the_cpu_is_not():
    lost = pytest.raises(RuntimeError, match="illegal memory access")
    with cuda.installed("A10G") as gpu:
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        with pytest.raises(RuntimeError, match="invalid resource handle"):
            start.elapsed_time(end)
        end.record()
        with pytest.raises(RuntimeError, match="not ready"):
            start.elapsed_time(end)
        end.synchronize()
        assert start.elapsed_time(end) >= 0
        left, graph = torch.ones(2, 2).cuda(), torch.cuda.CUDAGraph()
        for wait in (left[0, 0].item, left.cpu, torch.cuda.synchronize):
            with NOT_CAPTURED, torch.cuda.graph(torch.cuda.CUDAGraph()):
                wait()
        with torch.cuda.graph(graph):
            product = torch.mm(left, left)
        graph.replay()
        assert product.tolist() == [[2, 2], [2, 2]]
        del left, wait
        with lost:  # what it reads was freed
            graph.replay()
        with lost:
            torch.cuda.synchronize()
        assert gpu.lost


@pytest.mark.parametrize("inner", [TorchAttention(), EfficientAttention(), ExplicitAttention()])
def test_a_backward_pass_is_captured_on_its_forward_pass_s_stream(inner):
    workload = AttentionBackward()
    parameters = {"sequence": 8, "heads": 2, "head_dim": 4, "batch": 1}
    inputs = workload.make_inputs(parameters, "float32", seed=1)
    with cuda.installed("A10G"):
        on_device = tuple(tensor.cuda() for tensor in inputs)
        call = CudaGraph(inner).prepare(on_device)
        assert wrongness(workload, inputs, call()) <= workload.tolerance("float32")
        outside = TorchAttention().prepare(on_device)
        with NOT_CAPTURED, torch.cuda.graph(torch.cuda.CUDAGraph(), stream=torch.cuda.Stream()):
            outside()


def test_graphs_of_a_row_share_a_stream_and_count_in_its_peak():
    with cuda.installed("A10G") as gpu:
        sets = [tuple(torch.ones(2, 256, 256).cuda()) for _ in range(3)]
        calls = list(CudaGraph(TorchMatmul()).prepare_each(sets))
        assert [call().shape for call in calls] == [(256, 256)] * 3
        assert gpu.streams == 1
        # Six inputs, and the output that the graphs share.
        assert memory.peak_bytes("cuda") == gpu.peak_bytes >= 7 * 4 * 256**2


def document_of(make_settings, **changes):
    points = (Point("matmul", {"size": 16}), Point("fft", {"size": 16, "batch": 1}))
    settings = make_settings(points=points, requested_device="cuda", **changes)
    assert run_job_here(settings) == 0
    return parse_document(settings.output.path.read_bytes())


@pytest.mark.parametrize(("model", "count"), [("T4", 1), ("A10G", 4), ("A100", 1), ("H200", 1)])
def test_a_job_runs_to_its_document(make_settings, model, count, capsys):
    with cuda.installed(model, count=count, **SMALL) as gpu:
        document = document_of(make_settings)
    family = cards.card_of(gpu.name).families[0]
    assert f"GPU: {gpu.name} (EC2 {family}" in capsys.readouterr().out
    environment = document.environment
    assert document.actual_device == "cuda"
    assert (environment.gpu_model, environment.gpu_count) == (gpu.name, count)
    assert gpu.name.startswith("simulated ")
    assert environment.gpu_memory_bytes == gpu.memory_bytes
    assert environment.last_level_cache_bytes == SMALL["cache_bytes"]
    assert environment.driver_version == "580.95.05"
    assert {row.status for row in document.measurements} <= {"measured", "unsettled"}
    assert {row.timer for row in document.measurements} == {"cuda_events"}


def test_a_job_on_a_gpu_that_is_nearly_full(make_settings):
    others = 22 * 2**30 - 2**31
    with cuda.installed("A10G", used_by_others=others, **SMALL):
        huge, small = (measured("matmul", {"size": size}) for size in (20_000, 16))
    assert huge.reason.startswith("needs 4.47 GiB of GPU memory, but only 90% of the 2.00 GiB")
    assert small.status in {"measured", "unsettled"}


def test_a_job_on_a_gpu_that_slows_down_and_one_without_nvml(make_settings, monkeypatch):
    with cuda.installed("T4", **SMALL) as gpu:
        gpu.card.reasons = pynvml.nvmlClocksEventReasonHwThermalSlowdown
        rows = document_of(make_settings).measurements
    for row in rows:
        assert row.conditions_during.gpu_throttle_reasons == ("hw_thermal_slowdown",)
        assert len(row.throttled_samples) == len(row.samples_seconds)
    with cuda.installed("T4", **SMALL):
        monkeypatch.setattr("batchmark_job.machine.nvml.pynvml", NoDriver())
        document = document_of(make_settings)
    environment = document.environment
    assert (environment.driver_version, environment.gpu_model) == (None, "simulated Tesla T4")
    assert {row.conditions_during.gpu_clock_hz for row in document.measurements} == {None}


def row_with(cache_bytes, size, **changes):
    with cuda.installed("H200", cache_bytes=cache_bytes, **changes):
        return measured("matmul", {"size": size})


def test_where_inputs_are_too_few_for_the_cache_it_is_written_over_between_calls():
    small, large = row_with(2**20, 16), row_with(2**16, 128)
    assert (small.input_sets, small.caches_filled, small.energy_joules) == (64, 2.0, None)
    assert large.input_sets < 64
    assert large.caches_filled > 1
    kept = row_with(2**31, 16, used_by_others=139 * 2**30)  # there is no room for that
    assert kept.status in {"measured", "unsettled"}
    assert kept.caches_filled < 1
