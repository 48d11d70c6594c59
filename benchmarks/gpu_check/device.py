"""Describes the device and the installed software."""

from __future__ import annotations

import platform
from importlib import metadata
from typing import Any

import torch

from batchmark_job.machine import cuda, fingerprint

PACKAGES = ("numpy", "scipy", "triton", "opencv-python-headless", "nvidia-ml-py", "pydantic")


def obstacle() -> str | None:
    """Return one line explaining why the check can't run here, or None if it can."""
    found = cuda.find_obstacle()
    return None if found is None else f"{found.what}: {found.remedy}"


def describe() -> dict[str, Any]:
    properties = torch.cuda.get_device_properties(0)
    return {
        "gpu": properties.name,
        "gpus": torch.cuda.device_count(),
        "capability": "{}.{}".format(*torch.cuda.get_device_capability(0)),
        "memory_bytes": properties.total_memory,
        "driver": fingerprint.driver_version(),
        "cuda": torch.version.cuda,
        "torch": str(torch.__version__),
        "built_for": torch.cuda.get_arch_list(),
        "python": platform.python_version(),
        "cpu": fingerprint.cpu_model(),
        "cpu_threads": fingerprint.usable_threads(),
        "kernel": platform.release(),
        "code": fingerprint.code_version(),
        "packages": {name: _version(name) for name in PACKAGES},
    }


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None
