"""Triton's kernels, run by its interpreter in the place of a compiler."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator
from typing import Any

from torch.utils._python_dispatch import _disable_current_modes

from tests.stand_ins.cuda.gpu import SimulatedGpu

AVAILABLE = importlib.util.find_spec("triton") is not None


def launches(gpu: SimulatedGpu) -> Iterator[tuple[Any, str, Any]]:
    """A launch is one node of a graph, and reads and writes what lies at its addresses."""
    if not AVAILABLE:
        return
    from triton.runtime import interpreter

    yield interpreter.GridExecutor, "__call__", _launch(gpu, interpreter.GridExecutor.__call__)


def _launch(gpu: SimulatedGpu, real: Callable[..., None]) -> Callable[..., None]:
    def launch(executor: Any, *args: Any, **kwargs: Any) -> None:
        gpu.check()

        def run(*args: Any, **kwargs: Any) -> None:
            with _disable_current_modes():
                real(executor, *args, **kwargs)

        run(*args, **kwargs)
        if gpu.capturing is not None:
            gpu.capturing.record(run, args, kwargs, None)

    return launch
