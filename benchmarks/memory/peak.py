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
