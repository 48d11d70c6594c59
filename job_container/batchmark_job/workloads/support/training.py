"""Code shared by training workloads: one step of SGD with momentum on a batch of images.

A single tensor holds all weights, with convolution weights channels-last if the images are. It is
both an input to the step and, updated in place, its output.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext
from functools import partial
from typing import ClassVar

import numpy as np

from batchmark_job.workloads.base import DTYPE_BYTES, Axis, Workload
from batchmark_job.workloads.support import compiled, images, reference, torch_calls
from batchmark_job.workloads.support.cuda_graph import CudaGraph, captured
from batchmark_job.workloads.support.torch_calls import TorchImplementation
from batchmark_job.workloads.tensors import Call, Network, Parameters, Shape, Tensor, Tensors

LEARNING_RATE = 0.01  # judgment: usual; steps take as long at any rate, but too high a one diverges
MOMENTUM = 0.9  # judgment: usual; without it, a step would move fewer bytes
LABEL_BYTES = 8  # int64, as torch's cross_entropy takes
LOSS_SCALE = 2.0**10  # far from float16's limits for gradients of these networks
NEVER = 2**31 - 1  # steps until the scale grows


def weight_dtype(dtype: str) -> str:
    """Return the weights' dtype: float32 even for 16-bit images, as small updates would vanish."""
    return "float64" if dtype == "float64" else "float32"


def initial_weights(shapes: Sequence[Shape], dtype: str, seed: int) -> Tensor:
    """Draw weights: He initialisation for matrices and convolutions, and 0.5 to 1 for vectors."""
    import torch

    generator = torch.Generator().manual_seed(seed)
    weights = torch.empty(sum(map(math.prod, shapes)), dtype=torch_calls.torch_dtype(dtype))
    for view in views(weights, shapes, channels_last=False):
        if view.dim() == 1:
            view.uniform_(0.5, 1.0, generator=generator)
        else:
            view.normal_(std=(2 / math.prod(view.shape[1:])) ** 0.5, generator=generator)
    return weights


def views(weights: Tensor, shapes: Iterable[Shape], *, channels_last: bool) -> list[Tensor]:
    """Return each weight as a separate tensor sharing the same memory."""
    found, start = [], 0
    for shape in shapes:
        part = weights[start : start + math.prod(shape)]
        if channels_last and len(shape) == 4:
            outputs, inputs, height, width = shape
            found.append(part.view(outputs, height, width, inputs).permute(0, 3, 1, 2))
        else:
            found.append(part.view(shape))
        start += math.prod(shape)
    return found


def in_channels_last_order(weights: Tensor, shapes: Sequence[Shape]) -> Tensor:
    """Copy the weights, rearranging convolution weights to channels-last."""
    import torch

    ordered = torch.empty_like(weights)
    places = views(ordered, shapes, channels_last=True)
    for place, view in zip(places, views(weights, shapes, channels_last=False), strict=True):
        place.copy_(view)
    return ordered


def _are_channels_last(batch: Tensor) -> bool:
    import torch

    return batch.is_contiguous(memory_format=torch.channels_last)


class SgdStep(TorchImplementation):
    """A training step in channels-last layout with torch's fused optimiser.

    16-bit types use autocast. float16, meant for tensor cores without bfloat16, also uses loss
    scaling.
    """

    name = "torch channels-last"
    dtypes = ("float32", "float64", "tf32", "bfloat16", "float16")

    def __init__(self, workload: TrainingStep) -> None:
        self.workload = workload

    def refusal(self, device: str, dtype: str) -> str | None:
        if (device, dtype) == ("cpu", "float16"):
            return "training in float16 requires tensor cores; measure bfloat16 on the CPU instead"
        return super().refusal(device, dtype)

    def working_set_bytes(self, parameters: Parameters, dtype: str) -> int:
        """Return the memory for four copies of weights, two of inputs and three of activations.

        Each weight has a gradient, a momentum and a cast copy. A layer keeps its output before and
        after normalisation, and one gradient. For float64, which oneDNN lacks, torch unfolds a
        layer's neighbourhoods to nine times its input.
        """
        weights = 4 * self.workload.weight_count() * DTYPE_BYTES[weight_dtype(dtype)]
        thrice = 3 * self.workload.activations(parameters) * DTYPE_BYTES[dtype]
        unfolded = 3 * thrice if dtype == "float64" else 0
        return weights + 2 * self.workload.input_bytes(parameters, dtype) + thrice + unfolded

    def arrange(self, inputs: Tensors) -> Tensors:
        batch, labels, weights = inputs
        return (
            images.channels_last(batch),
            labels,
            in_channels_last_order(weights, self.workload.shapes),
        )

    def network(self, parameters: Sequence[Tensor]) -> Network:
        return self.workload.network(parameters)

    def prepare(self, inputs: Tensors) -> Call:
        return self.step(inputs)[0]

    def step(self, inputs: Tensors) -> tuple[Call, Callable[[], None]]:
        """Return a step, and a call that undoes all steps taken so far."""
        import torch
        import torch.nn.functional as F  # noqa: N812

        batch, labels, weights = inputs[0], inputs[1], inputs[2].clone()
        layout = _are_channels_last(batch)
        shared = views(weights.detach(), self.workload.shapes, channels_last=layout)
        parameters = [view.requires_grad_() for view in shared]
        network = self.network(parameters)
        optimiser = torch.optim.SGD(parameters, lr=LEARNING_RATE, momentum=MOMENTUM, fused=True)
        device = batch.device.type
        mixed = batch.dtype != weights.dtype
        scaler = torch.amp.GradScaler(
            device, LOSS_SCALE, growth_interval=NEVER, enabled=batch.dtype == torch.float16
        )

        def call() -> Tensor:
            optimiser.zero_grad(set_to_none=True)
            with torch_calls.cudnn_search():
                with torch.autocast(device, batch.dtype) if mixed else nullcontext():
                    loss = F.cross_entropy(network(batch), labels)
                scaler.scale(loss).backward()  # type: ignore[no-untyped-call]
            scaler.step(optimiser)
            scaler.update()
            return weights

        def undo() -> None:
            with torch.no_grad():
                weights.copy_(inputs[2])
                for state in optimiser.state.values():
                    state["momentum_buffer"].zero_()

        return call, undo


class ContiguousSgdStep(SgdStep):
    """The training step in torch's default layout."""

    name = "torch contiguous"

    def arrange(self, inputs: Tensors) -> Tensors:
        return inputs


class CompiledSgdStep(compiled.Compiled, SgdStep):
    """The training step with the network's two passes compiled by torch.compile."""

    name = "torch channels-last, compiled"

    def network(self, parameters: Sequence[Tensor]) -> Network:
        return compiled.compile_network(super().network(parameters))


class GraphedSgdStep(CudaGraph):
    """The whole step in a CUDA graph, for batches so small that kernel launches dominate."""

    inner: SgdStep

    def prepare_each(self, sets: Iterable[Tensors]) -> Iterator[Call]:
        """Prepare calls, undoing the real steps taken while capturing, including their momentum."""
        steps = [self.inner.step(inputs) for inputs in sets]
        replays = captured(call for call, _ in steps)
        for replay, (_, undo) in zip(replays, steps, strict=True):
            undo()
            yield replay


class TrainingStep(Workload):
    """A training step: forward pass, cross-entropy, backward pass, and an update of all weights."""

    shapes: tuple[Shape, ...]
    image_size: ClassVar[int]
    distinct: ClassVar[int]  # limit of different images in a batch, which bounds the check's cost
    axes = (Axis("batch", minimum=1, maximum=65_536),)
    needs_gradients = True
    repeatable = False

    def __init__(self) -> None:
        self.implementations = (
            SgdStep(self),
            ContiguousSgdStep(self),
            GraphedSgdStep(SgdStep(self)),
            CompiledSgdStep(self),
        )

    @abstractmethod
    def network(self, parameters: Sequence[Tensor]) -> Network:
        """Build the network that maps images to logits, in training mode."""

    @abstractmethod
    def activations(self, parameters: Parameters) -> int:
        """Return the total number of outputs from all layers with weights."""

    def weight_count(self) -> int:
        return sum(map(math.prod, self.shapes))

    def input_bytes(self, parameters: Parameters, dtype: str) -> int:
        pixels = parameters["batch"] * images.CHANNELS * self.image_size**2
        labels = parameters["batch"] * LABEL_BYTES
        return pixels * DTYPE_BYTES[dtype] + labels + self.output_bytes(parameters, dtype)

    def output_bytes(self, parameters: Parameters, dtype: str) -> int:  # noqa: ARG002
        return self.weight_count() * DTYPE_BYTES[weight_dtype(dtype)]

    def items(self, parameters: Parameters) -> int:
        return parameters["batch"]

    def bytes_moved(self, parameters: Parameters, dtype: str) -> int:
        """Count the bytes for reading images, and for reading and writing weights and momentum.

        Activations are not counted, as they can stay in caches.
        """
        weights = 4 * self.output_bytes(parameters, dtype)
        batch = self.input_bytes(parameters, dtype) - self.output_bytes(parameters, dtype)
        return batch + weights

    def make_inputs(self, parameters: Parameters, dtype: str, seed: int) -> Tensors:
        """Make a batch of a few different images, each of them repeated."""
        batch = parameters["batch"]
        distinct = self._distinct(batch)
        few, labels = self.few_images(distinct, dtype, seed)
        weights = initial_weights(self.shapes, weight_dtype(dtype), seed + 1)
        repeats = batch // distinct
        return few.repeat_interleave(repeats, 0), labels.repeat_interleave(repeats), weights

    def few_images(self, count: int, dtype: str, seed: int) -> tuple[Tensor, Tensor]:
        """Make `count` different images, each labelled with its index."""
        import torch

        shape = (count, images.CHANNELS, self.image_size, self.image_size)
        (few,) = torch_calls.normal([shape], dtype, seed)
        return few, torch.arange(count)

    def _distinct(self, batch: int) -> int:
        return math.gcd(batch, self.distinct)

    def relative_error(self, inputs: Tensors, output: Tensor, rng: np.random.Generator) -> float:  # noqa: ARG002
        """Compare the change in all weights with that of a float64 step on the CPU.

        The mean over repeated images equals that over the different images alone, and the
        same holds for batch normalisation's statistics, so the reference uses only those images.
        """
        batch, labels, weights = inputs
        step = batch.shape[0] // self._distinct(batch.shape[0])
        before = weights.detach().to("cpu").double()
        change = before - output.detach().to("cpu").double()
        split = partial(views, shapes=self.shapes, channels_last=_are_channels_last(batch))
        expected = self._reference_change(batch[::step], labels[::step], before, split)
        return reference.relative_error([(change.numpy(), expected.numpy())])

    def _reference_change(
        self,
        batch: Tensor,
        labels: Tensor,
        weights: Tensor,
        split: Callable[[Tensor], list[Tensor]],
    ) -> Tensor:
        import torch

        gradients = reference_gradients(self.network, split(weights), batch, labels)
        change = torch.empty_like(weights)
        for view, gradient in zip(split(change), gradients, strict=True):
            view.copy_(gradient)
        return LEARNING_RATE * change


def reference_gradients(
    network: Callable[[Sequence[Tensor]], Network],
    parameters: Iterable[Tensor],
    batch: Tensor,
    labels: Tensor,
) -> tuple[Tensor, ...]:
    """Compute the gradients of the cross-entropy in float64 on the CPU.

    The operands are contiguous copies, so layouts and algorithms differ from those measured.
    """
    import torch
    import torch.nn.functional as F  # noqa: N812

    with torch.inference_mode(mode=False), torch.enable_grad():
        copies = [
            torch.empty(view.shape, dtype=torch.float64).copy_(view.detach()).requires_grad_()
            for view in parameters
        ]
        few = torch.empty(batch.shape, dtype=torch.float64).copy_(batch)
        loss = F.cross_entropy(network(copies)(few), labels.cpu())
        return torch.autograd.grad(loss, copies)
