"""Base classes for workloads, which define what is computed, and for their implementations.

Describing a workload must not load torch, OpenCV or SciPy, which takes seconds; only making inputs
and running it may load them. Therefore, this package imports them inside functions.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import ClassVar

import numpy as np

from batchmark_job.workloads.tensors import Call, Parameters, Tensor, Tensors

# tf32 is float32 data that tensor cores multiply with a 10-bit mantissa.
DTYPE_BYTES = {"float32": 4, "float64": 8, "tf32": 4, "float16": 2, "bfloat16": 2}

# Largest error that rounding alone explains, relative to the reference's largest value. tf32's is
# twice that of operands truncated to 10 bits: tests/unit/job/workloads/test_tf32.py.
TOLERANCES = {"float64": 1e-12, "float32": 1e-5, "tf32": 1e-2, "float16": 1e-2, "bfloat16": 3e-2}


@dataclass(frozen=True)
class Axis:
    """A workload parameter, which is required unless it has a default."""

    name: str
    minimum: int
    maximum: int
    default: int | None = None


class Implementation(ABC):
    """One way to compute a workload; several may compete for the same device."""

    name: ClassVar[str]
    devices: ClassVar[tuple[str, ...]]
    dtypes: ClassVar[tuple[str, ...]] = ("float32", "float64", "float16", "bfloat16")
    single_threaded: ClassVar[bool] = False  # fixed, whatever the job's threads
    library: ClassVar[str]  # the module that does the work
    least_row_seconds: ClassVar[float] = 0.0  # not tried in shorter rows, as it starts too slowly

    def version(self) -> str:
        """Return the library's version; this is only called if `refusal` returns None."""
        return str(import_module(self.library).__version__)

    def is_for(self, device: str, dtype: str) -> bool:
        return device in self.devices and dtype in self.dtypes

    def refusal(self, device: str, dtype: str) -> str | None:
        """Return why this dtype can't be computed on this device, or None if it can."""
        if device not in self.devices:
            return f"{self.name} does not run on {device}"
        if dtype not in self.dtypes:
            return f"{self.name} does not support {dtype}; it supports {', '.join(self.dtypes)}"
        return None

    @abstractmethod
    def working_set_bytes(self, parameters: Parameters, dtype: str) -> int:
        """Return the peak memory use on the device for inputs, output and temporaries."""

    def arrange(self, inputs: Tensors) -> Tensors:
        """Convert host inputs to the preferred layout, keeping their values; this is not timed."""
        return inputs

    @abstractmethod
    def prepare(self, inputs: Tensors) -> Call:
        """Prepare to run on arranged inputs on the device, and return the call to time."""

    def prepare_each(self, sets: Iterable[Tensors]) -> Iterator[Call]:
        """Prepare a call for each of several input sets that have the same shapes."""
        return map(self.prepare, sets)

    def remark(self, output: Tensor) -> str | None:  # noqa: ARG002
        """Return a remark about the figures if the output calls for one, or None by default."""
        return None

    def plain(self) -> Implementation:
        """Return the implementation that makes the cold call: this one, or the one it wraps."""
        return self


class BufferedImplementation(Implementation):
    """An implementation whose calls share output buffers to keep them in the cache.

    A plain library call has the same advantage: the allocator reuses its last output's memory.
    """

    def buffers(self, inputs: Tensors) -> Tensors:
        """Allocate the output, shaped like the first input by default, and any other buffers."""
        import torch

        return (torch.empty_like(inputs[0]),)

    @abstractmethod
    def prepare_with(self, inputs: Tensors, buffers: Tensors) -> Call:
        """Prepare a call that uses these buffers, whose contents other calls may overwrite."""

    def prepare(self, inputs: Tensors) -> Call:
        return self.prepare_with(inputs, self.buffers(inputs))

    def prepare_each(self, sets: Iterable[Tensors]) -> Iterator[Call]:
        buffers: Tensors = ()
        for inputs in sets:
            buffers = buffers or self.buffers(inputs)
            yield self.prepare_with(inputs, buffers)


class Workload(ABC):
    """A piece of work with a grid of parameters and a float64 reference."""

    name: str
    summary: str
    axes: tuple[Axis, ...]
    implementations: tuple[Implementation, ...]
    needs_gradients: bool = False  # otherwise calls run in torch.inference_mode()
    repeatable: bool = True  # otherwise only the first output is compared with the reference
    tolerances: ClassVar[Mapping[str, float]] = TOLERANCES
    about_tolerance: ClassVar[str] = ""  # advice added to messages about the tolerance

    def tolerance(self, dtype: str) -> float:
        """Return the largest relative error that counts as correct."""
        return self.tolerances[dtype]

    @abstractmethod
    def input_bytes(self, parameters: Parameters, dtype: str) -> int:
        """Return the size of an input set in bytes."""

    def output_bytes(self, parameters: Parameters, dtype: str) -> int:
        """Return the output's size in bytes, which by default equals the inputs' size."""
        return self.input_bytes(parameters, dtype)

    @abstractmethod
    def flops(self, parameters: Parameters) -> int | None:
        """Return a call's floating-point operation count, or None if counting makes no sense."""

    def items(self, parameters: Parameters) -> int | None:  # noqa: ARG002
        """Return how many images a call processes, or None if images per second make no sense."""
        return None

    def bytes_moved(self, parameters: Parameters, dtype: str) -> int | None:
        """Return how many bytes a call must move to or from device memory, or None if unknown.

        By default, inputs are read once and the output is written once; everything else can stay in
        caches.
        """
        return self.input_bytes(parameters, dtype) + self.output_bytes(parameters, dtype)

    @abstractmethod
    def make_inputs(self, parameters: Parameters, dtype: str, seed: int) -> Tensors:
        """Make random inputs in host memory; the same seed gives the same inputs."""

    @abstractmethod
    def relative_error(self, inputs: Tensors, output: Tensor, rng: np.random.Generator) -> float:
        """Return the largest error in the output or part of it, relative to the largest reference.

        The result is NaN or infinite if the part checked contains NaN or infinity.
        """

    def implementations_for(self, device: str) -> list[Implementation]:
        """Return the implementations for a device, regardless of the dtypes they support."""
        return [each for each in self.implementations if device in each.devices]
