"""What of torch.cuda this project calls, on the simulated device."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from types import SimpleNamespace
from typing import Any
from unittest import mock

import torch
import torch.nn.attention
import torch.nn.functional as F  # noqa: N812

from batchmark_job.machine import cards
from tests.stand_ins import nvml
from tests.stand_ins.cuda.gpu import GPUS, NOT_IN_A_CAPTURE, SimulatedGpu
from tests.stand_ins.cuda.graphs import Graph
from tests.stand_ins.cuda.tensor_cores import TensorCores
from tests.stand_ins.cuda.triton_launches import launches

# Of the fused kernels of attention, which dtypes each takes.
KERNEL_DTYPES = {
    "FLASH_ATTENTION": (torch.float16, torch.bfloat16),
    "CUDNN_ATTENTION": (torch.float16, torch.bfloat16),
    "EFFICIENT_ATTENTION": (torch.float32, torch.float16, torch.bfloat16),
}


@contextmanager
def installed(model: str = "A10G", count: int = 1, **changes: Any) -> Iterator[SimulatedGpu]:
    """Let torch see GPUs of this model, and NVML answer for them.

    Args:
        model: a key of GPUS.
        count: how many; the first one is used and given to the test.
        changes: what differs from the model, such as `used_by_others`.
    """
    gpu = replace(SimulatedGpu(*GPUS[model]), **changes)
    uuids = [gpu.uuid, *(f"{number:02x}" for number in range(1, count))]
    others = {f"GPU_{uuid}": nvml.Card() for uuid in uuids[1:]}
    cards = nvml.Nvml(**{f"GPU_{gpu.uuid}": gpu.card} | others)
    with ExitStack() as stack:
        stack.enter_context(nvml.installed(cards, *uuids))
        for owner, name, replacement in _replacements(gpu):
            stack.enter_context(mock.patch.object(owner, name, replacement))
        stack.enter_context(TensorCores(gpu))
        yield gpu


def _replacements(gpu: SimulatedGpu) -> Iterator[tuple[Any, str, Any]]:
    properties = SimpleNamespace(
        name=gpu.name,
        total_memory=gpu.memory_bytes,
        L2_cache_size=gpu.cache_bytes,
        uuid=gpu.uuid,
        multi_processor_count=gpu.multiprocessors,
    )
    of_cuda = {
        "is_available": lambda: True,
        "init": gpu.check,
        "synchronize": gpu.wait,
        "empty_cache": gpu.check,
        "_sleep": gpu.sleep,
        "get_device_properties": lambda _index=0: properties,
        "get_device_capability": lambda _index=0: gpu.capability,
        "get_device_name": lambda _index=0: gpu.name,
        "get_arch_list": lambda: list(cards.BUILT_FOR),
        "mem_get_info": lambda: (gpu.free_bytes(), gpu.memory_bytes),
        "max_memory_allocated": lambda: gpu.peak_bytes,
        "Event": lambda enable_timing=False: Event(gpu, timed=enable_timing),
        "CUDAGraph": lambda: Graph(gpu),
        "graph": lambda graph, pool=None, stream=None: graph.capture(stream),
        "graph_pool_handle": lambda: (0, 1),
        "Stream": lambda: Stream(gpu),
        "current_stream": lambda: gpu.stream or Stream(gpu, made=0),
        "stream": lambda stream: mock.patch.object(gpu, "stream", stream),
    }
    for name, replacement in of_cuda.items():
        yield torch.cuda, name, replacement
    for name in ("empty", "ones", "zeros", "full", "rand", "empty_like"):
        yield torch, name, _on_device(gpu, getattr(torch, name))
    yield torch.Tensor, "to", _to(gpu, torch.Tensor.to)
    yield torch.Tensor, "cuda", lambda tensor: gpu.allocate(tensor.clone())
    yield torch.Tensor, "cpu", lambda tensor: tensor.to("cpu")
    yield torch.Tensor, "pin_memory", torch.Tensor.clone
    yield torch, "cudnn_convolution_relu", _convolution_relu
    yield torch, "compile", lambda function, **_options: function
    yield torch.nn.attention, "sdpa_kernel", _sdpa_kernel(gpu)
    yield F, "scaled_dot_product_attention", _attention(gpu, F.scaled_dot_product_attention)
    yield torch.autograd, "grad", _grad(gpu, torch.autograd.grad)
    yield F, "conv2d", _conv2d(F.conv2d)
    yield from launches(gpu)


class Stream:
    def __init__(self, gpu: SimulatedGpu, made: int = 1) -> None:
        gpu.check()
        gpu.streams += made
        self.synchronize = gpu.wait

    def wait_stream(self, other: Stream) -> None: ...


def _grad(gpu: SimulatedGpu, real: Callable[..., Any]) -> Callable[..., Any]:
    """Autograd launches a backward pass on its forward pass' stream, where that is known."""

    def gradients(outputs: Any, *args: Any, **kwargs: Any) -> Any:
        graph, node = gpu.capturing, getattr(outputs.grad_fn, "metadata", {})
        if graph is not None and node.get("stream", graph.stream) is not graph.stream:
            raise torch.AcceleratorError(NOT_IN_A_CAPTURE)
        return real(outputs, *args, **kwargs)

    return gradients


class Event:
    """A mark in a stream; the simulated device does its work at once."""

    def __init__(self, gpu: SimulatedGpu, *, timed: bool) -> None:
        self._gpu, self._timed = gpu, timed
        self._at: float | None = None
        self._waited_for = False

    def record(self) -> None:
        self._gpu.check()
        self._at, self._waited_for = time.perf_counter(), False

    def synchronize(self) -> None:
        self._gpu.wait()
        self._waited_for = True

    def query(self) -> bool:
        """Whether the device got there; an event that was never recorded counts as past."""
        self._gpu.check()
        return self._at is None or not self._gpu.asleep

    def elapsed_time(self, end: Event) -> float:
        """Milliseconds; later work must be known to be done, as for cudaEventElapsedTime."""
        if not (self._timed and end._timed) or self._at is None or end._at is None:
            raise torch.AcceleratorError("CUDA error: invalid resource handle")
        if not end._waited_for:
            raise torch.AcceleratorError("CUDA error: device not ready")
        return (end._at - self._at) * 1e3


def _names_cuda(device: Any) -> bool:
    return str(device).startswith("cuda")


def _on_device(gpu: SimulatedGpu, make: Callable[..., Any]) -> Callable[..., Any]:
    def made(*args: Any, **kwargs: Any) -> Any:
        like = args[0] if args and isinstance(args[0], torch.Tensor) else None
        here = like is not None and gpu.holds(like)
        if not _names_cuda(kwargs.get("device", "cuda" if here else "cpu")):
            return make(*args, **kwargs)
        return gpu.allocate(make(*args, **kwargs | {"device": "cpu"}))

    return made


def _to(gpu: SimulatedGpu, real: Callable[..., Any]) -> Callable[..., Any]:
    def moved(tensor: Any, *args: Any, **kwargs: Any) -> Any:
        if args and _names_cuda(args[0]):
            return gpu.allocate(tensor.clone())
        if args and args[0] == "cpu":
            gpu.wait()
        return real(tensor, *args, **kwargs)

    return moved


def _sdpa_kernel(gpu: SimulatedGpu) -> Callable[..., Any]:
    @contextmanager  # torch looks for what it wraps
    def only(backend: Any) -> Iterator[None]:
        with mock.patch.object(gpu, "attention", backend):
            yield

    return only


def _attention(gpu: SimulatedGpu, real: Callable[..., Any]) -> Callable[..., Any]:
    def attend(queries: Any, *others: Any, **options: Any) -> Any:
        if gpu.attention and queries.dtype not in KERNEL_DTYPES[gpu.attention.name]:
            raise RuntimeError("No available kernel. Aborting execution.")
        output = real(queries, *others, **options)
        if output.grad_fn is not None:
            output.grad_fn.metadata["stream"] = gpu.stream
        return output

    return attend


def _convolution_relu(
    batch: Any, weight: Any, bias: Any, stride: Any, padding: Any, dilation: Any, groups: int
) -> Any:
    if batch.dtype == torch.float64:
        raise RuntimeError("Unable to find a valid cuDNN algorithm to run convolution")
    return F.conv2d(batch, weight, bias, stride, padding, dilation, groups).relu_()


def _conv2d(real: Callable[..., Any]) -> Callable[..., Any]:
    """A CPU's own float16 kernel may never return, so those go by float32."""

    def convolve(batch: Any, weight: Any, bias: Any = None, *others: Any, **options: Any) -> Any:
        if batch.dtype != torch.float16:
            return real(batch, weight, bias, *others, **options)
        wide = None if bias is None else bias.float()
        return real(batch.float(), weight.float(), wide, *others, **options).half()

    return convolve
