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
from collections.abc import Iterable, Mapping, Sequence
from multiprocessing import Pool
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
from threadpoolctl import threadpool_limits

from batchmark import suspects
from batchmark.change_records import SeriesKey
from batchmark_job.result import Device
from benchmarks.simulated_schedule import Outcome, Series, play

EACH = 1 + suspects.MOST_RERUNS  # jobs that a run may need
RUNS = 120  # of a series, unless the harness says another number
MARGIN, LATEST = 5, 40  # runs; as the harness judges by itself
FULLY_EXPECTED = 0.1  # smaller steps need not show in their first run
PROCESSES, AT_A_TIME = 2, 24
MOST_FALSE, LEAST_AT_ONCE, MOST_EXTRA = 0.2, 0.9, 0.06
HEADER = (
    "cell                   runs  suspects  extra jobs  false (run, level)  "
    "steps   found  within 5  same run  from 10 %"
)
TUNABLE = {
    name: type(value)
    for name, value in vars(suspects).items()
    if type(value) in {int, float} and name != "MOST_RERUNS"
}


class Judged(NamedTuple):
    """An outcome held against the series' true steps.

    Attributes:
        delays: of each step, runs on the new level until it was told; None if it never was.
        false: of each false alert, the kind of its suspect.
    """

    outcome: Outcome
    delays: Sequence[int | None]
    false: Sequence[str]


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


def judged(outcome: Outcome) -> Judged:
    """Each step has the first alert near it, and each alert one step at most."""
    place = {int(run): number for number, run in enumerate(outcome.series.measured)}
    alerts = [(place[first], place[at] + 1, kind) for first, at, kind in outcome.alerts]
    delays: list[int | None] = []
    for rise in (place[run] for run in outcome.series.rises):
        near = [
            one for one in alerts if abs(one[0] - rise) <= MARGIN and 0 < one[1] - rise <= LATEST
        ]
        first = min(near, key=lambda one: one[1], default=None)
        delays.append(first[1] - rise if first else None)
        if first:
            alerts.remove(first)
    return Judged(outcome, delays, [kind for _, _, kind in alerts])


class Figures(NamedTuple):
    """What some series come to."""

    runs: int
    suspects: int
    jobs: int
    false: Sequence[str]
    delays: Sequence[int | None]
    delays_of_large: Sequence[int | None]

    @classmethod
    def of(cls, some: Iterable[Judged]) -> Figures:
        own = list(some)
        return cls(
            runs=sum(one.outcome.series.measured.size for one in own),
            suspects=sum(one.outcome.suspects for one in own),
            jobs=sum(one.outcome.jobs for one in own),
            false=[kind for one in own for kind in one.false],
            delays=[delay for one in own for delay in one.delays],
            delays_of_large=[
                delay
                for one in own
                if (one.outcome.series.step or 0) >= FULLY_EXPECTED
                for delay in one.delays
            ],
        )

    @property
    def false_alerts(self) -> float:
        """Per 1,000 runs."""
        return 1000 * len(self.false) / self.runs

    @property
    def extra(self) -> float:
        return self.jobs / self.runs

    @property
    def at_once(self) -> float | None:
        return share(self.delays_of_large, 1)

    def row(self, name: str) -> str:
        kinds = f"{self.false.count('run')}, {self.false.count('level')}"
        return (
            f"{name:<21} {self.runs:6,} {self.suspects:9,} {self.extra:11.1%} "
            f"{self.false_alerts:6.2f} {f'({kinds})':<12}{len(self.delays):5} "
            f"{text(share(self.delays, LATEST)):>7} {text(share(self.delays, 5)):>9} "
            f"{text(share(self.delays, 1)):>9} {text(self.at_once):>10}"
        )

    def missed(self) -> list[str]:
        found = []
        if self.false_alerts > MOST_FALSE:
            found.append(f"{self.false_alerts:.2f} false alerts per 1,000 runs, not {MOST_FALSE}")
        if self.at_once is not None and self.at_once < LEAST_AT_ONCE:
            found.append(
                f"{self.at_once:.1%} of steps of {FULLY_EXPECTED:.0%} and more are told in the "
                f"same run, not {LEAST_AT_ONCE:.0%}"
            )
        if self.extra > MOST_EXTRA:
            found.append(f"{self.extra:.1%} extra jobs, not {MOST_EXTRA:.0%}")
        return found


def share(delays: Sequence[int | None], most: int) -> float | None:
    """Of steps that were told within so many runs; None without steps."""
    if not delays:
        return None
    return sum(delay is not None and delay <= most for delay in delays) / len(delays)


def text(value: float | None) -> str:
    return "-" if value is None else f"{value:.1%}"


if __name__ == "__main__":
    sys.exit(main())
