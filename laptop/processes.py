"""Starts programs and ends them along with all their descendants."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import psutil

from laptop.errors import LaptopError

# Inherited by every process of a stack; its value is the stack's folder.
MARKER = "BATCHMARK_STACK"
STOP_SECONDS = 12.0  # above the 10 s in which the local cloud ends its jobs (scheduler.py)


def free_port(host: str = "127.0.0.1") -> int:
    with socket.socket() as probe:
        probe.bind((host, 0))
        port: int = probe.getsockname()[1]
        return port


def require_port(port: int, what: str, setting: str = "") -> None:
    """Raise LaptopError unless `port` is free on the loopback interface.

    `setting` is the command and the variable that choose another port, such as `make up PORT`.
    """
    if not 0 < port < 65536:
        raise LaptopError(f"{port} is not a valid port for {what}: choose one from 1 to 65535")
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            raise LaptopError(
                f"port {port} for {what} is already in use ({error.strerror}): stop the process "
                f"that uses it, or choose another{f': `{setting}={port + 1}`' if setting else ''}"
            ) from error


def end_of(log: Path) -> str:
    """Return the last lines of a program's log for use in an error message."""
    tail = "\n".join(log.read_text(errors="replace").splitlines()[-15:])
    return f"end of {log}:\n{tail}"


class Processes:
    """One stack's running programs.

    The stack's folder identifies it and holds the programs' logs, `logs/<name>.log`.
    """

    def __init__(self, folder: Path, env: Mapping[str, str]) -> None:
        self.folder = folder.resolve()
        # Airflow sets process titles, which overwrites the environment unless SPT_NOENV is set.
        self.env = {**env, MARKER: str(self.folder), "SPT_NOENV": "1"}
        self._started: dict[str, subprocess.Popen[bytes]] = {}

    def log_of(self, name: str) -> Path:
        return self.folder / "logs" / f"{name}.log"

    def start(
        self, name: str, argv: Sequence[str], *, cwd: Path, env: Mapping[str, str] | None = None
    ) -> None:
        """Start a program in its own session so that Ctrl-C does not reach it."""
        log = self.log_of(name)
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as out:
            self._started[name] = subprocess.Popen(
                argv,
                cwd=cwd,
                env={**self.env, **(env or {})},
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def lower_priority(self, name: str, nice: int) -> None:
        """Give a program, and whatever it starts, less CPU time while other programs need it."""
        leader = psutil.Process(self._started[name].pid)
        for process in (leader, *leader.children(recursive=True)):
            with suppress(psutil.Error):
                process.nice(nice)
        # Where Linux shares the CPU among sessions, niceness counts only within each of them.
        session = Path(f"/proc/{leader.pid}/autogroup")
        with suppress(OSError):
            try:
                session.write_text(str(nice))
            except BlockingIOError:  # without root, one change every 100 ms
                time.sleep(0.2)
                session.write_text(str(nice))

    def check(self) -> None:
        """If a program has ended, raise LaptopError with the end of the program's log."""
        for name, process in self._started.items():
            if (code := process.poll()) is not None:
                told = end_of(self.log_of(name))
                raise LaptopError(f"{name} exited with code {code}; {told}")

    def run(
        self, name: str, argv: Sequence[str], *, cwd: Path, env: Mapping[str, str] | None = None
    ) -> None:
        """Run a program to completion.

        Raises:
            LaptopError: its exit code was not 0.
        """
        self.start(name, argv, cwd=cwd, env=env)
        process = self._started[name]
        process.wait()
        if process.returncode:
            self.check()
        del self._started[name]

    def kill(self, name: str) -> None:
        """Kill a program and its descendants with SIGKILL; it can be started again afterwards."""
        process = self._started.pop(name)
        tree = psutil.Process(process.pid).children(recursive=True)
        process.kill()
        _signal(tree, signal.SIGKILL)
        process.wait()

    def stop(self) -> None:
        stop_all(self.folder)
        for process in self._started.values():
            process.kill()
            process.wait()
        self._started.clear()


def processes_of(folder: Path) -> list[psutil.Process]:
    """Return the live processes whose environment names the stack in `folder`, except this one."""
    wanted = str(folder.resolve())
    found = []
    for process in psutil.process_iter():
        try:
            if process.pid == os.getpid() or process.status() == psutil.STATUS_ZOMBIE:
                continue
            if process.environ().get(MARKER) == wanted:
                found.append(process)
        except psutil.Error:  # the process has just ended, or belongs to another user
            continue
    return found


def stop_all(folder: Path, seconds: float = STOP_SECONDS) -> int:
    """End a stack's processes with SIGTERM, then SIGKILL; return how many there were."""
    asked = processes_of(folder)
    _signal(asked, signal.SIGTERM)
    deadline = time.monotonic() + seconds
    while (left := processes_of(folder)) and time.monotonic() < deadline:
        time.sleep(0.1)
    while left:
        _signal(left, signal.SIGKILL)
        psutil.wait_procs(left, timeout=2)
        left = processes_of(folder)
    return len(asked)


def _signal(processes: Sequence[psutil.Process], number: signal.Signals) -> None:
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            process.send_signal(number)
