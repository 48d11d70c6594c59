"""Compares the speed of our detector and apache-otava on the same 1,000 series of 200 runs.

The series are synthetic: log-normal noise of 1, 3 or 5 %, and a step in every second series. Three
analyses take turns on blocks of series: `detect_changes`, its `search` alone, and otava's
`compute_change_points` with its defaults, in a process in otava's own environment. Only the
analysis is timed, not imports or reading. A round covers all blocks; the figures are the median,
minimum and maximum over the rounds.

Exits with 1 unless otava takes longer than `detect_changes` in more than half of the rounds.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import NamedTuple

import numpy as np
import scipy
from numpy.typing import NDArray

from batchmark.changes.change_points import search
from batchmark.changes.detection import detect_changes
from benchmarks.synthetic import daily, series_key, this_machine

SERIES_PER_BLOCK = 100  # judgment: short turns, so that the machine's load hits all sides alike
LOG_SDS = (0.01, 0.03, 0.05)  # the noise in the simulation of docs/regressions.md
STEPS = (0.05, 0.1, 0.25)  # as there, but without its 3 %
SHORTEST_LEVEL = 30  # runs


class Timing(NamedTuple):
    seconds: float
    cpu_seconds: float  # CPU seconds of all threads, so more than `seconds` if they spin
    changes: int


Side = Callable[[slice], Timing]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "otava_python", help="Python interpreter of an environment that has apache-otava installed"
    )
    parser.add_argument("--series", type=int, default=1000)
    parser.add_argument("--runs", type=int, default=200, help="number of runs in each series")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    values = synthetic(arguments.series, arguments.runs, arguments.seed)
    rounds = time_sides(arguments.otava_python, values, arguments.rounds)
    print(
        f"{len(values):,} series of {arguments.runs} runs, seed {arguments.seed}, "
        f"{len(rounds)} rounds, alternating on blocks of {SERIES_PER_BLOCK}"
    )
    for side in rounds[0]:
        seconds = [timings[side].seconds for timings in rounds]
        changes = rounds[0][side].changes
        cpu = median(timings[side].cpu_seconds for timings in rounds)
        print(f"{side:<15} {spread(seconds)} s, {cpu:.2f} s of CPU time, {changes:,} changes found")
    ratios = [timings["otava"].seconds / timings["detect_changes"].seconds for timings in rounds]
    print(f"otava takes {spread(ratios)} times as long as detect_changes")
    print(
        f"{this_machine()}; numpy {np.__version__}, scipy {scipy.__version__}; otava version from "
        "requirements-otava.txt"
    )
    if median(ratios) <= 1:
        print("TARGET MISSED: detect_changes was not faster than otava")
        return 1
    return 0


def synthetic(series: int, runs: int, seed: int) -> NDArray[np.float64]:
    """Generate the series as an array of seconds, with shape (series, runs)."""
    rng = np.random.default_rng(seed)
    values = 10 ** rng.uniform(-3, 1, (series, 1)) * np.exp(
        rng.choice(LOG_SDS, (series, 1)) * rng.standard_normal((series, runs))
    )
    for stepped in values[::2]:
        stepped[rng.integers(SHORTEST_LEVEL, runs - SHORTEST_LEVEL) :] *= 1 + rng.choice(STEPS)
    return values


def time_sides(
    otava_python: str, values: NDArray[np.float64], rounds: int
) -> list[dict[str, Timing]]:
    """Time each side on all series; return each round's timings by side."""
    runs = np.arange(values.shape[1])
    histories = [
        daily(series_key(parameters=f'{{"number":{number}}}'), runs, row)
        for number, row in enumerate(values)
    ]
    logs = list(np.log(values))
    firsts = range(0, len(values), SERIES_PER_BLOCK)
    blocks = [slice(first, first + SERIES_PER_BLOCK) for first in firsts]
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "series.npz"
        np.savez(data, seconds=values)
        script = Path(__file__).with_name("otava_analysis.py")
        with subprocess.Popen(
            [otava_python, "-I", script, data],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as otava:
            sides: dict[str, Side] = {
                "detect_changes": lambda block: time_analysis(
                    lambda: len(detect_changes(histories[block]))
                ),
                "search alone": lambda block: time_analysis(
                    lambda: sum(map(len, search(logs[block])))
                ),
                "otava": lambda block: ask_otava(otava, block),
            }
            for side in sides.values():
                side(blocks[0])  # warm up: some work is done only in the first call
            return [run_round(sides, blocks) for _ in range(rounds)]


def run_round(sides: dict[str, Side], blocks: Sequence[slice]) -> dict[str, Timing]:
    parts = [{name: side(block) for name, side in sides.items()} for block in blocks]
    return {
        name: Timing(*map(sum, zip(*(part[name] for part in parts), strict=True))) for name in sides
    }


def time_analysis(analyse: Callable[[], int]) -> Timing:
    began, cpu_began = time.perf_counter(), time.process_time()
    changes = analyse()
    return Timing(time.perf_counter() - began, time.process_time() - cpu_began, changes)


def ask_otava(otava: subprocess.Popen[str], block: slice) -> Timing:
    assert otava.stdin  # noqa: S101
    assert otava.stdout  # noqa: S101
    print(block.start, block.stop, file=otava.stdin, flush=True)
    answer = otava.stdout.readline().split()
    if not answer:
        sys.exit("otava's process ended unexpectedly; see its output above")
    return Timing(float(answer[0]), float(answer[1]), int(answer[2]))


def spread(values: Sequence[float]) -> str:
    return f"{median(values):.2f} ({min(values):.2f} to {max(values):.2f})"


if __name__ == "__main__":
    sys.exit(main())
