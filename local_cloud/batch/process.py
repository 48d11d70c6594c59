"""One container's processes: the launcher, the command below it, and their output."""

from __future__ import annotations

import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

from local_cloud.batch import launcher
from local_cloud.batch.logs import MAX_EVENT_BYTES

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from local_cloud.batch.logs import LogStream

OUTPUT_DRAIN_SECONDS = 5.0


class ContainerProcess:
    """A started command. What it leaves behind is ended with it, or with this server."""

    def __init__(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        working_dir: Path,
        log_stream: LogStream,
    ) -> None:
        """Start the command; raises OSError where no process can be started."""
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", str(launcher.__file__), *command],
            env=dict(environment),
            cwd=working_dir,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        self._log_stream = log_stream
        self._reader = threading.Thread(target=self._copy_output, daemon=True)
        self._reader.start()

    def _copy_output(self) -> None:
        output = self._process.stdout
        assert output is not None  # noqa: S101 - stdout is a pipe
        with output:
            while line := output.readline(MAX_EVENT_BYTES):
                self._log_stream.write(line)

    def command_pids(self) -> list[int]:
        """The command's process, which its launcher is the parent of; none once it has ended."""
        with suppress(psutil.NoSuchProcess):
            return [child.pid for child in psutil.Process(self._process.pid).children()]
        return []

    def ask_to_stop(self) -> None:
        """Send SIGTERM to the command."""
        self._process.terminate()

    def kill(self) -> None:
        """Let the launcher kill the command and everything below it."""
        if self._process.stdin is not None:
            self._process.stdin.close()

    def wait(self) -> int:
        """Wait for the end; a signal's number n comes as exit code 128 + n."""
        code = self._process.wait()
        self._reader.join(OUTPUT_DRAIN_SECONDS)
        self.kill()
        return code if code >= 0 else 128 - code
