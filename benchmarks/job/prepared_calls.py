"""Real workloads, prepared as in a job, at a size that takes about a given time."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import TYPE_CHECKING

from batchmark_job.machine import fingerprint
from batchmark_job.machine.threads import set_threads
from batchmark_job.measuring.entry import find_candidates, input_sets
from batchmark_job.measuring.problem import Problem
from batchmark_job.measuring.samples.sampling import MonotonicTimer, Rotation
from batchmark_job.workloads.builtin import WORKLOADS

if TYPE_CHECKING:
    from batchmark_job.workloads.base import Call

FIRST_SIZE = 512
GROWTH = {"matmul": 3, "gaussian_blur": 2}  # exponent of a call's time in the size


def prepared_calls(name: str, size: int, threads: int) -> list[Call]:
    """One call per input set of the workload's first implementation on the CPU, in float32."""
    workload = WORKLOADS[name]
    given = {"size": size}
    parameters = {axis.name: given.get(axis.name, axis.default or 1) for axis in workload.axes}
    problem = Problem(workload, parameters, "float32", "cpu")
    cache_bytes = fingerprint.last_level_cache_bytes()
    sets = input_sets(problem, find_candidates(problem, (threads,))[:1], cache_bytes)
    set_threads(threads)
    inputs = map(problem.inputs, range(sets))
    implementation = problem.implementations()[0]
    return list(implementation.prepare_each(map(implementation.arrange, inputs)))


def size_for(name: str, seconds: float, threads: int) -> int:
    """The size at which a call takes about `seconds`."""
    size = FIRST_SIZE
    for _ in range(2):
        took = min(call_seconds(prepared_calls(name, size, threads)))
        size = max(16, round(size * (seconds / took) ** (1 / GROWTH[name])))
    return size


def median_seconds(calls: Sequence[Call], count: int = 15) -> float:
    return statistics.median(call_seconds(calls, count))


def call_seconds(calls: Sequence[Call], count: int = 15) -> list[float]:
    rotation, timer = Rotation(calls), MonotonicTimer("cpu")
    return [timer.seconds(rotation.take())[0] for _ in range(count)]
