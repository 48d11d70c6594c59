"""What the benchmarks of memory share."""

from __future__ import annotations

import resource
from pathlib import Path


def peak_mb() -> float:
    """This process's peak resident memory so far, in MB of 10^6 bytes."""
    status = Path("/proc/self/status")  # on Linux, ru_maxrss includes the parent's peak
    if status.exists():
        (line,) = (text for text in status.read_text().splitlines() if text.startswith("VmHWM:"))
        return int(line.split()[1]) * 1024 / 1e6
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6  # in bytes on macOS


def with_forked_mb(before_mb: float) -> float:
    """This process's peak and what its forked processes took on top of `before_mb`, at most.

    Processes share what was there before; `before_mb` is this one's peak until then. Counted are
    processes that have ended.
    """
    forked = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024 / 1e6  # of Linux alone
    return peak_mb() + max(0.0, forked - before_mb)
