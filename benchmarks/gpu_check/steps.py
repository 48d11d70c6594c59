"""The check's steps; each runs once, in its own process, with a log and a time limit."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

STATE = "state.json"
GRACE_SECONDS = 20.0  # from interrupting a step to killing it
# Eight minutes is the limit on a borrowed card. A rehearsal may share its cores: two of its six
# steps were once stopped beside a full test run, which took twice its usual time.
REHEARSALS = 4
# Every mode and replica count, and what two disturbances do to the others.
MORE = {"sharing": ("--disturbances", "out_of_memory,hang", "--max-seconds", "2")}
TESTS = tuple(
    f"tests/unit/job/{name}.py"
    for name in (
        "machine/test_cuda_device",
        "workloads/test_training",
        "measuring/samples/test_sampling",
        "measuring/test_rows",
        "workloads/test_triton",
        "machine/test_nvml",
        "machine/test_fingerprint",
    )
)


class OtherDeviceError(Exception):
    """The folder contains a check of a different device or of different code."""


@dataclass(frozen=True)
class Step:
    """A process that writes a log and, if `document` is set, a result document."""

    name: str
    what: str
    command: tuple[str, ...]
    limit_seconds: int
    document: str | None = None


def steps_of(folder: Path, *, small: bool) -> list[Step]:
    """Return steps, most informative first; unless `small`, their time limits total 8 minutes."""
    chosen = ("-k", "tf32_is_a_row or each_input_set") if small else ()
    # Without the project's pytest settings, which require plugins that may be missing.
    tests = (
        *("-m", "pytest", "-q", "-rsfE", "-c", os.devnull, "--rootdir", ".", "--tb=short"),
        *("-p", "no:cacheprovider", "--import-mode=importlib", "--confcutdir=tests/unit/job"),
        *("--color=no", "-m", "needs_cuda", *chosen, *TESTS),
    )
    rivals = ("-m", "benchmarks.job.gpu_rivals", *(["--small"] if small else ["--seconds", "1"]))
    threads = ("-m", "benchmarks.job.cpu_rivals", "--suites", "smoke", "--first-look")
    few = ("--workloads", "fft") if small else ()
    steps = [
        _suite("smoke", "cuda", 95, folder, small=small),
        Step("rivals", "products and filters, compared with plain calls and a copy", rivals, 95),
        Step("tests", "the tests that need CUDA", tests, 80),
        Step("cpu-threads", "our rows and plain calls, by number of threads", (*threads, *few), 50),
        _suite("smoke", "cpu", 75, folder, small=small),
    ]
    steps.append(_suite("sharing", "cuda", 55, folder, small=small))
    if small:
        return [replace(step, limit_seconds=step.limit_seconds * REHEARSALS) for step in steps]
    return [*steps, _training("bfloat16", folder)]


def _training(dtype: str, folder: Path) -> Step:
    """Return the step that trains ResNet-50 on one GPU, for comparison with published figures."""
    document = f"scaling-{dtype}-cuda.json"
    return Step(
        f"scaling-{dtype}-cuda",
        f"ResNet-50 training in {dtype} on one GPU",
        (
            *("-m", "batchmark_job", "run", "--suite", "scaling", "--batches", "128"),
            *("--steps", "200", "--max-seconds", "5"),
            *("--all-reduce-mib", "", "--dtype", dtype, "--device", "cuda"),
            *("--run-id", "gpu-check", "--target", "cuda", "--output", str(folder / document)),
        ),
        30,
        document,
    )


def _suite(name: str, device: str, seconds: int, folder: Path, *, small: bool) -> Step:
    document = f"{name}-{device}.json"
    few: tuple[str, ...] = ("--workload", "matmul")
    if name == "sharing":
        few = ("--suite", name, "--task", "matmul", "--modes", "exclusive", "--replicas", "1")
    few += ("--axis", "size=64", "--threads", "1", "--max-seconds", "0.1", "--no-ceilings")
    what = few if small else ("--suite", name, *MORE.get(name, ()))
    return Step(
        f"{name}-{device}",
        f"suite {name} on {device}",
        (
            *("-m", "batchmark_job", "run", *what, "--device", device),
            *("--run-id", "gpu-check", "--target", device, "--output", str(folder / document)),
        ),
        seconds,
        document,
    )


class State:
    """The device and the finished steps, kept in a file.

    Raises:
        OtherDeviceError: the file describes a different device or different code.
    """

    def __init__(self, folder: Path, device: dict[str, Any]) -> None:
        self._path = folder / STATE
        self.device = device
        self.done: dict[str, dict[str, Any]] = {}
        if self._path.exists():
            before = json.loads(self._path.read_text())
            if before["device"] != device:
                raise OtherDeviceError(
                    f"{folder} already contains a check of {before['device']['gpu']} with job "
                    f"code {before['device']['code']}, but this machine has {device['gpu']} and "
                    f"job code {device['code']}: choose another folder with TO=..."
                )
            self.done = before["done"]

    def keep(self, step: Step, outcome: dict[str, Any]) -> None:
        self.done[step.name] = outcome
        part = self._path.with_suffix(".part")
        part.write_text(json.dumps({"device": self.device, "done": self.done}, indent=1) + "\n")
        part.replace(self._path)


def run(steps: list[Step], folder: Path, state: State) -> Iterator[Step]:
    """Run the unfinished steps, and yield every step once it is finished."""
    for step in steps:
        if step.name in state.done:
            print(f"{step.name}: already done", flush=True)
        else:
            print(f"{step.name}: {step.what} (at most {step.limit_seconds} s)", flush=True)
            state.keep(step, _run_one(step, folder))
        yield step


def log_of(step: Step, folder: Path) -> Path:
    return folder / f"{step.name}.log"


def _run_one(step: Step, folder: Path) -> dict[str, Any]:
    started = time.monotonic()
    with log_of(step, folder).open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, *step.command],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            late = _wait(process, step.limit_seconds)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
    seconds = round(time.monotonic() - started, 1)
    return {"rc": process.returncode, "seconds": seconds, "late": late}


def _wait(process: subprocess.Popen[bytes], seconds: float) -> bool:
    """Wait for the process, and return whether it had to be interrupted.

    It is interrupted after `seconds`, so that it can still save its results, and killed
    GRACE_SECONDS later.
    """
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(GRACE_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        return True
    return False
