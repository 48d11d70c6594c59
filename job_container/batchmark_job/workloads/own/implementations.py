"""Implementations that convert inputs and run a user's own code on them."""

from __future__ import annotations

from collections.abc import Callable
from numbers import Number
from typing import Any, ClassVar, Protocol

import numpy as np

from batchmark_job.workloads.base import DTYPE_BYTES
from batchmark_job.workloads.support import torch_calls
from batchmark_job.workloads.support.torch_calls import TorchImplementation
from batchmark_job.workloads.tensors import Call, Parameters, Tensor, Tensors

NUMPY_CODE = "NumPy code for the CPU belongs in step_cpu()"
ASSUMED_SETS = 4  # input sizes assumed to be in memory if a file says nothing


class CodeFile(Protocol):
    """The part of files.UserWorkload that the implementations use."""

    checksum: str
    repeatable: bool

    def function(self, name: str) -> Callable[..., Any]: ...
    def formula(self, name: str, parameters: Parameters) -> int | None: ...
    def input_bytes(self, parameters: Parameters, dtype: str) -> int: ...


class UserCode(TorchImplementation):
    """The user's step, run on torch tensors; its version is the file's checksum."""

    name = "own code"

    def __init__(self, workload: CodeFile, step: str) -> None:
        self.workload = workload
        self.step = step
        self._inputs_at: set[int] = set()  # ids of storages
        if step == "step_cuda":
            self.devices = ("cuda",)  # type: ignore[misc]

    def version(self) -> str:
        return self.workload.checksum

    def working_set_bytes(self, parameters: Parameters, dtype: str) -> int:
        """Return the memory that the file states, or else ASSUMED_SETS times the inputs' size."""
        held = self.workload.formula("elements_held", parameters)
        if held is not None:
            return held * DTYPE_BYTES[dtype]
        return ASSUMED_SETS * self.workload.input_bytes(parameters, dtype)

    def prepare(self, inputs: Tensors) -> Call:
        import torch

        step = self.workload.function(self.step)
        if not self.workload.repeatable:
            inputs = tuple(tensor.clone() for tensor in inputs)
        self._inputs_at.update(tensor.untyped_storage().data_ptr() for tensor in inputs)

        def call() -> Tensor:
            output = step(*inputs)
            if not isinstance(output, torch.Tensor):
                raise TypeError(
                    f"{self.step}() returned {_kind(output)}; return one torch tensor. {NUMPY_CODE}"
                )
            return output

        return call

    def remark(self, output: Tensor) -> str | None:
        """Return a remark if the output's memory came from NumPy rather than torch or an input."""
        storage = output.untyped_storage()
        if output.is_cuda or storage.resizable() or storage.data_ptr() in self._inputs_at:
            return None
        return f"{self.step}() used NumPy, not torch. {NUMPY_CODE}"


class UserArrays(UserCode):
    """The user's step, run on NumPy arrays; it uses NumPy, pandas, scikit-learn or similar."""

    name = "own NumPy code"
    devices: ClassVar[tuple[str, ...]] = ("cpu",)
    dtypes: ClassVar[tuple[str, ...]] = ("float32", "float64", "float16")

    def prepare(self, inputs: Tensors) -> Call:
        import torch

        step = self.workload.function(self.step)
        copied = not self.workload.repeatable
        arrays = [(tensor.clone() if copied else tensor).numpy() for tensor in inputs]

        def call() -> Tensor:
            output = step(*arrays)
            if not isinstance(output, np.ndarray | np.generic):
                no_array = output is None or isinstance(output, tuple)
                fix = "" if no_array else ", for example by np.asarray()"
                raise TypeError(
                    f"{self.step}() returned {_kind(output)}; return one NumPy array{fix}"
                )
            return torch.from_numpy(np.asarray(output))

        return call

    def remark(self, output: Tensor) -> str | None:  # noqa: ARG002
        return None


def as_tensor(made: object, dtype: str) -> Tensor:
    """Convert an input to a tensor, and a floating-point array's values to the row's dtype.

    Raises:
        TypeError: the input is neither a tensor in host memory nor an array.
    """
    import torch

    if isinstance(made, np.ndarray):
        tensor = torch.from_numpy(np.ascontiguousarray(made))
        return tensor.to(torch_calls.torch_dtype(dtype)) if tensor.is_floating_point() else tensor
    if not isinstance(made, torch.Tensor) or made.device.type != "cpu":
        fix = "; pass a number as an array, such as np.array(16)" * isinstance(made, Number)
        raise TypeError(
            "set_up() must return one or more torch tensors in host memory or NumPy arrays, "
            f"such as torch.rand(size, dtype=dtype); it returned {type(made).__name__}{fix}"
        )
    return made


def _kind(output: object) -> str:
    if output is None:
        return "None"
    name = type(output).__name__
    return f"{'an' if name[0] in 'aeiou' else 'a'} {name}"
