"""Runs NVIDIA's Multi-Process Service with the job's own control daemon, in its own folder.

A guard process starts the daemon, and ends it and its servers when the guard's standard input
closes, which happens when the job stops the service or ends for any reason.

Source: NVIDIA, Multi-Process Service, https://docs.nvidia.com/deploy/mps/.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import psutil

from batchmark_job.errors import CannotMeasureError, warn
from batchmark_job.machine.host import python_path

CONTROL = "nvidia-cuda-mps-control"
PIPES = "CUDA_MPS_PIPE_DIRECTORY"
LOGS = "CUDA_MPS_LOG_DIRECTORY"
THREAD_PERCENTAGE = "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"
MEMORY_LIMIT = "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"
# Without this folder CUDA starts without MPS, even if the host has a daemon.
WITHOUT = {PIPES: "/nonexistent/batchmark-mps"}

READY_SECONDS = 20.0  # judgment: a daemon on a new host may be slow; a missing one delays the error
ASKED_AGAIN_SECONDS = 0.05  # judgment: a replica starts this much late at most
QUIT_SECONDS = 10.0  # judgment: for each reply of the daemon, and for its processes to end
PR_SET_CHILD_SUBREAPER = 36  # prctl(2)
READY = "ready"
CONTROL_PIPE = "control"  # created by the daemon in its folder


def client_environment(
    pipes: str | None, thread_percentage: int | None, memory_bytes: int | None
) -> dict[str, str]:
    """Return the variables to set before CUDA starts; `pipes` is None if PIPES is already set."""
    found = {} if pipes is None else {PIPES: pipes}
    if thread_percentage is not None:
        found[THREAD_PERCENTAGE] = str(thread_percentage)
    if memory_bytes is not None:
        found[MEMORY_LIMIT] = f"0={memory_bytes // 2**20}M"
    return found


@contextlib.contextmanager
def daemon(gpu_uuid: str | None) -> Iterator[str]:
    """Run a control daemon for a GPU within the context, and yield the folder with its pipes.

    Raises:
        CannotMeasureError: the daemon is not installed or does not respond.
    """
    control = shutil.which(CONTROL)
    if control is None:
        raise CannotMeasureError(
            f"{CONTROL} is not on the PATH; it comes with NVIDIA's driver: set "
            "NVIDIA_DRIVER_CAPABILITIES=compute,utility for the container"
        )
    folder = Path(tempfile.mkdtemp(prefix="batchmark-mps-"))
    pipes, logs = folder / "pipes", folder / "logs"
    pipes.mkdir()
    logs.mkdir()
    environment = os.environ | {PIPES: str(pipes), LOGS: str(logs)}
    environment["PYTHONPATH"] = python_path()
    if gpu_uuid is not None:
        environment["CUDA_VISIBLE_DEVICES"] = f"GPU-{gpu_uuid}"
    guard = subprocess.Popen(
        [sys.executable, "-m", __name__, control, str(READY_SECONDS), str(logs / "said.log")],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
        text=True,
    )
    assert guard.stdin is not None  # noqa: S101
    assert guard.stdout is not None  # noqa: S101
    try:
        said = guard.stdout.readline().strip()
        if said != READY:
            raise CannotMeasureError(f"MPS did not start: {said or 'its guard process ended'}")
        yield str(pipes)
    finally:
        guard.stdin.close()
        try:
            guard.wait(2 * QUIT_SECONDS)
        except subprocess.TimeoutExpired:
            warn(f"the MPS guard does not exit; killing process {guard.pid}")
            _kill([psutil.Process(guard.pid), *psutil.Process(guard.pid).children(recursive=True)])
        guard.stdout.close()
        shutil.rmtree(folder, ignore_errors=True)


def find_daemon() -> None:
    """Check that the host daemon's folder is mounted; else CUDA would silently start without MPS.

    Wait up to READY_SECONDS, because on a new host the daemon might still be starting.

    Raises:
        CannotMeasureError: there is no daemon.
    """
    pipes = os.environ.get(PIPES)
    ends = time.monotonic() + READY_SECONDS
    while not pipes or not (Path(pipes) / CONTROL_PIPE).exists():
        if not pipes or time.monotonic() > ends:
            raise CannotMeasureError(
                f"{PIPES} is {pipes!r}, but no MPS daemon uses that folder; mount the host "
                "daemon's folder there"
            )
        time.sleep(ASKED_AGAIN_SECONDS)


def check_served(pipes: str | None) -> str | None:
    """Check that the daemon has started a server, as it does for its first client.

    Args:
        pipes: the daemon's folder; None for the one in this process's environment.

    Returns:
        Why this could not be checked, or None if it was checked.

    Raises:
        CannotMeasureError: the daemon serves no client, so the replicas run without MPS.
    """
    pipes = pipes or os.environ.get(PIPES, "")
    control = shutil.which(CONTROL)
    servers = control and _ask(control, "get_server_list", pipes)
    if servers is None:
        return f"the MPS daemon in {pipes} does not report which clients it serves"
    if not servers:
        raise CannotMeasureError(
            f"the MPS daemon in {pipes} serves no clients: the replicas would use the GPU "
            "without it"
        )
    return None


def _guard(control: str, ready_seconds: float, said: Path) -> None:
    """Run the daemon until standard input closes.

    Args:
        said: file for the daemon's output, which is logged only after a failure.
    """
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1)  # adopt the processes that it forks
    with said.open("wb") as file:
        process = subprocess.Popen(
            [control, "-f"], stdin=subprocess.DEVNULL, stdout=file, stderr=file
        )
    try:
        answer = _await(control, process, ready_seconds)
        last = said.read_text(errors="replace").strip().splitlines()[-1:]
        print(answer if answer == READY else ": ".join([answer, *last]), flush=True)
        sys.stdin.read()
    finally:
        _ask(control, "quit")
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(1.0)
        _kill(psutil.Process().children(recursive=True))


def _await(control: str, process: subprocess.Popen[bytes], seconds: float) -> str:
    """Wait for the daemon, and return READY or the reason it isn't ready."""
    ends = time.monotonic() + seconds
    while time.monotonic() < ends:
        if process.poll() is not None:
            return f"{control} exited with {process.returncode}"
        if _ask(control, "get_server_list") is not None:
            return READY
        time.sleep(ASKED_AGAIN_SECONDS)
    return f"{control} did not respond within {seconds:g} s"


def _ask(control: str, command: str, pipes: str | None = None) -> str | None:
    """Return the daemon's reply to a command, or None if the command failed or timed out."""
    with contextlib.suppress(subprocess.TimeoutExpired):
        asked = subprocess.run(
            [control],
            input=f"{command}\n",
            env=os.environ | ({PIPES: pipes} if pipes else {}),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=QUIT_SECONDS,
            check=False,
            text=True,
        )
        return asked.stdout.strip() if asked.returncode == 0 else None
    return None


def _kill(processes: list[psutil.Process]) -> None:
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    psutil.wait_procs(processes, timeout=QUIT_SECONDS)


if __name__ == "__main__":
    _guard(sys.argv[1], float(sys.argv[2]), Path(sys.argv[3]))
