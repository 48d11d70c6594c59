"""Streams images endlessly from shards; worker processes decode and augment them on the CPU.

There is one worker per thread, up to the rank's number of shards. Workers may finish their batches
at the same time, so one step can wait for all of them and the next for none. A sample is therefore
the mean of as many steps as there are workers. Batches loaded before the warm-up are discarded.
"""

from __future__ import annotations

import random
import tarfile
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import webdataset
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import DataLoader, IterableDataset, get_worker_info
from webdataset import tariterators

from batchmark_job.distributed.ranks.shards import (
    drop_from_page_cache,
    find_shards,
    own_shards,
    unreadable,
)
from batchmark_job.distributed.ranks.world import World
from batchmark_job.distributed.task import Train
from batchmark_job.errors import InputError
from batchmark_job.workloads.resnet50 import CLASSES

Pixels = NDArray[np.uint8]  # height × width × RGB

SHUFFLED = 256  # encoded images in a worker's shuffle buffer
# Random crop: its share of the image's area, and its aspect ratio.
# Source: Szegedy et al., https://arxiv.org/abs/1409.4842, section 6; torchvision's defaults.
AREAS, RATIOS = (0.08, 1.0), (3 / 4, 4 / 3)
TRIES = 10  # as in torchvision's RandomResizedCrop
PREFETCHED = 2  # batches of each worker


@contextmanager
def loaded_batches(
    task: Train, world: World
) -> Iterator[tuple[Iterator[tuple[Tensor, Tensor]], int]]:
    """Yield an iterator of batches (N × height × width × RGB, uint8) and the number of workers.

    Workers take turns, so waiting times repeat after as many batches as there are workers. They are
    forked here, before the ranks join, because NCCL does not survive a fork.

    Raises:
        InputError: there are too few shards, or the iterator reads an invalid shard.
    """
    if task.folder is None:
        raise InputError("training on files needs a folder; specify one with --files")
    found = find_shards(task.folder, world)
    shards = [shard.path for shard in own_shards(found, world)]
    workers = min(max(task.threads, 1), len(found) // world.size)
    loader = DataLoader(
        Images(shards, task.image, (task.seed, world.rank)),
        batch_size=task.batch,
        num_workers=workers,
        prefetch_factor=PREFETCHED,
        pin_memory=world.device.type == "cuda",
        drop_last=True,
    )
    batches = _with_plain_errors(iter(loader))
    try:
        yield batches, workers
    finally:
        batches.close()  # which ends the workers


class Images(IterableDataset[tuple[Pixels, int]]):
    """Streams one worker's share of a rank's images endlessly, reshuffling them on each pass.

    Workers split one common order of the shards, so that all shards are read equally often,
    regardless of the number of workers.
    """

    def __init__(self, shards: list[Path], size: int, seed: tuple[int, ...]) -> None:
        self.shards, self.size, self.seed = shards, size, seed

    def __iter__(self) -> Iterator[tuple[Pixels, int]]:
        worker = get_worker_info()
        number, workers = (worker.id, worker.num_workers) if worker else (0, 1)
        cv2.setNumThreads(1)
        rng = np.random.default_rng([*self.seed, number])
        shuffle = webdataset.shuffle(SHUFFLED, rng=random.Random(int(rng.integers(2**63))))
        order = _order(self.shards, np.random.default_rng(self.seed))
        for sample in shuffle(_samples(islice(order, number, None, workers))):
            yield augmented(_decoded(sample), self.size, rng), _label(sample)


def augmented(pixels: Pixels, size: int, rng: np.random.Generator) -> Pixels:
    """Return a random crop, scaled to size × size and mirrored half the time."""
    top, left, height, width = _crop(pixels.shape[0], pixels.shape[1], rng)
    part = pixels[top : top + height, left : left + width]
    shrinks = height > size and width > size
    scaled = cv2.resize(
        part, (size, size), interpolation=cv2.INTER_AREA if shrinks else cv2.INTER_LINEAR
    )
    return np.ascontiguousarray(scaled[:, ::-1] if rng.random() < 0.5 else scaled)


def _crop(height: int, width: int, rng: np.random.Generator) -> tuple[int, int, int, int]:
    """Return a random crop's top, left, height and width, or the whole image's if none fits."""
    for _ in range(TRIES):
        area = height * width * rng.uniform(*AREAS)
        ratio = np.exp(rng.uniform(*np.log(RATIOS)))
        rows, columns = round((area / ratio) ** 0.5), round((area * ratio) ** 0.5)
        if 0 < rows <= height and 0 < columns <= width:
            top, left = rng.integers(height - rows + 1), rng.integers(width - columns + 1)
            return int(top), int(left), rows, columns
    return 0, 0, height, width


def _order(shards: list[Path], rng: np.random.Generator) -> Iterator[Path]:
    while True:
        yield from (shards[index] for index in rng.permutation(len(shards)))


def _samples(shards: Iterator[Path]) -> Iterator[dict[str, Any]]:
    """Yield all samples; first drop each shard from the page cache, so that it is really read."""
    for shard in shards:
        count = 0
        try:
            drop_from_page_cache(shard)
            with shard.open("rb") as file:
                members = tariterators.tar_file_expander([{"url": shard, "stream": file}])
                for count, sample in enumerate(tariterators.group_by_keys(members), 1):  # noqa: B007
                    yield sample | {"shard": shard}
        except (OSError, tarfile.TarError) as error:
            raise InputError(unreadable(shard, error)) from error
        if not count:
            raise InputError(f"{shard} contains no images; copy it again, or remove it")


def _decoded(sample: dict[str, Any]) -> Pixels:
    pixels: Any = None
    if encoded := sample.get("jpg"):
        pixels = cv2.imdecode(np.frombuffer(encoded, np.uint8), cv2.IMREAD_COLOR_RGB)
    if pixels is None:
        raise InputError(
            f"{sample['shard']} contains no decodable {sample['__key__']}.jpg; a shard must "
            "consist of pairs of NAME.jpg and NAME.cls"
        )
    decoded: Pixels = pixels
    return decoded


def _label(sample: dict[str, Any]) -> int:
    text = sample.get("cls", b"").decode(errors="replace").strip()
    if not text.isdecimal() or int(text) >= CLASSES:
        raise InputError(
            f"{sample['shard']} contains {text!r} in {sample['__key__']}.cls; a class must be a "
            f"number from 0 to {CLASSES - 1}"
        )
    return int(text)


def _with_plain_errors(
    batches: Iterator[tuple[Tensor, Tensor]],
) -> Generator[tuple[Tensor, Tensor], None, None]:
    """Shorten a worker's error to its last line, because torch includes the whole traceback."""
    try:
        yield from batches
    except InputError as error:
        _, _, said = str(error).strip().rpartition(f"{InputError.__name__}: ")
        raise InputError(said) from None
