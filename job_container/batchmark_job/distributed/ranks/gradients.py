"""Checks that ranks average their gradients correctly and keep identical weights."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from itertools import compress

from torch import Tensor

from batchmark_job.distributed.ranks.batches import Batch
from batchmark_job.distributed.ranks.network import ResNet50
from batchmark_job.distributed.ranks.world import World
from batchmark_job.result.document import Correctness
from batchmark_job.workloads.resnet50 import IMAGE_SIZE, LAYERS, SHAPES, ResNet50Training
from batchmark_job.workloads.support import images, reference
from batchmark_job.workloads.support.training import (
    initial_weights,
    reference_gradients,
    views,
    weight_dtype,
)

# weights compared of each tensor: the first stage's kernels and all vectors in full
MOST_NUMBERS = 40_000
OF_STEM = 3  # no float64 reference here: rounding decides which of two values max pooling picks
DISTINCT = 2  # image size that most networks see; smaller images are tiled up to it
MOST_DISTINCT = 64
LEAST_VALUES = 32  # of a channel in the last layers
REDUCTION = 32  # an image's width over that in the last layers
SHIFT = 4.0


def check_gradients(
    network: ResNet50,
    backward: Callable[[Tensor, Tensor], Tensor],
    backward_alone: Callable[[Tensor, Tensor], Tensor],
    batch: Batch,
    dtype: str,
    world: World,
) -> Correctness:
    """Compare the averaged gradients with the mean of all ranks' float64 gradients.

    Each rank's batch repeats a few images. Its statistics and mean loss are those of the few
    images, which are all that the float64 reference on the CPU has to process. `smooth_weights`
    replace the weights during the check. Because rounding hides too much in large kernels, all
    kernels are also compared with the mean of the gradients that each rank computes on its device
    without an exchange.

    Args:
        backward: computes gradients and leaves their average over the ranks in the network.
        backward_alone: computes this rank's own gradients and leaves them in the network.
    """
    (pictures, labels), step = few_repeated(batch)
    workload = ResNet50Training()
    with network.other_weights(smooth_weights(dtype)):
        backward(pictures, labels)
        averaged = [_part(_gradient(weight)) for weight in network.weights]
        backward_alone(pictures, labels)
        alone = [_part(_gradient(weight)) for weight in network.weights]
        own = reference_gradients(
            workload.network, network.weights, pictures[::step].cpu(), labels[::step].cpu()
        )
    compared = []
    for gradient, expected in list(zip(averaged, own, strict=True))[OF_STEM:]:
        if expected.numel() <= MOST_NUMBERS:
            mean = world.summed(expected.flatten().to(world.device)) / world.size
            compared.append((reference.to_float64(gradient), reference.to_float64(mean)))
    kernels = [expected.dim() > 1 for expected in own]
    errors = [
        reference.relative_error(compared),
        *_averaging_errors(compress(averaged, kernels), compress(alone, kernels), world),
    ]
    if not all(map(math.isfinite, errors)):
        raise ArithmeticError("the gradients of the first batch are not finite numbers")
    (error,) = world.largest([max(errors)])
    return Correctness(relative_error=error, tolerance=workload.tolerance(dtype))


def _gradient(weight: Tensor) -> Tensor:
    assert weight.grad is not None  # noqa: S101
    return weight.grad


def _averaging_errors(
    averaged: Iterable[Tensor], alone: Iterable[Tensor], world: World
) -> Iterator[float]:
    """Yield the error of each kernel's averaged gradient, relative to its largest value."""
    for gradient, own in zip(averaged, alone, strict=True):
        mean = world.summed(own.double()) / world.size
        pair = reference.to_float64(gradient), reference.to_float64(mean)
        yield reference.relative_error([pair])


def _part(gradient: Tensor) -> Tensor:
    """Take a strided sample of a gradient; the odd stride reaches every position in a kernel."""
    return gradient.flatten()[:: gradient.numel() // MOST_NUMBERS | 1].clone()


def smooth_weights(dtype: str) -> Tensor:
    """Return weights with shifts so large that hardly any ReLU has an input near or below 0.

    Otherwise rounding would move some inputs across 0. In float32 this changes a few images'
    gradients by 6e-2, which is more than the errors that the check must find.
    """
    flat = initial_weights(SHAPES, weight_dtype(dtype), seed=0)
    for shift in views(flat, SHAPES, channels_last=False)[2 : 3 * len(LAYERS) : 3]:
        shift.add_(SHIFT)
    return flat


def few_repeated(batch: Batch) -> tuple[Batch, int]:
    """Return a batch of the usual size that repeats a few images, and how often each occurs.

    Small images are tiled, because the last layers would otherwise normalise over too few values.
    """
    pictures, labels = batch
    size = pictures.shape[2]
    most = min(max(DISTINCT * (IMAGE_SIZE / size) ** 2, DISTINCT), MOST_DISTINCT)
    count = max(number for number in range(1, int(most) + 1) if len(labels) % number == 0)
    tiles = math.ceil((LEAST_VALUES / count) ** 0.5 * REDUCTION / size)
    repeats = len(labels) // count
    few = pictures[:count].repeat(1, 1, tiles, tiles).repeat_interleave(repeats, 0)
    return (images.channels_last(few), labels[:count].repeat_interleave(repeats)), repeats


def differing_weights(network: ResNet50, world: World) -> int:
    """Count the weight tensors that aren't the same on all ranks."""
    differ = [
        float(not weight.detach().equal(world.of_first(weight.detach())))
        for weight in network.weights
    ]
    return int(sum(world.largest(differ)))
