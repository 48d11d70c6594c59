"""Edges in RGB images: each channel's 3×3 Sobel gradient magnitude, with reflected borders."""

from __future__ import annotations

import numpy as np

from batchmark_job.workloads.base import Implementation
from batchmark_job.workloads.support import images, opencv_tensors, torch_calls
from batchmark_job.workloads.support.cuda_graph import CudaGraph
from batchmark_job.workloads.support.opencv_tensors import Band, Image, OpenCVFilter
from batchmark_job.workloads.support.reference import Float64Array, correlate
from batchmark_job.workloads.support.torch_calls import TorchImplementation
from batchmark_job.workloads.support.triton_filters import TritonSobel
from batchmark_job.workloads.tensors import Call, Parameters, Tensor, Tensors

DERIVATIVE = np.array([-1.0, 0.0, 1.0])
SMOOTHING = np.array([1.0, 2.0, 1.0])

BAND_PIXELS = 2**17  # a band's gradients stay in the cache
BAND_ROWS = 64  # judgment: images below 2048² must also give each thread bands


def _opencv_gradients(source: Image, horizontal: Image, vertical: Image) -> None:
    import cv2

    border = cv2.BORDER_REFLECT_101
    cv2.Sobel(source, -1, 1, 0, dst=horizontal, ksize=3, borderType=border)
    cv2.Sobel(source, -1, 0, 1, dst=vertical, ksize=3, borderType=border)


class OpenCVSobel(OpenCVFilter):
    """Applies OpenCV's functions one after another to whole images."""

    name = "opencv"

    def working_set_bytes(self, parameters: Parameters, dtype: str) -> int:
        """Return the memory for the input, the output and one image's two gradients."""
        gradients = 2 * parameters["size"] * images.row_bytes(parameters, dtype)
        return 2 * images.batch_bytes(parameters, dtype) + gradients

    def buffers(self, inputs: Tensors) -> Tensors:
        import torch

        one_image = inputs[0][:1]
        return tuple(map(torch.empty_like, (inputs[0], one_image, one_image)))

    def prepare_with(self, inputs: Tensors, buffers: Tensors) -> Call:
        import cv2

        edges, *gradients = buffers
        sources, targets = opencv_tensors.views(inputs[0]), opencv_tensors.views(edges)
        horizontal, vertical = (opencv_tensors.views(gradient)[0] for gradient in gradients)

        def call() -> Tensor:
            for source, target in zip(sources, targets, strict=True):
                _opencv_gradients(source, horizontal, vertical)
                cv2.magnitude(horizontal, vertical, magnitude=target)
            return edges

        return call


class OpenCVSobelInBands(OpenCVFilter):
    """Runs OpenCV on bands of rows, one at a time per thread, to keep gradients in the cache."""

    name = "opencv in bands"

    def working_set_bytes(self, parameters: Parameters, dtype: str) -> int:
        """Return the memory for the input, the output and, per thread, one band's two gradients."""
        gradients = 2 * (_band_rows(parameters["size"]) + 2) * images.row_bytes(parameters, dtype)
        return 2 * images.batch_bytes(parameters, dtype) + torch_calls.threads() * gradients

    def prepare_with(self, inputs: Tensors, buffers: Tensors) -> Call:
        import cv2

        (edges,) = buffers

        def work(band: Band) -> None:
            # Fresh arrays reuse the last band's memory, which is still in the cache.
            horizontal, vertical = np.empty_like(band.source), np.empty_like(band.source)
            _opencv_gradients(band.source, horizontal, vertical)
            cv2.magnitude(horizontal[band.inner], vertical[band.inner], magnitude=band.target)

        rows = _band_rows(edges.shape[3])
        return opencv_tensors.in_bands(inputs[0], edges, rows, halo=1, work=work)


def _band_rows(size: int) -> int:
    return min(max(BAND_PIXELS // size, 8), BAND_ROWS, size)


class ScipySobel(images.ScipyFilter):
    """Computes the gradients with SciPy and their magnitude with NumPy."""

    batches_written = 3

    def prepare_with(self, inputs: Tensors, buffers: Tensors) -> Call:
        from scipy import ndimage

        edges = buffers[0]
        source = inputs[0].numpy()
        target, horizontal, vertical = (buffer.numpy() for buffer in buffers)

        def call() -> Tensor:
            for gradient, (rows, columns) in (
                (horizontal, (SMOOTHING, DERIVATIVE)),
                (vertical, (DERIVATIVE, SMOOTHING)),
            ):
                ndimage.correlate1d(source, rows, axis=2, output=gradient, mode="mirror")
                ndimage.correlate1d(gradient, columns, axis=3, output=gradient, mode="mirror")
            np.hypot(horizontal, vertical, out=target)
            return edges

        return call


class TorchSobel(TorchImplementation):
    """Computes both gradients in one depthwise convolution."""

    name = "torch depthwise"
    dtypes = Implementation.dtypes

    def working_set_bytes(self, parameters: Parameters, dtype: str) -> int:
        """Return the memory for input, padded input, two gradients and the last two magnitudes."""
        padded = dict(parameters, size=parameters["size"] + 2)
        return 6 * images.batch_bytes(padded, dtype)

    def prepare(self, inputs: Tensors) -> Call:
        import torch
        import torch.nn.functional as F  # noqa: N812

        batch = inputs[0]
        kernels = np.stack([np.outer(SMOOTHING, DERIVATIVE), np.outer(DERIVATIVE, SMOOTHING)])
        weights = torch.from_numpy(kernels).to(batch.device, batch.dtype).unsqueeze(1)
        weights = weights.repeat(images.CHANNELS, 1, 1, 1)

        def call() -> Tensor:
            padded = F.pad(batch, (1, 1, 1, 1), mode="reflect")
            with torch_calls.cudnn_search():
                gradients = F.conv2d(padded, weights, groups=images.CHANNELS)
            return torch.hypot(gradients[:, 0::2], gradients[:, 1::2])

        return call


class EdgeDetection(images.ImageFilter):
    name = "edge_detection"
    summary = "magnitude of the 3x3 Sobel gradient, with reflected borders"
    axes = images.axes(minimum_size=2)
    halo = 1
    implementations = (
        OpenCVSobel(),
        OpenCVSobelInBands(),
        ScipySobel(),
        TorchSobel(),
        CudaGraph(TorchSobel()),
        TritonSobel(),
        CudaGraph(TritonSobel()),
    )

    def flops(self, parameters: Parameters) -> int:
        """Count 26 operations per element: 6 products and 5 sums per gradient, 4 per magnitude."""
        return images.pixels(parameters) * images.CHANNELS * 26

    def expected(self, window: Float64Array) -> Float64Array:
        horizontal = correlate(correlate(window, SMOOTHING, axis=1), DERIVATIVE, axis=2)
        vertical = correlate(correlate(window, DERIVATIVE, axis=1), SMOOTHING, axis=2)
        return np.asarray(np.hypot(horizontal, vertical))
