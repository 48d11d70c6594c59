"""The interface of a workload: what it computes, and the implementations that compute it.

Describing a workload costs no import of torch; only creating inputs and running do.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import numpy as np
    from torch import Tensor

    Tensors = tuple[Tensor, ...]
    Call = Callable[[], Tensor]
    Parameters = Mapping[str, int]

DTYPE_BYTES = {"float32": 4, "float64": 8, "float16": 2, "bfloat16": 2}

# Largest error, relative to the reference's largest value, that rounding alone can explain.
TOLERANCES = {"float64": 1e-12, "float32": 1e-5, "float16": 1e-2, "bfloat16": 3e-2}


@dataclass(frozen=True)
class Axis:
    """One parameter of a workload; without a default it must be given."""

    name: str
    minimum: int
    maximum: int
    default: int | None = None


class Implementation(ABC):
    """One way to compute a workload; several may compete for the same device."""

    name: ClassVar[str]
    devices: ClassVar[tuple[str, ...]]
    dtypes: ClassVar[tuple[str, ...]] = tuple(DTYPE_BYTES)

    @abstractmethod
    def version(self) -> str:
        """Version of the library that does the work."""

    def refusal(self, device: str, dtype: str) -> str | None:
        """Why it can't compute this dtype on this device; None if it can."""
        if device not in self.devices:
            return f"{self.name} does not run on {device}"
        if dtype not in self.dtypes:
            return f"{self.name} has no {dtype}; it has {', '.join(self.dtypes)}"
        return None

    @abstractmethod
    def working_set_bytes(self, parameters: Parameters, dtype: str) -> int:
        """Most memory held at once on the device: inputs, output and temporaries."""

    def arrange(self, inputs: Tensors) -> Tensors:
        """Bring host inputs into the layout it likes best; not timed, values unchanged."""
        return inputs

    @abstractmethod
    def prepare(self, inputs: Tensors) -> Call:
        """Set up outside the timer; the call returned is what gets timed.

        Args:
            inputs: arranged inputs on the device.
        """


class Workload(ABC):
    """A piece of work with a grid of parameters and a float64 reference."""

    name: ClassVar[str]
    summary: ClassVar[str]
    axes: ClassVar[tuple[Axis, ...]]
    implementations: ClassVar[tuple[Implementation, ...]]

    @abstractmethod
    def input_bytes(self, parameters: Parameters, dtype: str) -> int:
        """Size of one set of inputs."""

    @abstractmethod
    def output_bytes(self, parameters: Parameters, dtype: str) -> int:
        """Size of the output."""

    @abstractmethod
    def flops(self, parameters: Parameters) -> int:
        """Floating-point operations of one call."""

    @abstractmethod
    def bytes_moved(self, parameters: Parameters, dtype: str) -> int:
        """Least bytes that one call must read and write in device memory."""

    @abstractmethod
    def make_inputs(self, parameters: Parameters, dtype: str, seed: int) -> Tensors:
        """Random inputs in host memory, the same for the same seed."""

    @abstractmethod
    def relative_error(self, inputs: Tensors, output: Tensor, rng: np.random.Generator) -> float:
        """Largest error on a sample of the output, relative to the reference's largest value.

        NaN or infinity in the output gives NaN or infinity.
        """

    def implementation(self, device: str, dtype: str) -> Implementation | str:
        """The first implementation that can, or why none can."""
        refusals = []
        for candidate in self.implementations:
            refusal = candidate.refusal(device, dtype)
            if refusal is None:
                return candidate
            if device in candidate.devices:
                refusals.append(refusal)
        return "; ".join(refusals) or f"{self.name} has no implementation for {device}"
