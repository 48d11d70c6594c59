"""Starts, watches and ends torchrun and its ranks on this node."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import psutil
from pydantic import TypeAdapter, ValidationError

from batchmark_job.distributed.busy import GpuUtilisation
from batchmark_job.distributed.node import Node
from batchmark_job.distributed.task import ERROR_SUFFIX, TASK_VARIABLE, Answer, RankError, Task
from batchmark_job.distributed.torchrun import (
    LOOPBACK_INTERFACE,
    NCCL_INTERFACES,
    Launch,
    environment,
)
from batchmark_job.errors import say
from batchmark_job.machine.memory import kills_for_memory

TORCHRUN = "batchmark_job.distributed.torchrun"
KILL_SECONDS = 5.0  # how long ranks may take to end after SIGTERM
NCCL = "NCCL_SOCKET_IFNAME"
# torchrun's summary lists the first failure under "Root Cause".
KILLED = re.compile(r"Root Cause.*?rank\s*: (\d+) .*?\n\s*exitcode\s*: -(\d+)", re.DOTALL)
SIGABRT, SIGKILL = 6, 9


class Ended(NamedTuple):
    """How torchrun ended on one node."""

    code: int
    error: str | None = None  # of the rank that failed first; None if this node ended it
    lost_another: bool = False  # failed only because a rank of another node had failed
    failed_at: float = 0.0  # by the node's clock
    out_of_memory: bool = False
    busy: tuple[tuple[float, float], ...] = ()  # (seconds since the start, utilisation)


ENDED = TypeAdapter(Ended)


class LocalRanks:
    """One launch of ranks on this node."""

    def __init__(
        self, node: Node, launch: Launch, task: Task, own: str, busy: GpuUtilisation | None = None
    ) -> None:
        """Start torchrun.

        Raises:
            OSError: the process can't be started or a file can't be written.
        """
        self._folder = tempfile.TemporaryDirectory(
            prefix="batchmark-ranks-", ignore_cleanup_errors=True
        )
        folder = Path(self._folder.name)
        self._answer, self._logs, self._output = folder / "answer", folder / "logs", ""
        self._killed = False
        self._kills_before = kills_for_memory()
        self._task = str(folder / "task")
        Path(self._task).write_text(task.model_dump_json())
        variables = {
            **os.environ,
            **environment(own, task.threads, Path(self._task), self._answer),
        }
        variables.setdefault(NCCL, NCCL_INTERFACES if launch.nodes > 1 else LOOPBACK_INTERFACE)
        arguments = launch.arguments(node.index, self._logs)
        self._busy = busy
        self._process = subprocess.Popen(
            [sys.executable, "-m", TORCHRUN, *arguments],
            env=variables,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        )
        self._reader = threading.Thread(target=self._copy_output, name="torchrun", daemon=True)
        self._reader.start()
        if busy:
            busy.start()

    def wait(self) -> Ended:
        """Wait for torchrun to end, and return how it ended."""
        code = self._process.wait()
        self._reader.join(KILL_SECONDS)
        busy = self._busy.stop() if self._busy else ()
        return self._ended(code)._replace(busy=busy)

    def answer(self) -> Answer:
        """Return rank 0's answer; works only on the node that ran rank 0.

        Raises:
            OSError: rank 0 wrote nothing.
            ValidationError: rank 0 wrote an invalid answer.
        """
        return Answer.model_validate_json(self._answer.read_bytes())

    def kill(self) -> None:
        """Kill torchrun and its ranks within seconds, including ranks that outlived it."""
        self._killed = True
        end = time.monotonic() + KILL_SECONDS
        # Repeat until no process is left: torchrun may start one during the search.
        while (found := list(self._found())) and time.monotonic() < end:
            for process in found:
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.kill()
            # Not psutil.wait: it would reap torchrun's exit code, which `wait` needs from Popen.
            psutil.wait_procs([p for p in found if p.pid != self._process.pid], KILL_SECONDS)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(KILL_SECONDS)

    def remove(self) -> None:
        self.kill()
        self._process.wait()
        if self._process.stdin:
            self._process.stdin.close()
        self._folder.cleanup()

    def usage(self) -> tuple[float, int]:
        """Return the CPU seconds used so far and the resident bytes of this launch's processes."""
        seconds, resident = 0.0, 0
        for process in self._found():
            with contextlib.suppress(psutil.Error):
                times = process.cpu_times()
                seconds += times.user + times.system
                resident += process.memory_info().rss
        return seconds, resident

    def _found(self) -> Iterator[psutil.Process]:
        """Find this launch's processes by their environment, as each runs in its own session."""
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                if process.environ().get(TASK_VARIABLE) == self._task:
                    yield process

    def _copy_output(self) -> None:
        output = self._process.stdout
        assert output is not None  # noqa: S101 - stdout is a pipe
        with output:
            for line in output:
                self._output = (self._output + line)[-20_000:]
                say(line.rstrip("\n"))

    def _ended(self, code: int) -> Ended:
        """Return how torchrun ended; blame the first rank to fail, as it makes the others fail."""
        told = sorted(self._told_errors(), key=lambda each: (each.lost_another, each.at))
        own = next((each for each in told if not each.lost_another), None)
        # an error that a rank reported came before torchrun ended it
        if own or self._killed or code == 0:
            return _told(code, own) if own else Ended(code)
        if killed := KILLED.search(self._output):
            rank, number = killed.group(1), int(killed.group(2))
            for_memory = number == SIGKILL and kills_for_memory() > self._kills_before
            why = f"ended by signal {number}"
            if for_memory:
                why = "out of memory: the kernel killed it"
            # NCCL's watchdog aborts a rank whose peer is gone.
            aborted = number == SIGABRT
            return Ended(code, f"rank {rank}: {why}", aborted, time.time(), for_memory)
        if told:
            return _told(code, told[0])
        lines = [line.strip() for line in self._output.splitlines() if line.strip()]
        error = lines[-1] if lines else "torchrun wrote nothing"
        return Ended(code, error, failed_at=time.time())

    def _told_errors(self) -> Iterator[RankError]:
        for file in self._answer.parent.glob(f"*{ERROR_SUFFIX}"):
            with contextlib.suppress(OSError, ValidationError):
                yield RankError.model_validate_json(file.read_bytes())


def _told(code: int, error: RankError) -> Ended:
    text = f"rank {error.rank}: {error.error}"
    return Ended(code, text, error.lost_another, error.at, error.out_of_memory)
