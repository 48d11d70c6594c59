"""Builds .venv from the lock files. It runs on the system's Python: standard library only."""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
STAMP = VENV / ".installed"
LOCKS = (ROOT / "requirements.txt", ROOT / "requirements-dev.txt")
PYTHONS = ((3, 11), (3, 13))
PROGRESS_SECONDS = 30
INTERRUPTED = 130


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--torch",
        choices=("auto", "cpu", "cuda"),
        default="auto",
        help="which build of torch; auto takes the CPU build if there is no NVIDIA GPU",
    )
    choice = parser.parse_args().torch
    if not PYTHONS[0] <= sys.version_info[:2] <= PYTHONS[1]:
        seen = ".".join(map(str, sys.version_info[:3]))
        return fail(f"Python 3.11 to 3.13 is needed, {sys.executable} is {seen}: set PYTHON=…")
    build = "cuda" if choice == "cuda" or (choice == "auto" and has_nvidia_gpu()) else "cpu"
    if STAMP.exists() and STAMP.read_text() == fingerprint(build):
        return 0
    ROOT.joinpath("build").mkdir(exist_ok=True)
    with ROOT.joinpath("build", "install.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return fail("another install is running in this folder: wait for it")
        try:
            return install(build)
        except KeyboardInterrupt:
            fail("interrupted; the next `make install` continues from here")
            return INTERRUPTED


def install(build: str) -> int:
    started = time.monotonic()
    say("installing into .venv: about 0.5 GB to download, 1.9 GB on disk, 3 to 5 minutes")
    python = str(VENV / "bin" / "python")
    try:
        run([sys.executable, "-m", "venv", str(VENV)])
        say("torch first, because its CUDA build is 3 GB larger than its CPU build")
        install_torch(python, build)
        say("everything else: Airflow, its Amazon provider, moto, development tools")
        run([*pip(python), *(part for lock in LOCKS for part in ("-r", str(lock)))])
    except subprocess.CalledProcessError as error:
        return fail(f"`{' '.join(error.cmd[:6])} …` ended with exit code {error.returncode}")
    STAMP.write_text(fingerprint(build))
    say(f"installed in {time.monotonic() - started:.0f} s")
    return 0


def install_torch(python: str, build: str) -> None:
    """Install the CPU build if a source has one; PyPI's wheel for Linux is the CUDA build."""
    pinned = torch_pin()
    if STAMP.exists() and not STAMP.read_text().startswith(f"{build} "):
        # To pip both builds are the same version.
        run([python, "-m", "pip", "uninstall", "-qq", "--yes", "torch"])
    STAMP.unlink(missing_ok=True)
    if sys.platform == "linux" and build == "cpu":
        if succeeds([*pip(python), f"{pinned}+cpu"]):
            return
        uv = next(line for line in LOCKS[1].read_text().split() if line.startswith("uv=="))
        run([*pip(python), uv])
        by_uv = [python, "-m", "uv", "pip", "install", "--python", python, "--torch-backend", "cpu"]
        if succeeds([*by_uv, pinned]):
            return
        say("no source here has a CPU build of torch; taking the CUDA build, about 3 GB more")
    run([*pip(python), pinned])


def torch_pin() -> str:
    pin = re.search(r"^torch==[^\s+]+", LOCKS[0].read_text(), re.MULTILINE)
    if pin is None:
        raise SystemExit(fail(f"{LOCKS[0].name} pins no torch"))
    return pin.group()


def has_nvidia_gpu() -> bool:
    nvidia_smi = shutil.which("nvidia-smi")
    return nvidia_smi is not None and succeeds([nvidia_smi, "--list-gpus"])


def run(command: list[str]) -> None:
    """Run a command to its end, and say every half minute that it still runs.

    Raises:
        subprocess.CalledProcessError: it failed.
    """
    if code := follow(command):
        raise subprocess.CalledProcessError(code, command)


def succeeds(command: list[str]) -> bool:
    return follow(command, subprocess.DEVNULL) == 0


def follow(command: list[str], output: int | None = None) -> int:
    started = time.monotonic()
    with subprocess.Popen(command, stdout=output, stderr=output) as process:
        while True:
            try:
                process.wait(PROGRESS_SECONDS)
                break
            except subprocess.TimeoutExpired:
                say(f"still running after {time.monotonic() - started:.0f} s")
    return int(process.returncode)


def pip(python: str) -> list[str]:
    return [python, "-m", "pip", "install", "-qq", "--disable-pip-version-check"]


def fingerprint(build: str) -> str:
    """Changes with torch's build, the lock files, the interpreter and the place of .venv."""
    parts = [lock.read_bytes() for lock in LOCKS]
    parts.append(f"{sys.version} {VENV} {os.uname().machine}".encode())
    return f"{build} {hashlib.sha256(b'0'.join(parts)).hexdigest()}"


def say(text: str) -> None:
    print(f"install: {text}", flush=True)


def fail(text: str) -> int:
    print(f"install: {text}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
