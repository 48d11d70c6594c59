"""The Triton kernels in Triton's interpreter against the float64 reference."""

import ast
import importlib.util
from pathlib import Path

import pytest
import torch

from batchmark_job.workloads import edge_detection, gaussian_blur
from batchmark_job.workloads.base import TOLERANCES
from batchmark_job.workloads.support import images, reference, torch_calls, triton_filters
from batchmark_job.workloads.support.reference import Crop
from batchmark_job.workloads.support.triton_filters import TritonFilter, TritonSobel
from tests.stand_ins import cuda

needs_triton = pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="needs triton")
KERNELS = Path(triton_filters.__file__).with_name("triton_kernels.py")
WORKLOADS = {"blur": gaussian_blur.GaussianBlur(), "sobel": edge_detection.EdgeDetection()}
# 600 columns are three tiles of float32, the middle one away from the borders, and 1100 of 16 bits;
# 17 rows are several strips. All kernels find their strip in the same way, and a blur takes longest
# to interpret.
CASES = [
    ("blur", (1, 1, 8, 600), "float32"),
    ("blur", (1, 1, 9, 8), "float16"),
    ("blur", (2, 1, 8, 9), "bfloat16"),
    ("sobel", (1, 1, 2, 2), "float32"),
    ("sobel", (1, 1, 17, 600), "float32"),
    ("sobel", (2, 1, 3, 5), "float16"),
    ("sobel", (1, 1, 3, 1100), "bfloat16"),
]


def filter_of(kind):
    return next(each for each in WORKLOADS[kind].implementations if isinstance(each, TritonFilter))


def run_case(kind, shape, dtype):
    inputs = filter_of(kind).arrange(torch_calls.uniform([shape], dtype, seed=3))
    output = filter_of(kind).prepare(inputs)()
    assert (output.shape, output.dtype) == (inputs[0].shape, inputs[0].dtype)
    return reference.relative_error(
        (reference.take_crop(output, whole), expected(kind, inputs[0], whole))
        for whole in (Crop(image, 0, 0, *shape[2:]) for image in range(shape[0]))
    )


def expected(kind, batch, whole):
    if kind == "sobel":
        return edge_detection.EdgeDetection().expected(reference.reflected_window(batch, whole, 1))
    window = reference.reflected_window(batch, whole, gaussian_blur.HALO)
    taps = gaussian_blur._taps()
    return reference.correlate(reference.correlate(window, taps, axis=1), taps, axis=2)


@needs_triton
@pytest.mark.skipif(cuda.REAL_DEVICE, reason="a device compiles them: test_cuda_device.py")
@pytest.mark.parametrize(("kind", "shape", "dtype"), CASES)
def test_a_kernel_is_correct(kind, shape, dtype, monkeypatch):
    monkeypatch.setattr(triton_filters, "held_programs", lambda: 100)
    error = run_case(kind, shape, dtype)
    # Tighter than what the job allows: the sums are float32 whatever the type.
    assert error <= TOLERANCES[dtype] / (10 if dtype == "float32" else 3)


# An H200 holds 1,056 programs, a T4 320.
@pytest.mark.parametrize(
    ("planes_and_tiles", "height", "halo", "held", "rows"),
    [
        (3 * 32, 8192, 7, 1056, 128),
        (3 * 16, 4096, 7, 1056, 216),
        (3 * 8, 2048, 7, 1056, 56),
        (3 * 2, 512, 7, 1056, 8),
        (3 * 32, 8192, 1, 1056, 64),
        (3 * 8, 2048, 7, 320, 176),
        (1, 8, 7, 1056, 8),
    ],
)
def test_strips_are_low_where_a_gpu_would_stand_idle(planes_and_tiles, height, halo, held, rows):
    assert triton_filters.strip_rows(planes_and_tiles, height, halo, held) == rows


def loops_of(function):
    """Each loop over rows, with the statements before it."""
    for body in (node.body for node in ast.walk(function) if hasattr(node, "body")):
        for place, node in enumerate(body if isinstance(body, list) else ()):
            if isinstance(node, ast.For) and ast.unparse(node.iter).startswith("range("):
                yield node, body[:place]


def test_no_two_values_of_a_loop_start_as_one():
    """Triton's compiler makes one value of names bound to one tensor; its interpreter does not."""
    seen = 0
    functions = ast.walk(ast.parse(KERNELS.read_text()))
    for function in (node for node in functions if isinstance(node, ast.FunctionDef)):
        for loop, before in loops_of(function):
            names = [node for node in ast.walk(loop) if isinstance(node, ast.Name)]
            changed = {name.id for name in names if isinstance(name.ctx, ast.Store)}
            for start in before:
                if isinstance(start, ast.Assign) and isinstance(start.value, ast.Name):
                    name = start.targets[0].id
                    assert name not in changed, f"{function.name}: give {name} a tensor of its own"
            seen += 1
    assert seen == 2


@pytest.mark.parametrize("kind", WORKLOADS)
def test_a_filter_refuses_what_it_can_not_do(kind, monkeypatch):
    refusal = filter_of(kind).refusal
    assert refusal("cpu", "float32") == "triton one-pass does not run on cpu"
    assert refusal("cuda", "float64") == (
        "triton one-pass does not support float64; it supports float32, float16, bfloat16"
    )
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert refusal("cuda", "float32") == (
        "triton is not installed; it comes with torch's CUDA build for Linux"
    )
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object())
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setenv("PATH", "")
    assert refusal("cuda", "float32") == (
        "triton can't find a C compiler to build its launcher; install gcc or set CC"
    )
    monkeypatch.setenv("BATCHMARK_TRITON_STUB", "/no/such/folder")
    assert refusal("cuda", "float32") is not None
    monkeypatch.setenv("BATCHMARK_TRITON_STUB", str(Path(__file__).parent))
    assert refusal("cuda", "float32") is None
    monkeypatch.delenv("BATCHMARK_TRITON_STUB")
    monkeypatch.setenv("CC", "cc")
    assert refusal("cuda", "float32") is None


def test_a_filter_needs_its_input_channels_first_and_output_only():
    parameters = {"size": 100, "batch": 2}
    needed = TritonSobel().working_set_bytes(parameters, "float16")
    assert needed == 2 * images.batch_bytes(parameters, "float16")
    batch = torch.zeros(1, 3, 8, 8).contiguous(memory_format=torch.channels_last)
    assert TritonSobel().arrange((batch,))[0].is_contiguous()
