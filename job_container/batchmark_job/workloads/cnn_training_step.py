"""A training step for a small network on CIFAR-10-sized images."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import ClassVar

from batchmark_job.workloads.support import cifar10, torch_calls
from batchmark_job.workloads.support.training import TrainingStep
from batchmark_job.workloads.tensors import Network, Parameters, Tensor

CHANNELS = (3, 32, 64, 128)  # judgment: a small network; other widths would be another workload
CLASSES = 10  # of CIFAR-10
POOLED_SIZE = 4  # 32 halved three times


class CnnTrainingStep(TrainingStep):
    name = "cnn_training_step"
    summary = "training step of a small CNN (3 convolutions) on a batch of 32 x 32 images, with SGD"
    image_size = 32
    distinct: ClassVar[int] = 8
    # autocast rounds to bfloat16's 8 bits in every layer, forward and backward.
    tolerances: ClassVar[Mapping[str, float]] = {
        "float64": 1e-12,
        "float32": 1e-5,
        "tf32": 1e-1,
        "bfloat16": 2e-1,
        "float16": 1e-1,
    }
    shapes = (
        *(
            shape
            for inputs, outputs in pairwise(CHANNELS)
            for shape in ((outputs, inputs, 3, 3), (outputs,))
        ),
        (CLASSES, CHANNELS[-1] * POOLED_SIZE**2),
        (CLASSES,),
    )

    def network(self, parameters: Sequence[Tensor]) -> Network:
        import torch.nn.functional as F  # noqa: N812

        *convolutions, matrix, bias = parameters

        def forward(batch: Tensor) -> Tensor:
            for weight, offset in zip(convolutions[::2], convolutions[1::2], strict=True):
                batch = F.max_pool2d(F.conv2d(batch, weight, offset, padding=1).relu(), 2)
            return F.linear(batch.flatten(1), matrix, bias)

        return forward

    def few_images(self, count: int, dtype: str, seed: int) -> tuple[Tensor, Tensor]:
        found = cifar10.images_and_labels(count)
        if found is None:
            return super().few_images(count, dtype, seed)
        return found[0].to(torch_calls.torch_dtype(dtype)), found[1]

    def activations(self, parameters: Parameters) -> int:
        return parameters["batch"] * (sum(n for n, _ in _layers()) + CLASSES)

    def flops(self, parameters: Parameters) -> int:
        """Count two operations per multiply-add in the forward pass and each layer's two gradients.

        The first layer's input needs no gradient. Bias, ReLU, pooling, loss and update are not
        counted.
        """
        layers = [outputs * fan_in for outputs, fan_in in _layers()]
        matrix = CLASSES * CHANNELS[-1] * POOLED_SIZE**2
        return 2 * parameters["batch"] * (3 * (sum(layers) + matrix) - layers[0])


def _layers() -> list[tuple[int, int]]:
    """Return each convolution's number of outputs per image, and its multiply-adds per output."""
    sizes = [CnnTrainingStep.image_size >> index for index in range(len(CHANNELS) - 1)]
    return [
        (outputs * size**2, 9 * inputs)
        for inputs, outputs, size in zip(CHANNELS, CHANNELS[1:], sizes, strict=False)
    ]
