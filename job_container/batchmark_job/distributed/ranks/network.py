"""ResNet-50 as a torch module, so that DistributedDataParallel can exchange its gradients."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import cycle

import torch
from torch import Tensor, nn

from batchmark_job.workloads.resnet50 import (
    BLOCKS,
    LAYERS,
    SHAPES,
    STATISTICS_SHAPES,
    build,
    normalised,
)
from batchmark_job.workloads.support.training import (
    in_channels_last_order,
    initial_weights,
    views,
    weight_dtype,
)

CLASSIFIER_DEVIATION = 0.01  # by Goyal et al., section 5.1


class ResNet50(nn.Module):
    """ResNet-50 with the same initial weights on all ranks; a rank normalises over its own batch.

    Weights and gradients are stored channels-last; gradients are exchanged in that layout.
    """

    def __init__(self, dtype: str, seed: int, device: torch.device) -> None:
        super().__init__()
        flat = in_channels_last_order(starting_weights(dtype, seed), SHAPES).to(device)
        self.weights = nn.ParameterList(map(nn.Parameter, views(flat, SHAPES, channels_last=True)))
        statistics = [
            torch.full(shape, start, dtype=flat.dtype, device=device)
            for shape, start in zip(STATISTICS_SHAPES, cycle((0.0, 1.0)), strict=False)
        ]
        # Built once: the units hold the parameters, which are updated in place.
        self._network = build(tuple(self.weights), statistics, partial(normalised, training=True))

    def forward(self, batch: Tensor) -> Tensor:
        return self._network(batch)

    @contextmanager
    def other_weights(self, flat: Tensor) -> Iterator[None]:
        """Use these weights within the context; `flat` holds them in torch's default layout."""
        own = [weight.detach().clone() for weight in self.weights]
        self._load(views(flat, SHAPES, channels_last=False))
        yield
        self._load(own)

    @torch.no_grad()
    def _load(self, weights: Iterable[Tensor]) -> None:
        for weight, other in zip(self.weights, weights, strict=True):
            weight.copy_(other)


def starting_weights(dtype: str, seed: int) -> Tensor:
    """Return He-initialised kernels, scales of 1 (0 at a block's end), and shifts and a bias of 0.

    Source: Goyal et al., https://arxiv.org/abs/1706.02677, section 5.1.
    """
    flat = initial_weights(SHAPES, weight_dtype(dtype), seed)
    *of_layers, matrix, bias = views(flat, SHAPES, channels_last=False)
    ends = {id(block.expand) for block in BLOCKS}
    for layer, scale, shift in zip(LAYERS, of_layers[1::3], of_layers[2::3], strict=True):
        scale.fill_(0.0 if id(layer) in ends else 1.0)
        shift.zero_()
    matrix.mul_(CLASSIFIER_DEVIATION / float(matrix.std()))
    bias.zero_()
    return flat
