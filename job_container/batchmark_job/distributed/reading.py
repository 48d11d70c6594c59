"""All shards read once by all nodes together, each its own share."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path

from batchmark_job.distributed.shards import Shard, find_shards, own, unreadable
from batchmark_job.distributed.task import Answer, Read
from batchmark_job.distributed.world import World
from batchmark_job.errors import InputError
from batchmark_job.machine import memory
from batchmark_job.result import Correctness, Implementation

BLOCK_BYTES = 4 * 2**20  # Lustre's stripes are of 1 MiB and more
# A cold pass waits for S3 as long as that takes; the job's launcher looks after lost nodes.
WAIT_SECONDS = 12 * 3600.0
TOLERANCE = 1e-12


def read(task: Read) -> Answer:
    """Time passes over all files.

    Raises:
        InputError: there are too few shards, or one can't be read as far as its size says.
    """
    world = World.from_environment(task.device)
    shards = find_shards(task.folder, world)
    with world.joined(WAIT_SECONDS):
        return measure(task, world, shards)


def measure(task: Read, world: World, shards: list[Shard]) -> Answer:
    """Among ranks that have met."""
    mine = own(shards, world)
    expected = sum(shard.size_bytes for shard in shards)
    samples, starts, spent = [], [], 0.0
    for number in count():
        if not task.cold:
            forget(shard.path for shard in mine)
        world.wait_for_all()
        began = time.perf_counter()
        found = read_all(mine, task.threads)
        (seconds,) = world.largest([time.perf_counter() - began])
        total = world.mean([float(found)])[0] * world.size
        samples.append(seconds)
        starts.append(began)
        spent += seconds
        if task.cold or number + 1 == task.passes or spent >= task.max_seconds:
            break
    (peak,) = world.largest([float(memory.peak_bytes("cpu") or 0)])
    return Answer(
        implementation=Implementation(
            name=f"reads of {BLOCK_BYTES // 2**20} MiB",
            version=os.uname().release,
            threads=task.threads,
        ),
        cold_seconds=samples[0],
        samples_seconds=tuple(samples),
        starts=(*starts, starts[-1] + samples[-1]),
        warmup_calls=0,
        correctness=Correctness(
            relative_error=abs(total - expected) / expected, tolerance=TOLERANCE
        ),
        bytes_moved=expected,
        peak_memory_bytes=int(peak) or None,
    )


def read_all(shards: list[Shard], threads: int) -> int:
    """How many bytes came, with several files read at a time.

    Raises:
        InputError: a file can't be read, or not as far as its size says.
    """
    with ThreadPoolExecutor(threads) as pool:
        return sum(pool.map(_read, shards))


def forget(paths: Iterable[Path]) -> None:
    """Ask the kernel to drop what memory holds of these files. It keeps what somebody maps, and
    what waits to be written; a file system's own servers keep theirs.
    """
    for path in paths:
        handle = os.open(path, os.O_RDONLY)
        try:
            os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(handle)


def _read(shard: Shard) -> int:
    block = bytearray(BLOCK_BYTES)
    found = 0
    try:
        with shard.path.open("rb", buffering=0) as file:
            while got := file.readinto(block):
                found += got
    except OSError as error:
        raise InputError(unreadable(shard.path, error)) from error
    if found != shard.size_bytes:
        raise InputError(
            f"{shard.path} gave {found:,} of {shard.size_bytes:,} bytes; was it written meanwhile? "
            "Copy it again"
        )
    return found
