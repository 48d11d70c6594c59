"""Builds .venv and other environments from their lock files, with the system's Python.

Uses only the standard library.
"""

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
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
STAMP = VENV / ".installed"
LOCKS = (ROOT / "requirements.txt", ROOT / "requirements-dev.txt")
# the locks without packages that are installed separately
LEFT = ROOT / "build" / "requirements.txt"
# Triton is kept: tests interpret and compile its kernels without a GPU.
CUDA_BUILD = r"torch|cuda-.+|nvidia-(?!ml-py).+"
PYTHONS = ((3, 11), (3, 13))
PROGRESS_SECONDS = 30
INTERRUPTED = 130


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--torch",
        choices=("auto", "cpu", "cuda"),
        default="auto",
        help="torch build to install; auto selects the CPU build if there is no NVIDIA GPU",
    )
    parser.add_argument(
        "--into", type=Path, help="folder for a separate environment; requires uv from .venv"
    )
    parser.add_argument("--lock", type=Path, help="lock file for the --into environment")
    asked = parser.parse_args()
    if asked.into:
        return install_apart(asked.into, asked.lock)
    choice = asked.torch
    if not PYTHONS[0] <= sys.version_info[:2] <= PYTHONS[1]:
        seen = ".".join(map(str, sys.version_info[:3]))
        return fail(
            f"Python 3.11 to 3.13 is required, but {sys.executable} is Python {seen}: choose "
            "another with PYTHON=…"
        )
    build = "cuda" if choice == "cuda" or (choice == "auto" and has_nvidia_gpu()) else "cpu"
    if STAMP.exists() and STAMP.read_text() == fingerprint(build):
        return 0
    ROOT.joinpath("build").mkdir(exist_ok=True)
    with ROOT.joinpath("build", "install.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return fail("another install is running in this folder: wait for it to finish")
        try:
            return install(build)
        except KeyboardInterrupt:
            fail("interrupted; run `make install` again to continue")
            return INTERRUPTED


def install(build: str) -> int:
    started = time.monotonic()
    say("installing into .venv: about 0.7 GB to download, 3.4 GB on disk, 1 to 4 minutes")
    python = str(VENV / "bin" / "python")
    try:
        run([sys.executable, "-m", "venv", str(VENV)])
        forget_the_other_build(python, build)
        run([*pip(python), "-r", str(left_of(LOCKS[1:], lambda name: name == "uv"))])
        by_itself = sys.platform == "linux" and build == "cpu" and has_cpu_torch(python)
        say("installing everything else: Airflow, its Amazon provider, moto and development tools")
        install_locked(
            python,
            left_of(LOCKS, lambda name: not (by_itself and re.fullmatch(CUDA_BUILD, name))),
        )
        # For the commands `batchmark` and `batchmark-job`; setuptools is in the lock.
        run([*pip(python), "--no-deps", "--no-build-isolation", "--editable", str(ROOT)])
    except subprocess.CalledProcessError as error:
        return failed(error)
    STAMP.write_text(fingerprint(build))
    say(f"installed in {time.monotonic() - started:.0f} s")
    return 0


def left_of(locks: Iterable[Path], wanted: Callable[[str], bool]) -> Path:
    """Write a lock file with only the wanted packages and their hashes, and return its path."""
    LEFT.write_text("".join(block for name, block in pins(*locks) if wanted(name)))
    return LEFT


def pins(*locks: Path) -> Iterator[tuple[str, str]]:
    """Yield each package in the lock files, with the lines that pin it."""
    for lock in locks:
        for block in re.split(r"^(?=\w)", lock.read_text(), flags=re.MULTILINE):
            if found := re.match(r"[\w.-]+(?===)", block):
                yield found.group(), block


def install_apart(folder: Path, lock: Path) -> int:
    """Build a separate environment for a tool that pins older versions than .venv has."""
    try:
        run([sys.executable, "-m", "venv", "--clear", str(folder)])
        install_locked(str(folder / "bin" / "python"), lock)
    except subprocess.CalledProcessError as error:
        return failed(error)
    return 0


def install_locked(python: str, lock: Path) -> None:
    """Install a lock file with uv, or with slower pip if another index is set or uv fails."""
    if not has_own_index(python):
        if succeeds([*uv(python), "--require-hashes", "--compile-bytecode", "-r", str(lock)]):
            return
        say("uv failed; using pip instead, which takes 2 to 3 minutes")
    run([*pip(python), "--require-hashes", "-r", str(lock)])


def has_own_index(python: str) -> bool:
    """Return whether pip's configuration files or variables replace or disable PyPI."""
    told = subprocess.run(
        [python, "-m", "pip", "config", "list"], capture_output=True, text=True, check=True
    ).stdout
    return re.search(r"\.(index-url|no-index)=", told) is not None


def forget_the_other_build(python: str, build: str) -> None:
    """Uninstall torch if its build isn't `build`, as pip wouldn't replace it; delete the stamp."""
    if STAMP.exists() and not STAMP.read_text().startswith(f"{build} "):
        run([python, "-m", "pip", "uninstall", "-qq", "--yes", "torch"])
    STAMP.unlink(missing_ok=True)


def has_cpu_torch(python: str) -> bool:
    """Install torch's CPU build if an index has one; PyPI's wheel for Linux is the CUDA build.

    Returns whether that worked. The lock file has PyPI's hashes, so only torch's version is pinned.
    """
    say("installing torch first, as its CUDA build is 3 GB larger than its CPU build")
    pinned = next(block.split()[0] for name, block in pins(LOCKS[0]) if name == "torch")
    if succeeds([*pip(python), "--no-deps", f"{pinned}+cpu"]):
        return True
    if succeeds([*uv(python), "--no-deps", "--torch-backend", "cpu", pinned]):
        return True
    say(
        "none of the package indexes has a CPU build of torch; using the CUDA build, which is "
        "about 3 GB larger"
    )
    return False


def has_nvidia_gpu() -> bool:
    nvidia_smi = shutil.which("nvidia-smi")
    return nvidia_smi is not None and succeeds([nvidia_smi, "--list-gpus"])


def run(command: list[str]) -> None:
    """Run a command to completion, printing a progress line every 30 seconds.

    Raises:
        subprocess.CalledProcessError: the command failed.
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


def uv(python: str) -> list[str]:
    return [str(VENV / "bin" / "uv"), "pip", "install", "--quiet", "--python", python]


def fingerprint(build: str) -> str:
    """Return an identifier for torch's build, the lock files, the interpreter and .venv's path."""
    parts = [lock.read_bytes() for lock in LOCKS]
    parts.append(f"{sys.version} {VENV} {os.uname().machine} with commands".encode())
    return f"{build} {hashlib.sha256(b'0'.join(parts)).hexdigest()}"


def say(text: str) -> None:
    print(f"install: {text}", flush=True)


def failed(error: subprocess.CalledProcessError) -> int:
    return fail(f"`{' '.join(error.cmd[:6])} …` failed with exit code {error.returncode}")


def fail(text: str) -> int:
    print(f"install: {text}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
