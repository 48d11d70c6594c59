"""Simulates the detector and its fresh jobs on synthetic series, run by run, as on a schedule.

The series come from a harness for judging detectors, which is not part of this repository: a Python
file with `synth_one`, which makes one series, and `synth_sets(seed, reps)`, which calls `synth_one`
`reps` times for each cell, a kind of series at one level of noise. A series gets four values per
run: one for the scheduled run, and three for its fresh jobs, at the same level and with the same
noise. The product's own code makes all decisions. Each series has a suite and target to itself, and
the noise within a job is unknown.

Only alerts about slowdowns count. An alert is correct if it is the first one for a step, comes
within LATEST runs and names the step's first run to within MARGIN runs; all others are false. Exits
with 1 if a goal is missed.
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import chain
from multiprocessing import Pool
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from batchmark.changes import change_points, evidence, false_alerts, suspects
from benchmarks.detector import simulated_schedule
from benchmarks.detector.judged_alerts import HEADER, Figures, Judged, judge
from benchmarks.detector.simulated_schedule import SyntheticSeries, play
from benchmarks.synthetic import series_key, this_machine

JOBS_PER_RUN = 1 + suspects.MOST_RERUNS  # the scheduled job and its fresh jobs
RUNS = 120  # per series, unless the harness sets another number
PROCESSES, SERIES_PER_TASK = 2, 24
# Modules, some of which import constants from those before.
TUNED = (evidence, false_alerts, change_points, suspects)
TUNABLE = {
    name: type(value)
    for module in TUNED
    for name, value in vars(module).items()
    if type(value) in {int, float} and not name.endswith("_RERUNS")
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("harness", nargs="?", default="", help="the harness's Python file")
    parser.add_argument(
        "--seeds", type=int, nargs="+", default=[1, 2, 3], help="random seeds (default: 1 2 3)"
    )
    parser.add_argument(
        "--reps", type=int, default=6, help="number of series per cell (default: 6)"
    )
    parser.add_argument(
        "--one-of", type=int, default=1, help="number of series watched together (default: 1)"
    )
    parser.add_argument(
        "--cell", default="", help="run only the cells whose names contain this text"
    )
    parser.add_argument(
        "--set",
        nargs="+",
        default=[],
        metavar="NAME=VALUE",
        help="constants to override in batchmark.changes.evidence, false_alerts, change_points "
        "and suspects",
    )
    arguments = parser.parse_args()
    try:
        constants = dict(map(constant, arguments.set))
        harness = load(arguments.harness)
    except ValueError as error:
        print(error, file=sys.stderr)
        return 1
    began = time.perf_counter()
    by_seed: dict[str, list[Judged]] = {}
    by_cell: dict[str, list[Judged]] = defaultdict(list)
    with Pool(PROCESSES, prepare, (constants, arguments.one_of)) as pool:
        for seed in arguments.seeds:
            every = make_series(harness, seed, arguments.reps)
            series = [each for each in every if arguments.cell in each.cell]
            by_seed[f"seed {seed}"] = judged(series, pool)
    everything = list(chain.from_iterable(by_seed.values()))
    if not everything:
        print(f"no cell name contains {arguments.cell!r}", file=sys.stderr)
        return 1
    for result in everything:
        by_cell[result.outcome.series.cell].append(result)
    print(HEADER)
    for name, results in (by_cell | by_seed | {"all": everything}).items():
        print(Figures.of(results).row(name))
    figures = Figures.of(everything)
    print(
        f"{len(everything)} series in {time.perf_counter() - began:.0f} s, {arguments.reps} "
        f"repetitions, {' '.join(arguments.set) or 'default constants'}; {this_machine()}"
    )
    for missed in figures.missed():
        print(f"TARGET MISSED: {missed}")
    return 1 if figures.missed() else 0


def judged(series: Sequence[SyntheticSeries], pool: Any) -> list[Judged]:
    """Simulate the series in the pool's processes; return their judged outcomes in order."""
    count = -(-len(series) // SERIES_PER_TASK)
    outcomes = dict(enumerate(pool.imap(play, (series[place::count] for place in range(count)))))
    return [judge(outcomes[place % count][place // count]) for place in range(len(series))]


def constant(text: str) -> tuple[str, float]:
    """Parse NAME=VALUE, which overrides a constant of the detector.

    Raises:
        ValueError: there is no such constant, or the value is not a number.
    """
    name, _, value = text.partition("=")
    if name not in TUNABLE:
        raise ValueError(f"--set {text}: unknown constant; known: {', '.join(TUNABLE)}")
    return name, TUNABLE[name](value)


def load(path: str) -> ModuleType:
    """Load the harness.

    Raises:
        ValueError: `path` is not a Python file, or the file lacks a required function.
    """
    spec = importlib.util.spec_from_file_location("harness", path) if path else None
    if spec is None or spec.loader is None or not Path(path).is_file():
        raise ValueError(
            f"HARNESS={path} is not a Python file: set it to the path of the harness's Python file"
        )
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    if missing := {"synth_one", "synth_sets"} - set(vars(module)):
        raise ValueError(f"HARNESS={path} does not define {' or '.join(sorted(missing))}")
    return module


def prepare(constants: Mapping[str, float], one_of: int) -> None:
    """Initialise a worker process in the pool."""
    threadpool_limits(1)
    simulated_schedule.ONE_OF = one_of
    for name, value in constants.items():
        for module in TUNED:
            if hasattr(module, name):
                setattr(module, name, value)


def make_series(harness: Any, seed: int, reps: int) -> list[SyntheticSeries]:
    """Generate series with the harness, including fresh jobs for each run."""
    synth_one = harness.synth_one

    def with_jobs(
        rng: np.random.Generator, *, n: int = RUNS, at: int | None = None, **options: Any
    ) -> dict[str, Any]:
        step, recover = options.get("step"), options.get("recover")
        if step is not None:
            at = int(rng.integers(n // 3, n - 25)) if at is None else at
            options["at"] = JOBS_PER_RUN * at
        if recover:
            options["recover"] = JOBS_PER_RUN * recover
        return {**synth_one(rng, n=JOBS_PER_RUN * n, **options), "cv": options["cv"]}

    harness.synth_one = with_jobs
    try:
        synthetic = harness.synth_sets(seed, reps)
        return [series_of(each, number) for number, each in enumerate(synthetic)]
    finally:
        harness.synth_one = synth_one


def series_of(synthetic: Mapping[str, Any], number: int) -> SyntheticSeries:
    medians = [
        np.nan if samples is None else float(np.median(samples)) for samples in synthetic["samples"]
    ]
    return SyntheticSeries(
        cell=f"{synthetic['grp']} at {synthetic['cv']:.1%}".replace(".0%", "%"),
        step=synthetic["mag"],
        key=series_key(target=f"target-{number}"),
        seconds=np.reshape(medians, (-1, JOBS_PER_RUN)),
        rises=[place // JOBS_PER_RUN for place in synthetic["ups"]],
    )


if __name__ == "__main__":
    sys.exit(main())
