"""Checks the project on a GPU within eight minutes, and summarises the results.

It runs the tests that need CUDA, runs suites on the GPU and the CPU, and compares the speed of our
matrix products and filters with plain calls and a memory copy. It needs no network. If it is
interrupted, the next run starts with the first unfinished step. All results are written to one
folder, which can be kept as recorded data. Exits with 1 if a step failed, with 2 if a package is
missing or the folder contains a check of a different device or of different code, with 77 if there
is no CUDA device, and with 130 if it is interrupted.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from pathlib import Path

from benchmarks.gpu_check import packages

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build"
EXIT_REFUSED = 2
EXIT_SKIPPED = 77  # means skipped to automake and meson
EXIT_INTERRUPTED = 130
REHEARSAL = ROOT / "tests" / "stand_ins" / "cuda" / "rehearsal"
SIMULATED = "BATCHMARK_SIMULATED_GPU"


def main() -> int:
    parser = argparse.ArgumentParser(prog="gpu-check", description=__doc__)
    parser.add_argument(
        "--to", type=Path, default=BUILD / "gpu-check", help="folder to write all results to"
    )
    parser.add_argument(
        "--wheels",
        type=Path,
        default=BUILD / "gpu-wheels",
        help="folder with wheels for missing packages",
    )
    parser.add_argument(
        "--simulate",
        metavar="MODEL",
        help="rehearse with a few small rows on a simulated GPU (T4, A10G, A100, H200)",
    )
    asked = parser.parse_args()
    os.chdir(ROOT)
    packages.import_from(ROOT, ROOT / "job_container")
    try:
        packages.bring(asked.wheels, BUILD / "gpu-check-packages")
    except packages.MissingError as error:
        print(f"gpu-check: {error}", file=sys.stderr)
        return EXIT_REFUSED
    if asked.simulate:
        _simulate(asked.simulate)
    try:
        return check(asked.to.resolve(), small=bool(asked.simulate))
    except KeyboardInterrupt:
        print("gpu-check: interrupted; run it again to continue", file=sys.stderr)
        return EXIT_INTERRUPTED


def check(folder: Path, *, small: bool) -> int:
    from benchmarks.gpu_check import device, summary
    from benchmarks.gpu_check.steps import OtherDeviceError, State, run, steps_of

    if reason := device.obstacle():
        print(f"gpu-check: skipped, {reason}", file=sys.stderr)
        return EXIT_SKIPPED
    folder.mkdir(parents=True, exist_ok=True)
    try:
        state = State(folder, device.describe())
    except OtherDeviceError as error:
        print(f"gpu-check: {error}", file=sys.stderr)
        return EXIT_REFUSED
    done = []
    text = ""
    for step in run(steps_of(folder, small=small), folder, state):
        done.append(step)
        text = summary.write(folder, state, done)  # so that results so far survive a kill
    print(f"\n{text}\nall results: {folder}")
    failed = [step.name for step in done if state.done[step.name]["rc"]]
    return 1 if failed else 0


def _simulate(model: str) -> None:
    """Make this process and its children see a simulated GPU."""
    os.environ[SIMULATED] = model
    packages.import_from(REHEARSAL)
    sys.modules.pop("sitecustomize", None)
    importlib.import_module("sitecustomize")


if __name__ == "__main__":
    sys.exit(main())
