"""Each implementation against the float64 reference, and wrong ones being found out."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812

from batchmark_job.workloads import WORKLOADS
from batchmark_job.workloads.base import DTYPE_BYTES, TOLERANCES, Implementation, Workload
from batchmark_job.workloads.edge_detection import TorchSobel
from batchmark_job.workloads.gaussian_blur import TorchBlur

SIZES = {
    "matmul": [{"size": 1}, {"size": 3}, {"size": 65}],
    "image_convolution": [
        {"size": 2, "batch": 1},
        {"size": 37, "batch": 1},
        {"size": 64, "batch": 3},
    ],
    "gaussian_blur": [{"size": 8, "batch": 1}, {"size": 61, "batch": 3}],
    "edge_detection": [{"size": 2, "batch": 1}, {"size": 61, "batch": 3}],
}
CASES = [
    pytest.param(
        workload,
        implementation,
        parameters,
        dtype,
        id="-".join([workload.name, implementation.name, *map(str, parameters.values()), dtype]),
    )
    for workload in WORKLOADS.values()
    for implementation in workload.implementations
    for parameters in SIZES[workload.name]
    for dtype in implementation.dtypes
]


def error_of(
    workload: Workload,
    implementation: Implementation,
    parameters: dict[str, int],
    dtype: str,
    spoil: Callable[[torch.Tensor], torch.Tensor] = lambda output: output,
) -> float:
    inputs = implementation.arrange(workload.make_inputs(parameters, dtype, seed=7))
    with torch.inference_mode():
        output = spoil(implementation.prepare(inputs)())
    return workload.relative_error(inputs, output, np.random.default_rng(7))


@pytest.mark.parametrize(("workload", "implementation", "parameters", "dtype"), CASES)
def test_implementation_is_correct(
    workload: Workload, implementation: Implementation, parameters: dict[str, int], dtype: str
) -> None:
    """CUDA's implementations too: their code is the same on the CPU, only slower."""
    error = error_of(workload, implementation, parameters, dtype)
    assert error <= TOLERANCES[dtype]


@pytest.mark.parametrize("dtype", DTYPE_BYTES)
@pytest.mark.parametrize("name", ["matmul", "image_convolution"])
def test_every_dtype_has_an_implementation_on_the_cpu(name: str, dtype: str) -> None:
    assert isinstance(WORKLOADS[name].implementation("cpu", dtype), Implementation)


@pytest.mark.parametrize("name", ["gaussian_blur", "edge_detection"])
def test_opencv_refuses_16_bits_with_a_reason(name: str) -> None:
    assert WORKLOADS[name].implementation("cpu", "float16") == (
        "opencv has no float16; it has float32, float64"
    )


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", WORKLOADS)
def test_small_errors_are_found_out(name: str, dtype: str) -> None:
    workload = WORKLOADS[name]
    implementation = workload.implementation("cpu", dtype)
    assert isinstance(implementation, Implementation)
    parameters = SIZES[name][-1]
    too_much = 1 + 3 * TOLERANCES[dtype]
    for spoil in (
        lambda output: output * too_much,
        lambda output: output.transpose(-1, -2),
        lambda output: output.roll(1, -1),
        torch.zeros_like,
    ):
        assert error_of(workload, implementation, parameters, dtype, spoil) > TOLERANCES[dtype]


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
@pytest.mark.parametrize("name", WORKLOADS)
def test_nan_and_infinity_are_found_out(name: str, value: float) -> None:
    workload = WORKLOADS[name]
    implementation = workload.implementation("cpu", "float32")
    assert isinstance(implementation, Implementation)
    error = error_of(
        workload,
        implementation,
        SIZES[name][-1],
        "float32",
        lambda output: output.index_fill(-1, torch.tensor([0]), value),
    )
    assert not np.isfinite(error)


def test_wrong_borders_are_found_out() -> None:
    """Zeros around the image instead of its reflection."""
    blur, edges = WORKLOADS["gaussian_blur"], WORKLOADS["edge_detection"]
    for workload, implementation, halo in ((blur, TorchBlur(), 7), (edges, TorchSobel(), 1)):
        parameters = {"size": 512, "batch": 2}
        inputs = workload.make_inputs(parameters, "float32", seed=7)
        with torch.inference_mode():
            framed = (F.pad(inputs[0], (halo,) * 4),)
            output = implementation.prepare(framed)()[:, :, halo:-halo, halo:-halo]
        error = workload.relative_error(inputs, output, np.random.default_rng(7))
        assert error > 100 * TOLERANCES["float32"]


def test_wrong_image_of_a_batch_is_found_out() -> None:
    for name in ("image_convolution", "gaussian_blur", "edge_detection"):
        workload = WORKLOADS[name]
        implementation = workload.implementation("cpu", "float32")
        assert isinstance(implementation, Implementation)
        error = error_of(
            workload, implementation, {"size": 64, "batch": 2}, "float32", lambda out: out.flip(0)
        )
        assert error > 100 * TOLERANCES["float32"]


def test_convolution_agrees_with_plain_torch() -> None:
    workload = WORKLOADS["image_convolution"]
    inputs = workload.make_inputs({"size": 38, "batch": 2}, "float64", seed=1)
    images, first, first_bias, second, second_bias = inputs
    expected = F.conv2d(images, first, first_bias, padding="same").relu()
    expected = F.conv2d(expected, second, second_bias, padding="same").relu()
    expected = F.max_pool2d(expected, 2)
    implementation = workload.implementations[0]
    with torch.inference_mode():
        result = implementation.prepare(implementation.arrange(inputs))()
    assert torch.allclose(result, expected, rtol=0, atol=1e-12)
    assert (expected == 0).any(), "ReLU must have something to cut off"


def test_inputs_are_the_same_for_the_same_seed() -> None:
    for name, workload in WORKLOADS.items():
        first, again, other = (
            workload.make_inputs(SIZES[name][-1], "float32", seed)[0] for seed in (1, 1, 2)
        )
        assert torch.equal(first, again)
        assert not torch.equal(first, other)


def test_inputs_survive_a_call() -> None:
    for name, workload in WORKLOADS.items():
        for implementation in workload.implementations:
            dtype = implementation.dtypes[0]
            inputs = implementation.arrange(workload.make_inputs(SIZES[name][-1], dtype, 1))
            before = [tensor.clone() for tensor in inputs]
            with torch.inference_mode():
                implementation.prepare(inputs)()
            assert all(torch.equal(*pair) for pair in zip(before, inputs, strict=True))


@pytest.mark.parametrize(
    ("name", "parameters", "flops", "bytes_moved"),
    [
        ("matmul", {"size": 1000}, 2 * 10**9, 12 * 10**6),
        # 3·9·16 and 16·9·32 multiply-adds per pixel; 3 channels in, 32/4 out, 5,088 weights.
        ("image_convolution", {"size": 100, "batch": 2}, 201_600_000, 880_000 + 20_352),
        ("gaussian_blur", {"size": 100, "batch": 2}, 60 * 60_000, 2 * 60_000 * 4),
        ("edge_detection", {"size": 100, "batch": 2}, 26 * 60_000, 2 * 60_000 * 4),
    ],
)
def test_formulas(name: str, parameters: dict[str, int], flops: int, bytes_moved: int) -> None:
    assert WORKLOADS[name].flops(parameters) == flops
    assert WORKLOADS[name].bytes_moved(parameters, "float32") == bytes_moved


def test_sizes_in_bytes_are_the_tensors_own() -> None:
    for name, workload in WORKLOADS.items():
        for parameters in SIZES[name]:
            inputs = workload.make_inputs(parameters, "float32", 1)
            assert workload.input_bytes(parameters, "float32") == sum(t.nbytes for t in inputs)
            implementation = workload.implementations[0]
            with torch.inference_mode():
                output = implementation.prepare(implementation.arrange(inputs))()
            assert workload.output_bytes(parameters, "float32") == output.nbytes
            working_set = implementation.working_set_bytes(parameters, "float32")
            assert working_set >= sum(t.nbytes for t in inputs) + output.nbytes
