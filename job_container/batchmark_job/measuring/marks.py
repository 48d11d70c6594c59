"""Records when a job reached each of its stages, from pulling its image to steady samples."""

from __future__ import annotations

import contextlib
import os
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Literal

import psutil

from batchmark_job.machine import metadata
from batchmark_job.result.document import Marks
from batchmark_job.result.values import EARLIEST, END

Mark = Literal["imported", "device_ready", "inputs_ready", "first_call", "trial_ended", "steady"]


class JobMarks:
    """Collects a job's stage times; only the first time for each stage counts."""

    def __init__(self) -> None:
        self.process_started_at = process_started_at()
        self._times: dict[Mark, datetime] = {}

    def mark(self, name: Mark) -> None:
        self._times.setdefault(name, datetime.now(UTC))

    def hear(self, kind: str, value: Any) -> None:
        """Record a mark that a worker reports."""
        if kind == "imported":
            self._times.setdefault("imported", value)
        elif kind == "mark":
            self.mark(value)

    def document(self) -> Marks:
        """Return all marks known so far; wait at most 2 s for the ECS agent, if there is one."""
        task = metadata.ecs_metadata("/task")
        container = metadata.ecs_metadata() if task else {}
        return Marks(
            image_pull_started_at=_time(task.get("PullStartedAt")),
            image_pull_stopped_at=_time(task.get("PullStoppedAt")),
            container_started_at=_time(container.get("StartedAt")),
            process_started_at=self.process_started_at,
            **{f"{name}_at": at for name, at in self._times.items()},
        )


def process_started_at(root: Path = Path("/")) -> datetime:
    """Return when this process started, to within 10 ms on Linux; psutil can be off by a second."""
    with contextlib.suppress(OSError, ValueError, IndexError, AttributeError):
        # Field 22 of proc_pid_stat(5), counted from the command's closing parenthesis.
        text = (root / "proc/self/stat").read_text().rpartition(")")[2]
        ticks = int(text.split()[19])
        age = time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")
        return datetime.now(UTC) - timedelta(seconds=age)
    return datetime.fromtimestamp(psutil.Process().create_time(), UTC)


def _time(value: Any) -> datetime | None:
    """Parse an RFC 3339 time; return None for anything else, and for year 1, Go's zero time."""
    with contextlib.suppress(TypeError, ValueError):
        time_stated = datetime.fromisoformat(value)
        if time_stated.tzinfo is not None and EARLIEST <= time_stated < END:
            return time_stated
    return None
