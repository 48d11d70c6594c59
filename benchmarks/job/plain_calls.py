"""Library calls as a competent user would write them, and the published comparison's approach.

A plain call's data is in the layout that suits its library, and the library allocates the output.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import cv2
import numpy as np
import scipy.fft
import scipy.linalg
import torch
import torch.nn.functional as F  # noqa: N812
from scipy import ndimage
from torch import Tensor

from batchmark_job.measuring.prepared import Prepared
from batchmark_job.measuring.problem import Problem
from batchmark_job.measuring.processes.answers import FirstCall
from batchmark_job.measuring.processes.workers import Tell
from batchmark_job.workloads import resnet50
from batchmark_job.workloads.base import Implementation
from batchmark_job.workloads.cnn_training_step import CnnTrainingStep
from batchmark_job.workloads.resnet50 import ResNet50Training
from batchmark_job.workloads.support import training
from batchmark_job.workloads.support.images import channels_last
from batchmark_job.workloads.support.training import TrainingStep

Inputs = tuple[Tensor, ...]
Call = Callable[[], Any]

KERNEL_SIZE, SIGMA, HALO = 15, 5.0, 7
BORDER = cv2.BORDER_REFLECT_101


class PlainCall(NamedTuple):
    name: str
    prepare: Callable[[Inputs], Call]


class _PlainImplementation(Implementation):
    devices = ("cpu",)

    def __init__(self, plain: PlainCall) -> None:
        self.name = plain.name  # type: ignore[misc]
        self._plain = plain

    def working_set_bytes(self, parameters: Mapping[str, int], dtype: str) -> int:
        raise NotImplementedError

    def prepare(self, inputs: Inputs) -> Call:
        return self._plain.prepare(inputs)


class _PreparedPlain(Prepared):
    def _checked(self, seconds: float, output: Any) -> FirstCall:
        return super()._checked(seconds, as_tensor(output))


def prepare_plain(
    tell: Tell, problem: Problem, name: str, threads: int, input_sets: int
) -> Prepared:
    """Prepare a plain call in a worker process."""
    (plain,) = (call for call in PLAIN_CALLS[problem.workload.name] if call.name == name)
    return _PreparedPlain(tell, problem, _PlainImplementation(plain), threads, input_sets)


def as_tensor(output: Any) -> Tensor:
    """Convert a plain call's output to a tensor that can be compared with the reference."""
    if isinstance(output, list):  # images, height x width x channels
        return torch.stack([torch.from_numpy(image) for image in output]).permute(0, 3, 1, 2)
    if isinstance(output, tuple):  # weights
        return torch.cat([weight.detach().flatten() for weight in output])
    return output if isinstance(output, Tensor) else torch.as_tensor(output)


def _torch_matmul(inputs: Inputs) -> Call:
    left, right = inputs
    return lambda: left @ right


def _numpy_matmul(inputs: Inputs) -> Call:
    left, right = (tensor.numpy() for tensor in inputs)
    return lambda: left @ right


def _scipy_gemm(inputs: Inputs) -> Call:
    """Multiply the transposes in reverse order; BLAS is column-major, so this needs no copy."""
    left, right = (tensor.numpy() for tensor in inputs)
    gemm = scipy.linalg.get_blas_funcs("gemm", (left, right))
    return lambda: gemm(1.0, right.T, left.T).T


def _convolve(inputs: Inputs) -> Tensor:
    batch, first, first_bias, second, second_bias = inputs
    batch = F.relu(F.conv2d(batch, first, first_bias, padding=1))
    batch = F.relu(F.conv2d(batch, second, second_bias, padding=1))
    return F.max_pool2d(batch, 2)


def _torch_convolution(inputs: Inputs) -> Call:
    return lambda: _convolve(inputs)


def _in_channels_last(prepare: Callable[[Inputs], Call]) -> Callable[[Inputs], Call]:
    return lambda inputs: prepare(tuple(map(channels_last, inputs)))


def _arrays(batch: Tensor) -> list[Any]:
    return [np.ascontiguousarray(image.permute(1, 2, 0).numpy()) for image in batch]


def _opencv_blur(inputs: Inputs) -> Call:
    size, images = (KERNEL_SIZE, KERNEL_SIZE), _arrays(inputs[0])
    return lambda: [cv2.GaussianBlur(image, size, SIGMA, borderType=BORDER) for image in images]


def _opencv_separable(inputs: Inputs) -> Call:
    taps, images = cv2.getGaussianKernel(KERNEL_SIZE, SIGMA), _arrays(inputs[0])
    return lambda: [cv2.sepFilter2D(image, -1, taps, taps, borderType=BORDER) for image in images]


def _scipy_blur(inputs: Inputs) -> Call:
    batch = inputs[0].numpy()
    return lambda: ndimage.gaussian_filter(batch, SIGMA, mode="mirror", radius=HALO, axes=(2, 3))


def _torch_blur(inputs: Inputs) -> Call:
    batch = inputs[0]
    taps = torch.from_numpy(cv2.getGaussianKernel(KERNEL_SIZE, SIGMA)).to(batch.dtype).flatten()
    row = taps.view(1, 1, 1, -1).repeat(3, 1, 1, 1)
    column = taps.view(1, 1, -1, 1).repeat(3, 1, 1, 1)

    def call() -> Tensor:
        padded = F.pad(batch, (HALO,) * 4, mode="reflect")
        return F.conv2d(F.conv2d(padded, row, groups=3), column, groups=3)

    return call


def _opencv_sobel(inputs: Inputs) -> Call:
    images = _arrays(inputs[0])
    depth = cv2.CV_64F if inputs[0].dtype == torch.float64 else cv2.CV_32F

    def edges(image: Any) -> Any:
        horizontal = cv2.Sobel(image, depth, 1, 0, borderType=BORDER)
        vertical = cv2.Sobel(image, depth, 0, 1, borderType=BORDER)
        return cv2.magnitude(horizontal, vertical)

    return lambda: [edges(image) for image in images]


def _scipy_sobel(inputs: Inputs) -> Call:
    batch = inputs[0].numpy()

    def edges(plane: Any) -> Any:
        """Filter one channel at a time, because SciPy smooths along all other axes."""
        return np.hypot(
            ndimage.sobel(plane, 1, mode="mirror"), ndimage.sobel(plane, 0, mode="mirror")
        )

    return lambda: np.stack([np.stack([edges(plane) for plane in image]) for image in batch])


def _torch_sobel(inputs: Inputs) -> Call:
    batch = inputs[0]
    kernel = torch.tensor([[-1.0, 0.0, 1.0], [-2.0, 0.0, 2.0], [-1.0, 0.0, 1.0]], dtype=batch.dtype)
    kernels = torch.stack([kernel, kernel.T]).unsqueeze(1).repeat(3, 1, 1, 1)

    def call() -> Tensor:
        gradients = F.conv2d(F.pad(batch, (1,) * 4, mode="reflect"), kernels, groups=3)
        return torch.hypot(gradients[:, 0::2], gradients[:, 1::2])

    return call


def _torch_attention(inputs: Inputs) -> Call:
    queries, keys, values = inputs[0]
    return lambda: F.scaled_dot_product_attention(queries, keys, values)


def _torch_attention_backward(inputs: Inputs) -> Call:
    packed, gradient = inputs[0].requires_grad_(), inputs[1]
    output = F.scaled_dot_product_attention(*packed)
    return lambda: torch.autograd.grad(output, packed, gradient, retain_graph=True)[0]


def _torch_training(
    workload: TrainingStep, lay_out: Callable[[Tensor], Tensor] = torch.Tensor.contiguous
) -> Callable[[Inputs], Call]:
    """Return a function that prepares a training step with PyTorch's own SGD optimiser."""

    def prepare(inputs: Inputs) -> Call:
        batch, labels, weights = lay_out(inputs[0]), *inputs[1:]
        views = training.views(weights, workload.shapes, channels_last=False)
        parameters = tuple(lay_out(view.clone()).requires_grad_() for view in views)
        network = workload.network(parameters)
        optimiser = torch.optim.SGD(parameters, training.LEARNING_RATE, training.MOMENTUM)

        def call() -> tuple[Tensor, ...]:
            optimiser.zero_grad()
            F.cross_entropy(network(batch), labels).backward()  # type: ignore[no-untyped-call]
            optimiser.step()
            return parameters

        return call

    return prepare


def _training_calls(workload: TrainingStep) -> tuple[PlainCall, ...]:
    return (
        PlainCall("torch", _torch_training(workload)),
        PlainCall("torch channels-last", _torch_training(workload, channels_last)),
    )


def _torch_resnet50(inputs: Inputs) -> Call:
    batch, weights, statistics = inputs
    network = resnet50.inference(weights, statistics)
    return lambda: network(batch)


# By workload. Workloads not listed have no plain call besides their own implementations.
PLAIN_CALLS: Mapping[str, tuple[PlainCall, ...]] = {
    "matmul": (
        PlainCall("torch @", _torch_matmul),
        PlainCall("NumPy @", _numpy_matmul),
        PlainCall("SciPy gemm", _scipy_gemm),
    ),
    "image_convolution": (
        PlainCall("torch", _torch_convolution),
        PlainCall("torch channels-last", _in_channels_last(_torch_convolution)),
    ),
    "gaussian_blur": (
        PlainCall("cv2.GaussianBlur", _opencv_blur),
        PlainCall("cv2.sepFilter2D", _opencv_separable),
        PlainCall("ndimage.gaussian_filter", _scipy_blur),
        PlainCall("torch separable", _torch_blur),
    ),
    "edge_detection": (
        PlainCall("cv2.Sobel", _opencv_sobel),
        PlainCall("ndimage.sobel", _scipy_sobel),
        PlainCall("torch depthwise", _torch_sobel),
    ),
    "fft": (
        PlainCall("torch.fft.rfft2", lambda inputs: lambda: torch.fft.rfft2(inputs[0])),
        PlainCall("scipy.fft.rfft2", lambda inputs: lambda: scipy.fft.rfft2(inputs[0].numpy())),
        PlainCall("np.fft.rfft2", lambda inputs: lambda: np.fft.rfft2(inputs[0].numpy())),
    ),
    "sort": (
        PlainCall("torch.sort", lambda inputs: lambda: torch.sort(inputs[0]).values),
        PlainCall("np.sort", lambda inputs: lambda: np.sort(inputs[0].numpy())),
    ),
    "reduction": (
        PlainCall("torch.sum", lambda inputs: lambda: torch.sum(inputs[0])),
        PlainCall("np.sum", lambda inputs: lambda: np.sum(inputs[0].numpy())),
    ),
    "attention_forward": (PlainCall("torch sdpa", _torch_attention),),
    "attention_backward": (PlainCall("torch sdpa", _torch_attention_backward),),
    "cnn_training_step": _training_calls(CnnTrainingStep()),
    "resnet50_inference": (
        PlainCall("torch", _torch_resnet50),
        PlainCall("torch channels-last", _in_channels_last(_torch_resnet50)),
    ),
    "resnet50_training": _training_calls(ResNet50Training()),
}


def matmul_as_published(size: int) -> Tensor:
    return torch.rand(size, size) @ torch.rand(size, size)


def image_convolution_as_published(size: int, batch: int) -> Tensor:
    """Create the layers within the timed call, in the default layout and with autograd enabled."""
    layers = torch.nn.Sequential(
        torch.nn.Conv2d(3, 16, 3, padding=1),
        torch.nn.ReLU(),
        torch.nn.Conv2d(16, 32, 3, padding=1),
        torch.nn.ReLU(),
        torch.nn.MaxPool2d(2),
    )
    result: Tensor = layers(torch.rand(batch, 3, size, size))
    return result


def gaussian_blur_as_published(size: int, batch: int) -> Tensor:
    """Blur with the published kernel, sigma and border; the code itself was not published."""
    blurred: Tensor = _torch_blur((torch.rand(batch, 3, size, size),))()
    return blurred


AS_PUBLISHED: Mapping[str, Callable[..., Tensor]] = {
    "matmul": matmul_as_published,
    "image_convolution": image_convolution_as_published,
    "gaussian_blur": gaussian_blur_as_published,
}


# By workload, if the published comparison has figures but no code.
RECONSTRUCTED: Mapping[str, str] = {
    "gaussian_blur": "reconstructed from kernel, sigma and border; the source shows no code for it",
}


def seconds_as_published(workload: str, parameters: Mapping[str, int]) -> float | None:
    """Time a call, setup included, as the published comparison does; return None if it has none."""
    work = AS_PUBLISHED.get(workload)
    if work is None:
        return None
    start = time.perf_counter()
    work(**parameters)
    return time.perf_counter() - start
