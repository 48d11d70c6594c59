"""Evaluates change detection on synthetic histories, without fresh jobs.

One search without hindsight over a whole history finds all alerts that scheduled runs would have
raised, and which run raised each of them. Histories with steps come from the harness described in
`reruns`. Histories without steps are generated here, each with one kind of noise.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from statistics import median
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from batchmark.changes.change_points import search
from batchmark.changes.false_alerts import evidence_of
from batchmark.changes.steps import LevelChange, still_shown
from benchmarks.detector.judged_alerts import LATEST, MARGIN, share
from benchmarks.detector.reruns import RUNS, load
from benchmarks.detector.speed import LOG_SDS
from benchmarks.synthetic import RUNS_A_MONTH, this_machine

Array = NDArray[np.float64]
Noise = Callable[[np.random.Generator, Array], Array]
SPEEDS = np.log(1.08)  # days between two runs
FLEETS = (100, 1_000)  # number of time series, among which each needs more evidence


class History(NamedTuple):
    """A synthetic history: log run times, and the runs at which the true level rises or falls."""

    kind: str
    logs: Array
    rises: Sequence[int]
    falls: Sequence[int]


def with_memory(correlation: float) -> Noise:
    """Return a function that gives noise first-order autocorrelation but keeps its variance."""

    def noise(_: np.random.Generator, normal: Array) -> Array:
        found = normal.copy()
        for run in range(1, found.size):
            rest = np.sqrt(1 - correlation**2)
            found[run] = correlation * found[run - 1] + rest * normal[run]
        return found

    return noise


def two_speeds(sticky: bool) -> Noise:
    """Return noise that slows three in ten runs: at random or, if `sticky`, about four in a row."""

    def noise(rng: np.random.Generator, normal: Array) -> Array:
        slow = rng.random(normal.size) < 0.3
        if sticky:
            for run in range(1, slow.size):
                leaves = rng.random() < (0.23 if slow[run - 1] else 0.1)
                slow[run] = slow[run - 1] != leaves
        return 0.015 * normal + SPEEDS * slow

    return noise


def scaled(noise: Noise) -> Noise:
    return lambda rng, normal: rng.choice(LOG_SDS) * noise(rng, normal)


NOISES: dict[str, Noise] = {
    "independent": scaled(lambda _, normal: normal),
    "Student's t, 3 degrees": scaled(lambda rng, normal: rng.standard_t(3, normal.size) / 3**0.5),
    "skewed (exponential)": scaled(lambda rng, normal: rng.exponential(1, normal.size) - 1),
    "two speeds": two_speeds(sticky=False),
    "correlation 0.3": scaled(with_memory(0.3)),
    "correlation 0.6": scaled(with_memory(0.6)),
    "two speeds that stick": two_speeds(sticky=True),
    "random walk, 0.5 % a run": lambda rng, normal: (
        0.02 * normal + 0.005 * np.cumsum(rng.standard_normal(normal.size))
    ),
    "drift, 0.1 % a run": lambda _, normal: 0.02 * normal + 0.001 * np.arange(normal.size),
}


def histories_without(seed: int, count: int) -> list[History]:
    """Generate `count` histories without steps for each kind of noise."""
    rng = np.random.default_rng(seed)
    return [
        History(kind, noise(rng, rng.standard_normal(RUNS)), (), ())
        for kind, noise in NOISES.items()
        for _ in range(count)
    ]


def histories_of(harness: Any, seed: int, reps: int) -> list[History]:
    """Generate histories with the harness, leaving out missing runs."""
    found = []
    for made in harness.synth_sets(seed, reps):
        there = [place for place, samples in enumerate(made["samples"]) if samples is not None]
        logs = np.log([median(made["samples"][place]) for place in there])
        first_from = {run: int(np.searchsorted(there, run)) for run in made["ups"] + made["downs"]}
        rises, falls = ([first_from[run] for run in made[way]] for way in ("ups", "downs"))
        found.append(History(made["grp"], logs, rises, falls))
    return found


class Judged(NamedTuple):
    runs: int
    delays: Sequence[int | None]  # by rise: runs on the new level until its alert
    false: int  # alerts of slower levels without a step
    right: int  # changes of both directions in the right place
    found: int
    true: int


def judge(
    history: History, alerts: Sequence[LevelChange], changes: Sequence[LevelChange]
) -> Judged:
    """Match each rise with the first alert near it; count all other slowdown alerts as false.

    `alerts` are those that scheduled runs would have sent; `changes` are those that remain in
    hindsight.
    """
    rising = [one for one in alerts if rises(history.logs, one)]
    delays: list[int | None] = []
    for rise in history.rises:
        near = [
            one
            for one in rising
            if abs(one.index - rise) <= MARGIN and 0 < one.shown_after - rise <= LATEST
        ]
        delays.append(near[0].shown_after - rise if near else None)
        rising = [one for one in rising if not near or one is not near[0]]
    true = sorted([*history.rises, *history.falls])
    right = sum(any(abs(one.index - each) <= MARGIN for one in changes) for each in true)
    return Judged(history.logs.size, delays, len(rising), right, len(changes), len(true))


def judged(made: Sequence[Sequence[History]], series: int) -> Iterator[tuple[History, Judged]]:
    """Judge each seed's histories as though `series` series were being watched."""
    evidence = evidence_of(series * RUNS_A_MONTH, 1.0)
    for of_seed in made:
        found = search(
            [history.logs for history in of_seed],
            evidence=[evidence] * len(of_seed),
            hindsight=False,
        )
        for history, alerts in zip(of_seed, found, strict=True):
            yield history, judge(history, alerts, still_shown(history.logs, alerts))


def rises(logs: Array, change: LevelChange) -> bool:
    before = logs[max(0, change.index - 10) : change.index]
    return bool(np.median(logs[change.index : change.shown_after]) > np.median(before))


def row(name: str, results: Sequence[Judged]) -> str:
    runs = sum(one.runs for one in results)
    delays = [delay for one in results for delay in one.delays]
    false = sum(one.false for one in results)
    found, true = sum(one.found for one in results), sum(one.true for one in results)
    shares = (
        share(delays, LATEST),
        share(delays, 5),
        2 * sum(one.right for one in results) / (found + true) if delays else None,
    )
    recall, soon, f1 = ("-" if each is None else f"{each:.3f}" for each in shares)
    a_series = found / len(results)
    return (
        f"{name:<26}{runs:8,}{recall:>8}{soon:>10}{1000 * false / runs:8.2f}{f1:>7}{a_series:9.2f}"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("harness", help="path to the harness's Python file")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3, 4, 5])
    parser.add_argument(
        "--reps", type=int, default=6, help="number of series per cell (default: 6)"
    )
    parser.add_argument(
        "--count", type=int, default=60, help="number of series for each kind of noise and seed"
    )
    arguments = parser.parse_args()
    threadpool_limits(1)
    try:
        harness = load(arguments.harness)
    except ValueError as error:
        print(error, file=sys.stderr)
        return 1
    began = time.process_time()
    print(f"{'':<26}{'runs':>8}{'recall':>8}{'within 5':>10}{'false':>8}{'F1':>7}{'found':>9}")
    stepped = [histories_of(harness, seed, arguments.reps) for seed in arguments.seeds]
    level = [histories_without(seed, arguments.count) for seed in arguments.seeds]
    for title, made in (("all with steps", stepped), ("all without", level)):
        alone = list(judged(made, series=1))
        by_kind: dict[str, list[Judged]] = defaultdict(list)
        for history, result in alone:
            by_kind[history.kind].append(result)
        for kind, results in by_kind.items():
            print(row(kind, results))
        print(row(title, [result for _, result in alone]))
        for series in FLEETS:
            among = f", of {series:,} series"
            print(row(title + among, [result for _, result in judged(made, series)]))
    print(
        "false: false slowdown alerts per 1,000 runs; found: changes found per series (in "
        f"hindsight, like F1)\n{time.process_time() - began:.0f} s of CPU time; {this_machine()}"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
