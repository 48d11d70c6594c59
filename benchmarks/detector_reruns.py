"""Simulates the detector with its fresh jobs, run by run as a schedule would, on synthetic series.

The series come from a harness that judges detectors and is not part of this repository: a file with
`synth_one`, which makes one, and `synth_sets(seed, reps)`, which asks it for all. Each is made with
four times its runs: every fourth value is a scheduled run, the three behind it are its fresh jobs,
on the same level and with the same noise. What decides is the product's own code, with each series
the only one of its suite and target, and nothing known of the noise inside a job.

Only alerts of slower levels count. One is right if it is the first of a step whose first run it
names, give or take MARGIN runs; all others are false. Ends with 1 if a goal is missed.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import platform
import sys
import time
from collections.abc import Mapping
from multiprocessing import Pool
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from batchmark import suspects
from batchmark.change_records import SeriesKey
from batchmark_job.result import Device
from benchmarks.judged_alerts import HEADER, Figures, judged
from benchmarks.simulated_schedule import Series, play

EACH = 1 + suspects.MOST_RERUNS  # jobs that a run may need
RUNS = 120  # of a series, unless the harness says another number
PROCESSES, AT_A_TIME = 2, 24
TUNABLE = {
    name: type(value)
    for name, value in vars(suspects).items()
    if type(value) in {int, float} and not name.endswith("_RERUNS")
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("harness", nargs="?", default="", help="its file")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3], help="default: 1 2 3")
    parser.add_argument("--reps", type=int, default=6, help="series of a cell (default: 6)")
    parser.add_argument("--cell", default="", help="only cells with this in their name")
    parser.add_argument(
        "--set", nargs="+", default=[], metavar="NAME=VALUE", help="constants of batchmark.suspects"
    )
    arguments = parser.parse_args()
    try:
        constants = dict(map(constant, arguments.set))
        harness = load(arguments.harness)
    except ValueError as error:
        print(error, file=sys.stderr)
        return 1
    began = time.perf_counter()
    by_seed = {}
    with Pool(PROCESSES, prepare, (constants,)) as pool:
        for seed in arguments.seeds:
            series = [
                one for one in made(harness, seed, arguments.reps) if arguments.cell in one.cell
            ]
            count = -(-len(series) // AT_A_TIME)
            parts = [series[place::count] for place in range(count)]
            by_seed[seed] = [judged(one) for own in pool.imap(play, parts) for one in own]
    everything = [one for own in by_seed.values() for one in own]
    if not everything:
        print(f"no cell has {arguments.cell!r} in its name", file=sys.stderr)
        return 1
    print(HEADER)
    for cell in dict.fromkeys(one.cell for one in series):
        print(Figures.of(one for one in everything if one.outcome.series.cell == cell).row(cell))
    for seed, own in by_seed.items():
        print(Figures.of(own).row(f"seed {seed}"))
    figures = Figures.of(everything)
    print(figures.row("all"))
    print(
        f"{len(everything)} series in {time.perf_counter() - began:.0f} s, {arguments.reps} "
        f"repetitions, {' '.join(arguments.set) or 'constants as they are'}; "
        f"{platform.platform()}, {os.cpu_count()} CPUs, Python {platform.python_version()}"
    )
    for missed in figures.missed():
        print(f"MISSED: {missed}")
    return 1 if figures.missed() else 0


def constant(text: str) -> tuple[str, float]:
    """A name and its value.

    Raises:
        ValueError: there is no such number.
    """
    name, _, value = text.partition("=")
    if name not in TUNABLE:
        raise ValueError(f"--set {text}: batchmark.suspects has only {', '.join(TUNABLE)}")
    return name, TUNABLE[name](value)


def load(path: str) -> ModuleType:
    """The harness.

    Raises:
        ValueError: it is not there, or not one.
    """
    spec = importlib.util.spec_from_file_location("harness", path) if path else None
    if spec is None or spec.loader is None or not Path(path).is_file():
        raise ValueError(f"HARNESS={path}: give the harness's Python file")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    if missing := {"synth_one", "synth_sets"} - set(vars(module)):
        raise ValueError(f"HARNESS={path} has no {' and no '.join(sorted(missing))}")
    return module


def prepare(constants: Mapping[str, float]) -> None:
    threadpool_limits(1)
    for name, value in constants.items():
        setattr(suspects, name, value)


def made(harness: Any, seed: int, reps: int) -> list[Series]:
    """The harness's own series, each with the fresh jobs of its runs."""
    synth_one = harness.synth_one

    def with_jobs(
        rng: np.random.Generator, *, n: int = RUNS, at: int | None = None, **options: Any
    ) -> dict[str, Any]:
        step, recover = options.get("step"), options.get("recover")
        if step is not None:
            at = int(rng.integers(n // 3, n - 25)) if at is None else at
            options["at"] = EACH * at
        if recover:
            options["recover"] = EACH * recover
        return {**synth_one(rng, n=EACH * n, **options), "cv": options["cv"]}

    harness.synth_one = with_jobs
    try:
        return [series_of(one, number) for number, one in enumerate(harness.synth_sets(seed, reps))]
    finally:
        harness.synth_one = synth_one


def series_of(one: Mapping[str, Any], number: int) -> Series:
    medians = [np.nan if own is None else float(np.median(own)) for own in one["samples"]]
    key = SeriesKey(
        suite="simulated",
        target=f"target-{number}",
        actual_device=Device.CPU,
        instance_type=None,
        cpu_model="simulated",
        gpu_model=None,
        workload="simulated",
        parameters="{}",
        dtype="float64",
    )
    return Series(
        cell=f"{one['grp']} at {one['cv']:.1%}".replace(".0%", "%"),
        step=one["mag"],
        key=key,
        seconds=np.reshape(medians, (-1, EACH)),
        rises=[place // EACH for place in one["ups"]],
    )


if __name__ == "__main__":
    sys.exit(main())
