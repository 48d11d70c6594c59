"""Checks whether CUDA can be used, and if not, explains why and what to do about it."""

from __future__ import annotations

import os
import warnings
from typing import NamedTuple

import torch

from batchmark_job.errors import CannotMeasureError, first_line, one_line, say
from batchmark_job.machine import cards, nvml

# The oldest driver of each CUDA major version, which also runs all its minor versions.
# Source: CUDA Toolkit release notes, "CUDA Toolkit and Minimum Required Driver Version".
FIRST_DRIVERS = {11: 450, 12: 525, 13: 580}
VISIBLE = "NVIDIA_VISIBLE_DEVICES"
CAPABILITIES = "NVIDIA_DRIVER_CAPABILITIES"
CUDA_VISIBLE = "CUDA_VISIBLE_DEVICES"


class Obstacle(NamedTuple):
    """The reason why CUDA can't be used, and what to check or change."""

    what: str
    remedy: str


def find_obstacle() -> Obstacle | None:
    """Find out why torch sees no CUDA device; return None if it sees one."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        if torch.cuda.is_available():
            return None
    if torch.version.cuda is None:
        return Obstacle(
            f"this torch ({torch.__version__}) is built without CUDA",
            "run the gpu variant of the job image, whose tag does not end in -cpu, or install "
            "torch's CUDA build",
        )
    try:
        driver = nvml.driver()
    except Exception as error:
        return Obstacle(f"no NVIDIA driver responds ({first_line(error)})", _ask_for_a_gpu())
    if driver.gpus == 0:
        return Obstacle(f"NVIDIA driver {driver.version} finds no GPU", _ask_for_a_gpu())
    return _driver_obstacle(driver) or Obstacle(
        f"torch sees none of the {driver.gpus} GPU(s) that NVIDIA driver {driver.version} finds"
        + (f" and warns: {str(caught[-1].message).splitlines()[0]}" if caught else ""),
        f"check {CUDA_VISIBLE} (currently {_shown(CUDA_VISIBLE)}), and that `nvidia-smi` on the "
        "host shows a healthy GPU",
    )


def start() -> None:
    """Initialise CUDA on the first GPU without running a kernel, so that cold calls stay cold.

    Raises:
        CannotMeasureError: torch has no code for the GPU, its memory is full, or CUDA fails.
    """
    try:
        torch.cuda.init()  # type: ignore[no-untyped-call]
        _refuse_other_gpus()
        torch.empty(1, device="cuda").cpu()
        _name_the_gpu()
    except (RuntimeError, torch.cuda.DeferredCudaCallError) as error:
        if "out of memory" in str(error):
            raise CannotMeasureError(
                f"cannot measure: the GPU ran out of memory before the first row{_memory_used()}; "
                "stop the other processes on it (`nvidia-smi` on the host lists them), or give "
                "each job its own GPU"
            ) from error
        raise CannotMeasureError(
            f"cannot measure: CUDA failed to start: {one_line(error)}; check `nvidia-smi` on the "
            "host: a GPU in an error state needs a reboot or another instance"
        ) from error


def _driver_obstacle(driver: nvml.Driver) -> Obstacle | None:
    if driver.cuda is None:
        return Obstacle(
            f"NVIDIA driver {driver.version} is present without its CUDA library, libcuda.so.1",
            f"{CAPABILITIES} must include compute (currently {_shown(CAPABILITIES)})",
        )
    needed = int(str(torch.version.cuda).partition(".")[0])
    if driver.cuda[0] >= needed:
        return None
    oldest = FIRST_DRIVERS.get(needed)
    return Obstacle(
        f"NVIDIA driver {driver.version}, for CUDA {'.'.join(map(str, driver.cuda))}, is too old "
        f"for torch {torch.__version__}, built for CUDA {torch.version.cuda}",
        "the host needs "
        f"{f'driver {oldest} or newer' if oldest else f'one for CUDA {needed}'}; on AWS, use a "
        "newer GPU AMI in the compute environment",
    )


def _ask_for_a_gpu() -> str:
    return (
        "check that the host has a GPU, its driver and nvidia-container-toolkit, that the job "
        "requests a GPU (Batch: a resource requirement of type GPU; Docker: --gpus all), and the "
        f"value of {VISIBLE} (currently {_shown(VISIBLE)})"
    )


def _shown(variable: str) -> str:
    value = os.environ.get(variable)
    return "not set" if value is None else repr(value)


def _refuse_other_gpus() -> None:
    """Reject a GPU that torch has no code for, because its first kernel would fail."""
    built_for = torch.cuda.get_arch_list()
    capability = torch.cuda.get_device_capability(0)
    if built_for and not cards.runs_on(capability, built_for):
        fitting = ", ".join(
            card.model for card in cards.CARDS if cards.runs_on(card.capability, built_for)
        )
        raise CannotMeasureError(
            f"cannot measure: {torch.cuda.get_device_name(0)} has compute capability "
            f"{'.'.join(map(str, capability))}, but torch {torch.__version__} is built for "
            f"{' '.join(built_for)}; use another GPU ({fitting}) or another release of the job "
            "image"
        )


def _name_the_gpu() -> None:
    """Log which GPU this is, and which EC2 families have it."""
    properties = torch.cuda.get_device_properties(0)
    card = cards.card_of(properties.name)
    known = f"EC2 {', '.join(card.families)}" if card else "not a known EC2 GPU"
    major, minor = torch.cuda.get_device_capability(0)
    say(
        f"batchmark-job: GPU: {properties.name} ({known}), compute capability {major}.{minor}, "
        f"{properties.total_memory / 2**30:.1f} GiB"
    )


def _memory_used() -> str:
    """Format the GPU memory in use in parentheses; return an empty string without NVML."""
    try:
        used = nvml.visible_gpus()[0].memory_used_bytes()
        total = torch.cuda.get_device_properties(0).total_memory
    except Exception:
        return ""
    return "" if used is None else f" ({used / 2**30:.1f} of {total / 2**30:.1f} GiB in use)"
