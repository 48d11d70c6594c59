"""Determines a job's device and threads for measuring, and the machine's fingerprint."""

from __future__ import annotations

import contextlib
from typing import NamedTuple

from batchmark_job.errors import CannotMeasureError, say
from batchmark_job.result.document import Device, Environment


class Machine(NamedTuple):
    device: Device
    thread_counts: tuple[int, ...]  # thread counts to try; the first is all that the job may use
    environment: Environment
    gpu_uuid: str | None
    multiprocessors: int | None = None  # of the GPU

    @property
    def threads(self) -> int:
        return self.thread_counts[0]


def take_inventory(requested: str, threads: int, *, allow_cpu_fallback: bool) -> Machine:
    """Choose and start the device, and describe the machine.

    Args:
        requested: auto, cpu or cuda.
        threads: CPU threads for the math libraries; 0 means all that are available.

    Raises:
        CannotMeasureError: the requested device is missing or can't be used.
    """
    import torch

    from batchmark_job.machine import fingerprint
    from batchmark_job.machine.threads import thread_counts_to_try

    device = _choose_device(requested, allow_cpu_fallback=allow_cpu_fallback)
    usable = fingerprint.usable_threads()
    if threads > usable:
        say(
            f"batchmark-job: {threads} threads requested, but only {usable} are usable: using "
            f"{usable}"
        )
    given = min(threads or usable, usable)
    uuid = multiprocessors = None
    if device is Device.CUDA:
        with contextlib.suppress(Exception):
            properties = torch.cuda.get_device_properties(0)
            uuid, multiprocessors = str(properties.uuid), properties.multi_processor_count
    environment = fingerprint.describe(given, device)
    return Machine(device, thread_counts_to_try(given), environment, uuid, multiprocessors)


def _choose_device(requested: str, *, allow_cpu_fallback: bool) -> Device:
    import torch

    from batchmark_job.machine import cuda

    if requested == "cpu" or (requested == "auto" and not torch.cuda.is_available()):
        return Device.CPU
    obstacle = cuda.find_obstacle()
    if obstacle is None:
        cuda.start()
        return Device.CUDA
    if not allow_cpu_fallback:
        raise CannotMeasureError(
            f"cannot measure: --device is cuda, but {obstacle.what}; {obstacle.remedy}; or pass "
            "--allow-cpu-fallback to measure on the CPU instead"
        )
    say(
        f"batchmark-job: NOT A GPU MEASUREMENT: cuda was requested, but {obstacle.what}; "
        "measuring on the CPU (--allow-cpu-fallback)"
    )
    return Device.CPU
