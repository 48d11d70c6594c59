"""What only a CUDA device can show; without one everything but the last tests is skipped."""

import pytest
import torch

from batchmark_job.measuring.candidate import LONG_SECONDS
from batchmark_job.measuring.ceilings import Bounds, measure_ceilings
from batchmark_job.measuring.limits import RowLimits
from batchmark_job.measuring.prepared import measuring_state
from batchmark_job.measuring.rows import Row
from batchmark_job.measuring.samples import device_times
from batchmark_job.workloads.base import DTYPE_BYTES, TOLERANCES, BufferedImplementation
from batchmark_job.workloads.builtin import WORKLOADS
from batchmark_job.workloads.matmul import TorchMatmul
from batchmark_job.workloads.support import torch_calls, triton_filters
from batchmark_job.workloads.support.cuda_graph import CudaGraph
from batchmark_job.workloads.support.triton_filters import TritonFilter
from benchmarks.job import gpu_rivals
from tests.builders.outputs import wrongness
from tests.stand_ins.cuda import REAL_DEVICE, triton_launches
from tests.stand_ins.workers import bench_here

# A simulated device computes a ResNet-50's step in seconds.
AFFORDABLE = {
    name: workload
    for name, workload in WORKLOADS.items()
    if REAL_DEVICE or not name.startswith("resnet50")
}
# One value for every axis that has no default, within all their bounds.
SIZE = {"sequence": 64, "batch": 2, "size": 64}
FILTERS = [
    pytest.param(name, rival, id=f"{name}-{rival.name}")
    for name in ("gaussian_blur", "edge_detection")
    for rival in WORKLOADS[name].implementations_for("cuda")
    if isinstance(getattr(rival, "inner", rival), TritonFilter)
    # Interpreted, one takes seconds: test_triton.py has the plain calls, and capturing is the same.
    and (REAL_DEVICE or (name, type(rival)) == ("edge_detection", CudaGraph))
]
# A real device takes some 3 s for a row of all candidates. A simulated one takes less, but rows of
# other dtypes go the same way there: the products alone have them.
ALL_DTYPES = () if REAL_DEVICE else ("matmul", "image_convolution")
ROWS = [
    (name, dtype)
    for name in AFFORDABLE
    for dtype in (DTYPE_BYTES if name in ALL_DTYPES else ("float32", "bfloat16"))
]


needs_triton = pytest.mark.skipif(not triton_launches.AVAILABLE, reason="needs triton")


# Nobody looks at a simulated device's figures.
LIMITS = RowLimits(samples=20, max_seconds=0.2 if REAL_DEVICE else 0.005)


@pytest.fixture(autouse=True)
def short_rows(monkeypatch):
    """On a simulated device, where an interpreted kernel would take minutes, and never win."""
    if not REAL_DEVICE:
        monkeypatch.setattr(triton_filters, "missing", lambda: "simulated: too slow for a row")
        for name, least in {"ROUNDS": 1, "CALLS": 2, "LATENCIES": 1}.items():
            monkeypatch.setattr(device_times, name, least)


def measured(name, parameters, dtype):
    bench = bench_here(LIMITS, device="cuda")
    return Row(WORKLOADS[name], parameters, dtype).measure(bench)


def smallest(name):
    return {
        axis.name: SIZE[axis.name] if axis.default is None else axis.default
        for axis in WORKLOADS[name].axes
    }


@pytest.mark.usefixtures("cuda", "short_turns")
@pytest.mark.parametrize(("name", "dtype"), ROWS)
def test_every_workload_is_measured_or_refused_with_a_reason(name, dtype):
    row = measured(name, smallest(name), dtype)
    refusals = [
        rival.refusal("cuda", dtype) for rival in WORKLOADS[name].implementations_for("cuda")
    ]
    if all(refusals):
        assert row.status == "skipped"
        assert row.reason
        return
    assert row.status in {"measured", "unsettled"}, row.reason
    assert row.timer == "cuda_events"
    assert (row.peak_memory_bytes or 0) > 0
    phases = row.phases.model_dump()
    if phases["compute_seconds"] >= LONG_SECONDS or dtype == "bfloat16":  # slow on a CPU
        phases.pop("kernel_seconds"), phases.pop("latency_seconds")
    assert all(seconds is not None for seconds in phases.values())
    assert row.implementation.threads is None
    assert not [trial for trial in row.trials if trial.outcome == "wrong"]


@pytest.mark.usefixtures("cuda")
@pytest.mark.parametrize(
    ("name", "implementation"),
    [
        pytest.param(name, implementation, id=f"{name}-{implementation.name}")
        for name, workload in AFFORDABLE.items()
        if name not in {"matmul", "image_convolution", "gaussian_blur", "edge_detection"}
        for implementation in workload.implementations_for("cuda")
    ],
)
def test_an_implementation_is_correct_in_all_its_dtypes(name, implementation):
    workload = WORKLOADS[name]
    for dtype in implementation.dtypes:
        inputs = implementation.arrange(workload.make_inputs(smallest(name), dtype, seed=7))
        on_device = tuple(torch.empty_like(t, device="cuda").copy_(t) for t in inputs)
        with measuring_state(workload, dtype):
            output = implementation.prepare(on_device)()
        assert wrongness(workload, inputs, output) <= workload.tolerance(dtype)


@pytest.mark.usefixtures("cuda")
def test_tf32_is_a_row_of_its_own():
    errors = {}
    for dtype in ("float32", "tf32"):
        row = measured("matmul", {"size": 512}, dtype)
        assert row.correctness is not None, row.reason
        errors[dtype] = row.correctness.relative_error
    assert errors["float32"] < TOLERANCES["float32"]
    if torch.cuda.get_device_capability() >= (8, 0):
        assert errors["tf32"] > 3 * errors["float32"]


@pytest.mark.usefixtures("cuda")
def test_each_input_set_has_a_graph_of_its_own_that_reads_it_anew():
    graph, workload = CudaGraph(TorchMatmul()), WORKLOADS["matmul"]
    sets = [workload.make_inputs({"size": 65}, "float32", seed) for seed in (1, 2, 3)]
    with torch.inference_mode():
        on_device = [tuple(tensor.cuda() for tensor in inputs) for inputs in sets]
        calls = [graph.prepare(inputs) for inputs in on_device]
        for _ in range(2):
            for inputs, call in zip(sets, calls, strict=True):
                assert wrongness(workload, inputs, call()) < TOLERANCES["float32"]
        on_device[0][0].fill_(0.0)
        assert not calls[0]().any()


@pytest.mark.usefixtures("cuda")
def test_graphs_of_buffered_calls_share_the_buffer():
    class Doubling(BufferedImplementation):
        name = library = "doubling"
        devices = ("cuda",)

        def working_set_bytes(self, parameters, dtype):
            return 0

        def prepare_with(self, inputs, buffers):
            return lambda: torch.add(inputs[0], inputs[0], out=buffers[0])

    sets = [(torch.ones(4, device="cuda") * number,) for number in (1, 2)]
    first, second = CudaGraph(Doubling()).prepare_each(sets)
    assert [first()[0].item(), second()[0].item(), first()[0].item()] == [2, 4, 2]
    assert first().data_ptr() == second().data_ptr()


@pytest.mark.usefixtures("cuda")
@needs_triton
@pytest.mark.parametrize("dtype", TritonFilter.dtypes if REAL_DEVICE else ["float32"])
@pytest.mark.parametrize("size", [61, 1024] if REAL_DEVICE else [3])
@pytest.mark.parametrize(("name", "rival"), FILTERS)
def test_triton_is_correct_and_can_be_captured(name, rival, size, dtype):
    if REAL_DEVICE and (refusal := rival.refusal("cuda", dtype)):
        pytest.skip(refusal)
    batch = 2 if REAL_DEVICE else 1
    inputs = rival.arrange(WORKLOADS[name].make_inputs({"size": size, "batch": batch}, dtype, 1))
    with torch.inference_mode():
        output = rival.prepare((inputs[0].cuda(),))()
    assert wrongness(WORKLOADS[name], inputs, output) <= TOLERANCES[dtype]


@pytest.mark.usefixtures("cuda")
def test_a_gpu_has_a_ceiling_for_every_dtype():
    bounds = Bounds(0.5 if REAL_DEVICE else 0.01, 256, 1024 if REAL_DEVICE else 256, 2**26)
    found = measure_ceilings("cuda", DTYPE_BYTES, bounds)
    assert [(ceiling.kind, ceiling.dtype) for ceiling in found] == [
        ("copy", None),
        ("read", None),
        *(("compute", dtype) for dtype in DTYPE_BYTES),
    ]
    if REAL_DEVICE:
        assert all(ceiling.rate_per_second > 1e9 for ceiling in found)
    assert torch.backends.cuda.matmul.allow_tf32 is False
    assert torch_calls.native_refusal("cuda", "tf32") is None


@pytest.mark.skipif(torch.cuda.is_available(), reason="needs a machine without CUDA")
def test_the_benchmark_measures_nothing_without_cuda(capsys):
    assert gpu_rivals.main([]) == 77
    assert capsys.readouterr().out == "skipped: no CUDA device\n"


def test_the_benchmark_goes_on_after_a_row_that_was_not_measured(capsys):
    good = gpu_rivals.Share("matmul 8", "torch", 0.99, "torch.mm", 0.95)

    def unmeasured():
        raise gpu_rivals.UnmeasuredError("matmul 4 tf32: unsettled: drifting")

    assert not gpu_rivals.print_all([lambda: good, unmeasured, lambda: good])
    lines = capsys.readouterr().out.splitlines()
    assert lines == [str(good), "NOT MEASURED matmul 4 tf32: unsettled: drifting", str(good)]
    assert gpu_rivals.print_all([lambda: good])
    assert not gpu_rivals.print_all([lambda: good._replace(share=0.9)])
