"""Gaussian blur for RGB images: 15×15 kernel, σ = 5, with reflected borders."""

from __future__ import annotations

import numpy as np

from batchmark_job.workloads.base import Implementation
from batchmark_job.workloads.support import images, opencv_tensors, torch_calls
from batchmark_job.workloads.support.cuda_graph import CudaGraph
from batchmark_job.workloads.support.opencv_tensors import Band, Image, OpenCVFilter
from batchmark_job.workloads.support.reference import Float64Array, correlate
from batchmark_job.workloads.support.torch_calls import TorchImplementation
from batchmark_job.workloads.support.triton_filters import TritonBlur
from batchmark_job.workloads.tensors import Call, Parameters, Tensor, Tensors

KERNEL_SIZE = 15  # as in the published comparison (docs/measurement.md)
SIGMA = 5.0  # as there
HALO = KERNEL_SIZE // 2


def _taps() -> Float64Array:
    offsets = np.arange(KERNEL_SIZE, dtype=np.float64) - HALO
    taps = np.exp(-(offsets**2) / (2 * SIGMA**2))
    return np.asarray(taps / taps.sum())


def _opencv_blur(source: Image, target: Image) -> None:
    import cv2

    cv2.GaussianBlur(
        source,
        (KERNEL_SIZE, KERNEL_SIZE),
        SIGMA,
        dst=target,
        sigmaY=SIGMA,
        borderType=cv2.BORDER_REFLECT_101,
    )


class OpenCVBlur(OpenCVFilter):
    """Runs OpenCV, which itself distributes the rows of large images among threads."""

    name = "opencv"

    def working_set_bytes(self, parameters: Parameters, dtype: str) -> int:
        return 2 * images.batch_bytes(parameters, dtype)

    def prepare_with(self, inputs: Tensors, buffers: Tensors) -> Call:
        (blurred,) = buffers
        sources, targets = opencv_tensors.views(inputs[0]), opencv_tensors.views(blurred)

        def call() -> Tensor:
            for source, target in zip(sources, targets, strict=True):
                _opencv_blur(source, target)
            return blurred

        return call


class OpenCVBlurInBands(OpenCVBlur):
    """Runs OpenCV on one band of rows per thread, for images that OpenCV itself doesn't split."""

    name = "opencv in bands"

    def working_set_bytes(self, parameters: Parameters, dtype: str) -> int:
        """Return the memory for the input, the output, and one image including its bands' halos."""
        images_held = 2 * images.batch_bytes(parameters, dtype)
        rows = parameters["size"] + 2 * HALO * torch_calls.threads()
        return images_held + rows * images.row_bytes(parameters, dtype)

    def prepare_with(self, inputs: Tensors, buffers: Tensors) -> Call:
        (blurred,) = buffers

        def work(band: Band) -> None:
            rows = np.empty_like(band.source)
            _opencv_blur(band.source, rows)
            np.copyto(band.target, rows[band.inner])

        rows = -(-blurred.shape[2] // torch_calls.threads())
        return opencv_tensors.in_bands(inputs[0], blurred, rows, halo=HALO, work=work)


class ScipyBlur(images.ScipyFilter):
    """SciPy's one-dimensional filter, in one pass per direction."""

    batches_written = 2

    def prepare_with(self, inputs: Tensors, buffers: Tensors) -> Call:
        from scipy import ndimage

        blurred = buffers[0]
        source, taps = inputs[0].numpy(), _taps()
        target, half = (buffer.numpy() for buffer in buffers)

        def call() -> Tensor:
            ndimage.correlate1d(source, taps, axis=2, output=half, mode="mirror")
            ndimage.correlate1d(half, taps, axis=3, output=target, mode="mirror")
            return blurred

        return call


class TorchBlur(TorchImplementation):
    """Two depthwise convolutions, one per direction."""

    name = "torch separable"
    dtypes = Implementation.dtypes

    def refusal(self, device: str, dtype: str) -> str | None:
        return torch_calls.depthwise_refusal(device, dtype) or super().refusal(device, dtype)

    def working_set_bytes(self, parameters: Parameters, dtype: str) -> int:
        """Return the memory for the input, padded input, half-blurred image and two results.

        The results are those of this call and the previous one.
        """
        padded = dict(parameters, size=parameters["size"] + 2 * HALO)
        return 5 * images.batch_bytes(padded, dtype)

    def prepare(self, inputs: Tensors) -> Call:
        import torch
        import torch.nn.functional as F  # noqa: N812

        batch = inputs[0]
        taps = torch.from_numpy(_taps()).to(batch.device, batch.dtype)
        row = taps.view(1, 1, 1, -1).expand(images.CHANNELS, 1, 1, -1).contiguous()
        column = taps.view(1, 1, -1, 1).expand(images.CHANNELS, 1, -1, 1).contiguous()

        def call() -> Tensor:
            padded = F.pad(batch, (HALO, HALO, HALO, HALO), mode="reflect")
            with torch_calls.cudnn_search():
                half = F.conv2d(padded, row, groups=images.CHANNELS)
                return F.conv2d(half, column, groups=images.CHANNELS)

        return call


class GaussianBlur(images.ImageFilter):
    name = "gaussian_blur"
    summary = "15x15 Gaussian blur with sigma 5 and reflected borders"
    axes = images.axes(minimum_size=HALO + 1)
    halo = HALO
    implementations = (
        OpenCVBlur(),
        OpenCVBlurInBands(),
        ScipyBlur(),
        TorchBlur(),
        CudaGraph(TorchBlur()),
        TritonBlur(_taps()),
        CudaGraph(TritonBlur(_taps())),
    )

    def flops(self, parameters: Parameters) -> int:
        """Count 2 · (15 + 15) operations per element, for a row kernel and a column kernel."""
        return images.pixels(parameters) * images.CHANNELS * 2 * 2 * KERNEL_SIZE

    def expected(self, window: Float64Array) -> Float64Array:
        return correlate(correlate(window, _taps(), axis=1), _taps(), axis=2)
