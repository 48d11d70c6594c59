"""Times passes over all shards, in which each rank reads its own share.

Together, the ranks must read as many bytes as the files contain. Before a warm pass, the files are
dropped from the page cache as far as possible; the file system's servers may still cache them.
"""

from __future__ import annotations

import hashlib
import os
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import NamedTuple

from batchmark_job.distributed.ranks.shards import (
    ShardFile,
    drop_from_page_cache,
    find_shards,
    own_shards,
    unreadable,
)
from batchmark_job.distributed.ranks.world import World
from batchmark_job.distributed.task import Answer, Read
from batchmark_job.errors import InputError
from batchmark_job.image_set.manifest import FILE
from batchmark_job.result.document import Correctness, Implementation

BLOCK_BYTES = 4 * 2**20  # Lustre stripes are 1 MiB or larger
# No time limit: a cold pass waits for S3, and the launcher notices lost nodes.
HYDRATION_SECONDS = 12 * 3600.0
TOLERANCE = 1e-12


def read(task: Read) -> Answer:
    """Time passes over all files.

    Raises:
        InputError: there are too few shards, or a shard can't be read or has changed.
    """
    world = World.from_environment(task.device)
    shards = find_shards(task.folder, world)
    with world.joined(HYDRATION_SECONDS):
        return measure(task, world, shards)


def measure(task: Read, world: World, shards: list[ShardFile]) -> Answer:
    """Take the measurement after the ranks have joined.

    An extra pass precedes the warm ones. It makes the file system load any missing files from
    S3, and verifies checksums.
    """
    mine = own_shards(shards, world)
    expected = sum(shard.size_bytes for shard in shards)
    samples: list[float] = []
    starts: list[float] = []
    spent = total = 0.0
    first = None
    if not task.cold:
        first = _one_pass(task, world, mine, check=True).seconds
    passes = 1 if task.cold else task.samples
    while not samples or (len(samples) < passes and spent < task.max_seconds):
        found = _one_pass(task, world, mine)
        samples.append(found.seconds)
        starts.append(found.began)
        spent += found.seconds
        total = world.mean([float(found.bytes)])[0] * world.size
    return Answer(
        implementation=Implementation(
            name=f"reads of {BLOCK_BYTES // 2**20} MiB",
            version=os.uname().release,
            threads=task.threads,
        ),
        cold_seconds=samples[0] if first is None else first,
        samples_seconds=tuple(samples),
        starts=(*starts, starts[-1] + samples[-1]),
        warmup_calls=0 if task.cold else 1,
        correctness=Correctness(
            relative_error=abs(total - expected) / expected, tolerance=TOLERANCE
        ),
        bytes_moved=expected,
        peak_memory_bytes=world.peak_bytes("cpu"),
    )


class Pass(NamedTuple):
    bytes: int  # of this rank
    began: float  # by its own clock
    seconds: float  # the longest of all ranks


def _one_pass(task: Read, world: World, mine: list[ShardFile], *, check: bool = False) -> Pass:
    if not task.cold:
        for shard in mine:
            drop_from_page_cache(shard.path)
    world.wait_for_all()
    began = time.perf_counter()
    found = read_all(mine, task.threads, check=check)
    (seconds,) = world.largest([time.perf_counter() - began])
    return Pass(found, began, seconds)


def read_all(shards: list[ShardFile], threads: int, *, check: bool = False) -> int:
    """Read the shards, several at a time, and return the number of bytes read.

    Args:
        check: verify the checksums that the manifest lists.

    Raises:
        InputError: a file can't be read, or doesn't match its size or checksum.
    """
    with ThreadPoolExecutor(threads) as pool:
        return sum(pool.map(partial(_read, check=check), shards))


def _read(shard: ShardFile, *, check: bool) -> int:
    block = memoryview(bytearray(BLOCK_BYTES))
    checksum = hashlib.sha256()
    found = 0
    try:
        with shard.path.open("rb", buffering=0) as file:
            while got := file.readinto(block):
                found += got
                if check:
                    checksum.update(block[:got])
    except OSError as error:
        raise InputError(unreadable(shard.path, error)) from error
    if found != shard.size_bytes:
        raise InputError(
            f"read {found:,} bytes from {shard.path} instead of {shard.size_bytes:,}; the file may "
            "have changed since it was opened: copy it again"
        )
    if check and shard.sha256 and checksum.hexdigest() != shard.sha256:
        raise InputError(
            f"{shard.path} has SHA-256 {checksum.hexdigest()}, but {FILE} lists {shard.sha256}; "
            "copy it again"
        )
    return found
