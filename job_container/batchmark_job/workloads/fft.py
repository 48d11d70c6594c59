"""Two-dimensional Fourier transform of a batch of real square images."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from batchmark_job.workloads.base import DTYPE_BYTES, Workload
from batchmark_job.workloads.support import images, reference, torch_calls
from batchmark_job.workloads.support.cuda_graph import CudaGraph
from batchmark_job.workloads.support.reference import Float64Array
from batchmark_job.workloads.support.torch_calls import TorchImplementation
from batchmark_job.workloads.tensors import Call, Parameters, Tensor, Tensors

CHECKED_FREQUENCIES = 8  # judgment: at random, besides the ends; each sums a whole image
CHECKED_IMAGES = 2  # the last one and one at random


class TorchFft(TorchImplementation):
    """Torch's FFT, which uses MKL on the CPU and cuFFT on CUDA."""

    dtypes = ("float32", "float64")

    def working_set_bytes(self, parameters: Parameters, dtype: str) -> int:
        """Return the memory for input, output and a work area as large as the output."""
        return _images_bytes(parameters, dtype) + 2 * _spectra_bytes(parameters, dtype)

    def prepare(self, inputs: Tensors) -> Call:
        """Prepare a call that allocates its output, as reusing a given one is slower on the CPU."""
        import torch

        (batch,) = inputs
        return lambda: torch.fft.rfft2(batch)


class ScipyFft(TorchFft):
    """SciPy's pocketfft, which computes in its input's precision."""

    name = "scipy"
    devices = ("cpu",)
    library = "scipy"

    def prepare(self, inputs: Tensors) -> Call:
        import scipy.fft
        import torch

        batch, workers = inputs[0].numpy(), torch_calls.threads()
        return lambda: torch.from_numpy(scipy.fft.rfft2(batch, workers=workers))


class Fft(Workload):
    name = "fft"
    summary = "real two-dimensional Fourier transform of size x size images"
    axes = images.axes(minimum_size=2)
    implementations = (TorchFft(), ScipyFft(), CudaGraph(TorchFft()))

    def input_bytes(self, parameters: Parameters, dtype: str) -> int:
        return _images_bytes(parameters, dtype)

    def output_bytes(self, parameters: Parameters, dtype: str) -> int:
        return _spectra_bytes(parameters, dtype)

    def flops(self, parameters: Parameters) -> int:
        """Count 2.5 N log₂ N for N real numbers, following the convention in FFTW's benchmark."""
        count = parameters["size"] ** 2
        return round(parameters["batch"] * 2.5 * count * math.log2(count))

    def make_inputs(self, parameters: Parameters, dtype: str, seed: int) -> Tensors:
        # Around zero: otherwise the mean would exceed all other frequencies together.
        shape = (parameters["batch"], parameters["size"], parameters["size"])
        return torch_calls.uniform([shape], dtype, seed, low=-1.0)

    def relative_error(self, inputs: Tensors, output: Tensor, rng: np.random.Generator) -> float:
        """Check some frequencies of some images against the transform's definition."""
        import torch

        (batch,) = inputs
        count, size, _ = batch.shape
        half = size // 2 + 1
        rows, columns = (
            np.unique([0, length - 1, *rng.integers(length, size=CHECKED_FREQUENCIES)])
            for length in (size, half)
        )
        chosen = np.unique([count - 1, *rng.integers(count, size=CHECKED_IMAGES - 1)])
        spectra = torch.view_as_real(output[chosen.tolist()][:, rows.tolist()])
        results = reference.to_float64(spectra[:, :, columns.tolist()])
        return reference.relative_error(
            (result, _definition(reference.to_float64(batch[image]), rows, columns))
            for image, result in zip(chosen.tolist(), results, strict=True)
        )


def _images_bytes(parameters: Parameters, dtype: str) -> int:
    return parameters["batch"] * parameters["size"] ** 2 * DTYPE_BYTES[dtype]


def _spectra_bytes(parameters: Parameters, dtype: str) -> int:
    """Return the output's size: by symmetry, size x (size // 2 + 1) complex numbers per image."""
    half = parameters["size"] // 2 + 1
    return parameters["batch"] * parameters["size"] * half * 2 * DTYPE_BYTES[dtype]


def _definition(
    image: Float64Array, rows: NDArray[np.int64], columns: NDArray[np.int64]
) -> Float64Array:
    """Compute rows × columns of the spectrum by definition; the last axis is (real, imaginary)."""
    size = image.shape[0]
    # Phases are reduced as integers, which is exact.
    angles = [
        2 * np.pi / size * (np.outer(np.arange(size), frequencies) % size)
        for frequencies in (rows, columns)
    ]
    (row_cos, row_sin), (column_cos, column_sin) = ((np.cos(a), np.sin(a)) for a in angles)
    cosines, sines = image @ column_cos, image @ column_sin
    real = row_cos.T @ cosines - row_sin.T @ sines
    imaginary = -(row_cos.T @ sines + row_sin.T @ cosines)
    return np.stack([real, imaginary], axis=-1)
