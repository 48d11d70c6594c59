"""Supplies endless training batches, synthetic or from files, on the rank's device."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import cycle, starmap
from typing import NamedTuple

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from batchmark_job.distributed.ranks.world import World
from batchmark_job.distributed.task import Train
from batchmark_job.workloads.support import images, torch_calls

Batch = tuple[Tensor, Tensor]  # images, channels last, and labels

# ImageNet's channel means and deviations, for pixels from 0 to 255.
MEAN, DEVIATION = (123.675, 116.28, 103.53), (58.395, 57.12, 57.375)

SYNTHETIC_BATCHES = 4  # judgment: repeated in turn; all stay in the device's memory
SYNTHETIC_CLASSES = 10  # at most ResNet-50's 1,000; the number doesn't affect the time
PATTERN = 4  # side length of a class's pattern


class Source(NamedTuple):
    """An endless supply of batches."""

    batches: Iterator[Batch]
    period: int = 1  # batches per cycle of loader waits, the same on all ranks
    queued: int = 0  # batches that may be ready before they are requested


@contextmanager
def batches(task: Train, world: World) -> Iterator[Source]:
    """Provide the task's batches; enter the context before the ranks join, because loaders fork."""
    if task.data == "synthetic":
        yield Source(cycle(synthetic(task, world)))
        return
    from batchmark_job.distributed.ranks.loader import PREFETCHED, loaded_batches

    with loaded_batches(task, world) as (files, workers):
        normalised = starmap(Normaliser(task.dtype, world.device), files)
        yield Source(normalised, workers, PREFETCHED * workers)


def synthetic(task: Train, world: World) -> list[Batch]:
    """Make a few batches: noise added to class patterns that are the same on all ranks."""
    patterns = _patterns(task)
    generator = torch.Generator().manual_seed(task.seed + 1 + world.rank)
    dtype = torch_calls.torch_dtype(task.dtype)
    made = []
    for _ in range(SYNTHETIC_BATCHES):
        labels = torch.randint(SYNTHETIC_CLASSES, (task.batch,), generator=generator)
        noise = torch.empty(task.batch, images.CHANNELS, task.image, task.image)
        noise.normal_(generator=generator)
        pictures = images.channels_last(noise.add_(patterns[labels]).to(dtype))
        made.append((pictures.to(world.device), labels.to(world.device)))
    return made


def _patterns(task: Train) -> Tensor:
    generator = torch.Generator().manual_seed(task.seed)
    coarse = torch.empty(SYNTHETIC_CLASSES, images.CHANNELS, PATTERN, PATTERN)
    coarse.normal_(generator=generator)
    return F.interpolate(coarse, size=(task.image, task.image), mode="bilinear")


class Normaliser:
    """Normalises images on the device, so that loaders can share and copy them as bytes."""

    def __init__(self, dtype: str, device: torch.device) -> None:
        self._device, self._dtype = device, torch_calls.torch_dtype(dtype)
        self._wide = torch.float64 if dtype == "float64" else torch.float32
        self._mean, self._deviation = (
            torch.tensor(values, dtype=self._wide).view(1, -1, 1, 1).to(device)
            for values in (MEAN, DEVIATION)
        )

    def __call__(self, pixels: Tensor, labels: Tensor) -> Batch:
        there = pixels.to(self._device, non_blocking=True).permute(0, 3, 1, 2).to(self._wide)
        pictures = there.sub_(self._mean).div_(self._deviation).to(self._dtype)
        return images.channels_last(pictures), labels.to(self._device, non_blocking=True)
