"""Whether the ranks' averaged gradients are right, and whether their weights stay the same."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from batchmark_job.result import Correctness
from batchmark_job.workloads.resnet50 import IMAGE_SIZE, LAYERS, SHAPES, ResNet50Training
from batchmark_job.workloads.support import images, reference
from batchmark_job.workloads.support.training import (
    initial_weights,
    reference_gradients,
    views,
    weight_dtype,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    from batchmark_job.distributed.batches import Batch
    from batchmark_job.distributed.network import ResNet50
    from batchmark_job.distributed.world import World

MOST_NUMBERS = 40_000  # of a weight that is compared: the first stage's kernels, and all vectors
OF_STEM = 3  # weights that are not compared: rounding decides which of two values is pooled
DISTINCT = 2  # images of the size that networks mostly see; more, where they are smaller
MOST_DISTINCT = 64
LEAST_VALUES = 32  # of a channel in the last layers
REDUCTION = 32  # an image's width over that in the last layers
SHIFT = 4.0


def check_gradients(
    network: ResNet50,
    backward: Callable[[Tensor, Tensor], Tensor],
    batch: Batch,
    dtype: str,
    world: World,
) -> Correctness:
    """Compare the averaged gradients with the mean of what each rank computes in float64.

    A rank's batch repeats few images, with which its statistics and mean are those of the few
    alone; the float64 reference computes only these, on the CPU. The weights are others meanwhile
    (`smooth_weights`).

    Args:
        backward: that leaves the averaged gradients of images and labels in the network.
    """
    (pictures, labels), step = few_repeated(batch)
    workload = ResNet50Training()
    with network.other_weights(smooth_weights(dtype)):
        backward(pictures, labels)
        own = reference_gradients(
            workload.network, network.weights, pictures[::step].cpu(), labels[::step].cpu()
        )
    compared = []
    for weight, expected in list(zip(network.weights, own, strict=True))[OF_STEM:]:
        if weight.numel() <= MOST_NUMBERS:
            assert weight.grad is not None  # noqa: S101
            mean = world.summed(expected.to(world.device)) / world.size
            compared.append((reference.to_float64(weight.grad), reference.to_float64(mean)))
    error = reference.relative_error(compared)
    if not math.isfinite(error):
        raise ArithmeticError("the gradients of the first batch are not finite numbers")
    (error,) = world.largest([error])
    return Correctness(relative_error=error, tolerance=workload.tolerance(dtype))


def smooth_weights(dtype: str) -> Tensor:
    """With shifts so large that hardly any ReLU has an input below 0 or near it.

    Else rounding moves some over that edge, and each changes the gradients of few images by more
    than what is to be found: float32 was seen to be off by 6e-2.
    """
    flat = initial_weights(SHAPES, weight_dtype(dtype), seed=0)
    for shift in views(flat, SHAPES, channels_last=False)[2 : 3 * len(LAYERS) : 3]:
        shift.add_(SHIFT)
    return flat


def few_repeated(batch: Batch) -> tuple[Batch, int]:
    """As many images as before, of which few differ, and how often each is there.

    Small ones are tiled until the last layers normalise over enough values to be more than noise.
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
    """How many weights are not the same on all ranks, by their sums."""
    sums = [float(weight.detach().double().sum()) for weight in network.weights]
    pairs = zip(world.largest(sums), world.smallest(sums), strict=True)
    return sum(largest != smallest for largest, smallest in pairs)
