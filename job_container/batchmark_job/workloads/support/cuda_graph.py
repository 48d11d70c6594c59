"""Runs another implementation's call as a CUDA graph, for sizes where launch time dominates."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from batchmark_job.workloads.base import Implementation
from batchmark_job.workloads.tensors import Call, Parameters, Tensor, Tensors

if TYPE_CHECKING:
    import torch

WARMUP_CALLS = 2  # cuDNN's search and Triton's compilation can't be captured


class CudaGraph(Implementation):
    """Captures a call together with its inputs, and replays all its kernels with one launch.

    Every call overwrites the same output tensor. Flags, such as the one for tf32, take effect when
    the call is captured.
    """

    devices = ("cuda",)

    def __init__(self, inner: Implementation) -> None:
        self.inner = inner
        self.name = f"{inner.name} in a CUDA graph"  # type: ignore[misc]
        self.dtypes = inner.dtypes  # type: ignore[misc]

    def version(self) -> str:
        return self.inner.version()

    def refusal(self, device: str, dtype: str) -> str | None:
        return super().refusal(device, dtype) or self.inner.refusal(device, dtype)

    def working_set_bytes(self, parameters: Parameters, dtype: str) -> int:
        """Return twice the call's memory, as torch also caches what the warm-up needed."""
        return 2 * self.inner.working_set_bytes(parameters, dtype)

    def arrange(self, inputs: Tensors) -> Tensors:
        return self.inner.arrange(inputs)

    def plain(self) -> Implementation:
        """Return the inner implementation, since capturing already makes the first call."""
        return self.inner.plain()

    def prepare(self, inputs: Tensors) -> Call:
        return next(self.prepare_each([inputs]))

    def prepare_each(self, sets: Iterable[Tensors]) -> Iterator[Call]:
        """Prepare all calls with shared buffers, which stay in the cache."""
        return captured(self.inner.prepare_each(sets))


def captured(calls: Iterable[Call]) -> Iterator[Call]:
    """Capture calls on one stream, and yield their replays.

    A single stream is used because each stream that calls cuBLAS keeps a workspace. Calls are also
    prepared on this stream, because autograd launches a backward pass on its forward pass's
    stream. Calls share a memory pool, as only one of them runs at a time.
    """
    import torch

    stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    pool = torch.cuda.graph_pool_handle()
    preparing = iter(calls)
    while True:
        current = torch.cuda.current_stream()
        stream.wait_stream(current)
        with torch.cuda.stream(stream):
            call = next(preparing, None)
            if call is None:
                return
            for _ in range(WARMUP_CALLS):
                call()
        current.wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=pool, stream=stream):
            output = call()
        yield _Replay(graph, output, call)


@dataclass(frozen=True)
class _Replay:
    """Replays a graph and keeps the call's tensors alive, as graphs store only their addresses."""

    graph: torch.cuda.CUDAGraph
    output: Tensor
    captured: Call

    def __call__(self) -> Tensor:
        self.graph.replay()
        return self.output
