"""Runs containers as processes on this machine, each command as the child of a launcher."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, Any

import psutil

from local_cloud.batch.running import environment_variables, launcher
from local_cloud.batch.running.host_folders import HostFolders
from local_cloud.batch.running.log_stream import MAX_EVENT_BYTES, LogStream
from local_cloud.batch.running.runtime import Exit, Launch, Runtime
from local_cloud.clock import now_milliseconds
from local_cloud.settings import Settings

OUTPUT_DRAIN_SECONDS = 5.0  # judgment: a process left behind may hold the pipe open
PIPE_BYTES = 65_536  # capacity of a pipe in Linux, so a read can empty it
ENVIRONMENT_FILE = "pyvenv.cfg"  # of a virtual environment


class ProcessRuntime(Runtime):
    """Runs commands installed on this machine; ignores images and limits, and mounts nothing."""

    shares_network = True

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._folders = HostFolders()

    def start(self, launch: Launch) -> ContainerProcess:
        """Start the command; raise OSError or ValueError if that fails."""
        basis = {
            **environment_variables.inherited(),
            **environment_variables.aws(launch, self._settings),
        }
        if launch.job.submission.is_multi_node:  # nodes look up their address there
            basis |= environment_variables.task_metadata(launch, self._settings)
        variables = {
            **environment_variables.for_node(launch, basis),
            **environment_variables.cuda(launch.gpu_ids, sees_all=launch.container.sees_all_gpus),
            **self._folders.in_variables(launch),
        }
        with ExitStack() as cleanup:
            definition = launch.job.submission.definition.name
            folder = self._settings.definition_dirs.get(definition, self._settings.job_dir)
            if self._settings.copy_job_dir:
                folder = cleanup.enter_context(fresh_copy(folder))
            command = resolve(launch.container.command, variables.get("PATH", ""), folder)
            process = ContainerProcess(command, variables, folder, launch.log_stream)
            process.cleanup = cleanup.pop_all()
        return process

    def adopt(self, launch: Launch) -> ContainerProcess | None:  # noqa: ARG002
        """Return None, because processes end with their server."""
        return None

    def remove_others(self, task_ids: Collection[str]) -> None:
        """Do nothing, because no process outlives its server."""

    def inspect(self, task_id: str) -> dict[str, Any] | None:  # noqa: ARG002
        """Return None, because there is no container engine to query."""
        return None

    def close(self) -> None:
        """Remove the instances' folders; processes end with their attempts or with this server."""
        self._folders.remove()


class ContainerProcess:
    """A started command. Its descendants are killed when it ends, or when this server does."""

    address = None

    def __init__(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        working_dir: Path,
        log_stream: LogStream,
    ) -> None:
        self.started_at = now_milliseconds()
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", str(launcher.__file__), *command],
            env=dict(environment),
            cwd=working_dir,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        self.cleanup = ExitStack()
        self._log_stream = log_stream
        # Each output is read separately, as a container's are: half lines would mix.
        self._readers = [
            threading.Thread(target=self._copy, args=(output,), daemon=True)
            for output in (self._process.stdout, self._process.stderr)
        ]
        for reader in self._readers:
            reader.start()

    def _copy(self, output: IO[bytes]) -> None:
        with output:
            for lines in lines_of(output):
                self._log_stream.write(*lines)

    def command_pids(self) -> list[int]:
        """Return the command's process id, or an empty list once it has ended."""
        with suppress(psutil.NoSuchProcess):
            return [child.pid for child in psutil.Process(self._process.pid).children()]
        return []

    def ask_to_stop(self) -> None:
        self._process.terminate()

    def kill(self) -> None:
        """Make the launcher kill the command and all its descendants."""
        if self._process.stdin is not None:
            self._process.stdin.close()

    def wait(self) -> Exit:
        """Wait for the command to end; signal n becomes exit code 128 + n."""
        code = self._process.wait()
        for reader in self._readers:
            reader.join(OUTPUT_DRAIN_SECONDS)
        self.kill()
        return Exit(code if code >= 0 else 128 - code)

    def remove(self) -> None:
        """Remove any copy of the job folder; the launcher ends last, so no process is left."""
        self.cleanup.close()


@contextmanager
def fresh_copy(folder: Path) -> Iterator[Path]:
    """Copy a folder for the duration of the block, leaving out pipes, sockets and devices.

    Virtual environments, which are large, and symbolic links that point outside the folder are
    linked rather than copied.

    Raises:
        OSError: a file can't be copied.
    """
    linked: list[Path] = []

    def left_out(parent: str, names: list[str]) -> set[str]:
        found = [Path(parent, name) for name in names]
        links = [each for each in found if _is_linked(each, folder)]
        linked.extend(links)
        return {each.name for each in found if each in links or not _can_be_copied(each)}

    with TemporaryDirectory(prefix="local-cloud-job-", ignore_cleanup_errors=True) as copy:
        shutil.copytree(folder, copy, symlinks=True, ignore=left_out, dirs_exist_ok=True)
        for each in linked:
            Path(copy, each.relative_to(folder)).symlink_to(each)
        yield Path(copy)


def _is_linked(path: Path, folder: Path) -> bool:
    leads_out = path.is_symlink() and not Path(os.path.realpath(path)).is_relative_to(folder)
    return leads_out or (path / ENVIRONMENT_FILE).is_file()


def _can_be_copied(path: Path) -> bool:
    return path.is_symlink() or path.is_file() or path.is_dir()


def lines_of(output: IO[bytes]) -> Iterator[list[bytes]]:
    """Yield lines in batches as they become available, splitting lines too long for an event."""
    rest = b""
    while read := os.read(output.fileno(), PIPE_BYTES):
        text = BytesIO(rest + read)
        lines = list(iter(partial(text.readline, MAX_EVENT_BYTES), b""))
        whole = lines[-1].endswith(b"\n") or len(lines[-1]) == MAX_EVENT_BYTES
        rest = b"" if whole else lines.pop()
        yield lines
    if rest:
        yield [rest]


def resolve(command: list[str], path: str, job_dir: Path) -> list[str]:
    """Return the command with its program's path; `python` and `python3` mean this interpreter.

    Raises:
        OSError: there is no command, or its program is not found.
    """
    if not command:
        raise OSError(
            "no command was specified, and a job run as a process has no image with a default "
            "command"
        )
    program, *arguments = command
    if program in ("python", "python3"):
        return [sys.executable, *arguments]
    if os.sep in program:
        found = str(job_dir / program) if os.access(job_dir / program, os.X_OK) else None
    else:
        found = shutil.which(program, path=path)
    if found is None:
        raise OSError(f'exec: "{program}": executable file not found in $PATH')
    return [found, *arguments]
