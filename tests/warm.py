"""Local clouds as forks of a process that has imported them: moto takes 3 s of processor time.

Each is a server of its own all the same, with a process id, signals and an exit code.
"""

import multiprocessing
import os
import runpy
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from multiprocessing import forkserver
from multiprocessing.forkserver import ForkServer
from multiprocessing.reduction import DupFd
from pathlib import Path
from typing import IO, Any
from unittest.mock import patch

_forking = multiprocessing.get_context("forkserver")
# A server of its own: what is tested here, the job's workers, are forks of multiprocessing's.
_server = ForkServer()
_server.set_forkserver_preload(["tests.warm_imports"])


class Fork:
    """A module that runs as a program, as if subprocess.Popen had started it; stdout is a pipe."""

    def __init__(
        self,
        module: str,
        arguments: Sequence[str],
        *,
        folder: Path,
        env: Mapping[str, str],
        stderr: IO[str] | None,
    ) -> None:
        reading, writing = os.pipe()
        self.stdout = os.fdopen(reading)
        errors = stderr.fileno() if stderr else 2
        self._process = _forking.Process(
            target=_become,
            args=(module, arguments, folder, {**env}, _Handed(writing), _Handed(errors)),
            daemon=True,  # one that a test left is ended with the tests
        )
        try:
            with patch.object(forkserver, "connect_to_new_process", _server.connect_to_new_process):
                self._process.start()
        finally:
            os.close(writing)

    @property
    def pid(self) -> int:
        assert self._process.pid is not None
        return self._process.pid

    def poll(self) -> int | None:
        return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        self._process.join(timeout)
        if self._process.exitcode is None:
            raise subprocess.TimeoutExpired(str(self._process), timeout or 0)
        return self._process.exitcode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


class _Handed:
    """A file descriptor that the fork gets a copy of."""

    def __init__(self, number: int) -> None:
        self._number = number

    def __reduce__(self) -> Any:
        return _received, (DupFd(self._number),)


def _received(handed: Any) -> int:
    return int(handed.detach())


def _become(
    module: str, arguments: Sequence[str], folder: Path, env: dict[str, str], out: int, errors: int
) -> None:
    os.dup2(out, 1)
    os.dup2(errors, 2)
    os.close(out)
    os.close(errors)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(env)
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)
