"""Functions that run in workers; libraries that are slow to load are loaded only there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from batchmark_job.machine.inventory import Machine, take_inventory
from batchmark_job.measuring.problem import Problem
from batchmark_job.measuring.processes.workers import Tell
from batchmark_job.result.document import Ceiling, Device

if TYPE_CHECKING:
    from batchmark_job.measuring.prepared import Prepared


def look_around(tell: Tell, requested: str, threads: int, allow_cpu_fallback: bool) -> Machine:
    """Take an inventory of the machine from within a worker."""
    machine = take_inventory(requested, threads, allow_cpu_fallback=allow_cpu_fallback)
    tell("mark", "device_ready")
    return machine


def prepare(
    tell: Tell, problem: Problem, index: int, threads: int | None, input_sets: int
) -> Prepared:
    from batchmark_job.measuring.prepared import Prepared

    return Prepared(tell, problem, problem.implementations()[index], threads, input_sets)


def ceilings(
    tell: Tell,  # noqa: ARG001
    device: Device,
    threads: int,
    dtypes: tuple[str, ...],
    most_seconds: float,
) -> tuple[Ceiling, ...]:
    from batchmark_job.machine.threads import set_threads
    from batchmark_job.measuring.ceilings import BOUNDS, measure_ceilings

    set_threads(threads)
    bounds = BOUNDS[device.value]
    seconds = min(bounds.seconds, most_seconds)
    return measure_ceilings(device.value, dtypes, bounds._replace(seconds=seconds))
