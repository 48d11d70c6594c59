"""Measures all-reduce, which sums a tensor over all ranks, as training does with gradients.

The result is correct if the sums of known numbers are exact.
"""

from __future__ import annotations

import math
import statistics

import torch

from batchmark_job.distributed.ranks.stopwatch import Stopwatch, longest_seconds, time_calls
from batchmark_job.distributed.ranks.world import World
from batchmark_job.distributed.task import AllReduce, Answer
from batchmark_job.errors import InputError
from batchmark_job.machine import threads
from batchmark_job.result.document import Correctness, Implementation

WARMUP = 3  # judgment: their median tells how many calls a round may have
PERIOD = 1_000  # length of the pattern that the tensor repeats
PART = 1_000 * PERIOD  # numbers filled and compared at a time
FLOAT_BYTES = 4
TOLERANCE = 1e-7  # small enough for float32 to hold the sums exactly


def all_reduce(task: AllReduce) -> Answer:
    """Time consecutive sums without pauses between them, as NCCL's own tests do.

    Raises:
        InputError: the size is not a positive multiple of a float32's 4 bytes.
    """
    world = World.from_environment(task.device)
    if task.size_bytes < FLOAT_BYTES or task.size_bytes % FLOAT_BYTES:
        raise InputError(
            f"a float32 tensor can't have {task.size_bytes} bytes; use a multiple of 4"
        )
    threads.set_threads(task.threads)
    with world.joined():
        return measure(task, world)


def measure(task: AllReduce, world: World) -> Answer:
    """Take the measurement after the ranks have joined."""
    tensor = torch.empty(task.size_bytes // FLOAT_BYTES, device=world.device)
    _fill(tensor, world)

    def call(stopwatch: Stopwatch) -> None:
        world.summed(tensor)
        stopwatch.mark()

    cold = longest_seconds(world, call)
    errors = [_error(tensor, world)]
    # Zeros, since their sums stay finite over any number of calls and take just as long.
    tensor.zero_()
    expected = statistics.median(longest_seconds(world, call) for _ in range(WARMUP))
    timed = time_calls(world, call, task.samples, task.max_seconds, expected)
    _fill(tensor, world)
    world.summed(tensor)
    errors.append(_error(tensor, world))
    (error,) = world.largest([max(errors)])
    correctness = Correctness(relative_error=error, tolerance=TOLERANCE)
    return Answer(
        implementation=Implementation(
            name=f"torch.distributed all_reduce by {world.backend}",
            version=_version(world),
            threads=task.threads,
        ),
        cold_seconds=cold,
        samples_seconds=tuple(timed.samples),
        starts=timed.all_starts(),
        warmup_calls=1 + WARMUP,
        correctness=correctness,
        wrong=None if correctness.passed else "the sums over all ranks are not exact",
        bytes_moved=task.size_bytes * world.size,
        peak_memory_bytes=world.peak_bytes(task.device),
    )


def own_values(count: int, rank: int) -> torch.Tensor:
    """Return a rank's summands: whole numbers that repeat after PERIOD and differ between ranks."""
    return torch.arange(count).remainder_(PERIOD).add_(rank).float()


def sums(count: int, ranks: int) -> torch.Tensor:
    """Return the sum of all ranks' `own_values`."""
    return ranks * own_values(count, 0).double() + ranks * (ranks - 1) / 2


def _fill(tensor: torch.Tensor, world: World) -> None:
    values = own_values(min(len(tensor), PART), world.rank)
    for part in torch.split(tensor, PART):
        part.copy_(values[: len(part)])


def _error(tensor: torch.Tensor, world: World) -> float:
    expected = sums(min(len(tensor), PART), world.size)
    largest = max(
        float((part.cpu().double() - expected[: len(part)]).abs().max())
        for part in torch.split(tensor, PART)
    )
    return 1.0 if math.isnan(largest) else largest / float(expected.max())


def _version(world: World) -> str:
    if world.backend == "nccl":
        return ".".join(map(str, torch.cuda.nccl.version()))  # type: ignore[no-untyped-call]
    return torch.__version__
