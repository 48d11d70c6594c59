"""Tests the detector on real histories, both unmodified and in copies with inserted steps.

The detector is called as a schedule would call it: after every run, with all series of the suite up
to that run. Fresh jobs can't be replayed, so the results reflect the history alone.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import scipy
from numpy.random import Generator

from batchmark.changes.metric import Metric
from batchmark.changes.noise_model import MAD_TO_SD
from batchmark.changes.records import ChangePoint, Series, SeriesKey
from batchmark.changes.self_test.records import Alarms, Machine, Part, Source, Steps, SuiteTest
from batchmark.changes.self_test.replay import PlacedSeries, Replay
from batchmark.changes.shares import Rate
from batchmark_job.result.confidence import CONFIDENCE

SIZES = (0.03, 0.05, 0.10, 0.25)  # as in the simulation of docs/regressions.md
RUNS_BEFORE = 10  # without a change, before a step: more than the 7 that the search needs
WAITED = 10  # runs in which a step may be found, including its first
EARLY = 5  # as "within 5 runs" in docs/regressions.md
SAME_RUNS = 3  # by which points of the same change may differ, as in `detection`
SHARE_WITH_STEP = 0.02  # of a suite's series at a time: many steps at once are easier to find
ANCHORS = 8  # runs at which steps begin; few, so that steps share a replay
RUNS_BEFORE_ALARMS = 8  # of a history before its alarms count
MOST_RUNS_OF_ALARMS = 100  # the newest of an untouched history; each costs a call of the detector
FEWEST_FOR_NOISE = 5  # runs needed to estimate a series' noise
SYNTHETIC_RUNS = 40  # of a made-up history: room on both sides of a step

Detector = Callable[[Sequence[Series]], Sequence[ChangePoint]]


class Step(NamedTuple):
    """A slow-down to insert into a series, starting at one of its runs."""

    series: int  # its number in the replay
    first: int  # index of that run in the series
    place: int  # of that run among all runs
    size: float  # relative


def try_suite(
    suite: str, histories: Sequence[Series], detector: Detector, *, seed: int = 0, steps: int = 20
) -> SuiteTest:
    """Insert steps into a suite's histories of times and count how many the detector finds.

    Machines whose histories are too short get synthetic ones with the noise of their own series.
    `steps` is the number of steps for each size and machine, space permitting. `seed` determines
    where they are inserted.
    """
    rng = np.random.default_rng(seed)
    replay = Replay(histories)
    parts = []
    openings: list[tuple[int, int]] = []
    if replay.runs > RUNS_BEFORE_ALARMS:
        openings = list(_openings(replay, detector))
        parts.append(_part("history", replay, openings, detector, rng, steps))
    tested = {_machine(replay.series[number].key) for number, _ in openings}
    short = [one for one in replay.series if _machine(one.key) not in tested]
    notes = []
    made = [like for one in short if (like := _synthetic(one, rng))]
    if made:
        names = ", ".join(dict.fromkeys(str(_machine(one.key)) for one in made))
        notes.append(
            f"{names}: no stretch of {RUNS_BEFORE + WAITED} runs without a change, so steps were "
            f"inserted into synthetic histories of {SYNTHETIC_RUNS} runs with their series' own "
            "noise."
        )
        own = Replay(made)
        parts.append(_part("synthetic", own, list(_openings(own, detector)), detector, rng, steps))
    if unknown := len(short) - len(made):
        notes.append(
            f"{unknown} series left out: estimating noise requires at least {FEWEST_FOR_NOISE} "
            "runs."
        )
    return SuiteTest(suite=suite, parts=tuple(parts), notes=tuple(notes))


def _part(
    source: Source,
    replay: Replay,
    openings: Sequence[tuple[int, int]],
    detector: Detector,
    rng: Generator,
    count: int,
) -> Part:
    planned = _plan(replay, openings, rng, count)
    found: dict[Step, int | None] = {}
    for together in _rounds(planned, max(1, round(SHARE_WITH_STEP * len(replay.series)))):
        found |= _delays(replay, together, detector)
    delays: dict[tuple[Machine | None, float], list[int | None]] = defaultdict(list)
    for step, delay in found.items():
        delays[None, step.size].append(delay)
        delays[_machine(replay.series[step.series].key), step.size].append(delay)
    machines = dict.fromkeys(_machine(replay.series[step.series].key) for step in planned)
    return Part(
        source=source,
        series=len(replay.series),
        runs=replay.runs,
        steps=tuple(
            _steps(machine, size, delays[machine, size])
            for machine in (None, *machines)
            for size in SIZES
            if (machine, size) in delays
        ),
        alarms=_alarms(replay, detector),
    )


def _machine(key: SeriesKey) -> Machine:
    return Machine(target=key.target, device=key.actual_device)


def _slower(points: Iterable[ChangePoint]) -> Iterator[ChangePoint]:
    return (point for point in points if point.metric == Metric.TIME and point.worse)


def _openings(replay: Replay, detector: Detector) -> Iterator[tuple[int, int]]:
    """Yield places to start steps, far from any change, as series numbers and run indexes."""
    changes = defaultdict(set)
    for point in detector(replay.at(replay.runs, {})):
        number, first = replay.find(point)
        changes[number].add(first)
    for number, one in enumerate(replay.series):
        for start, end in pairwise((0, *sorted(changes[number] - {0}), len(one.places))):
            for first in range(start + RUNS_BEFORE, end - WAITED + 1):
                yield number, first


def _plan(
    replay: Replay, openings: Sequence[tuple[int, int]], rng: Generator, count: int
) -> list[Step]:
    """Plan steps of each size for each machine, at only a few runs so that they share replays."""
    places = np.unique([replay.series[number].places[first] for number, first in openings])
    anchors = set(rng.permutation(places)[:ANCHORS].tolist())
    by_machine: dict[Machine, list[tuple[int, int, int]]] = defaultdict(list)
    for number, first in openings:
        one = replay.series[number]
        by_machine[_machine(one.key)].append((number, first, one.places[first]))
    planned = []
    for possible in by_machine.values():
        chosen = [opening for opening in possible if opening[2] in anchors] or possible
        for size in SIZES:
            picked = (chosen[pick] for pick in rng.permutation(len(chosen))[:count])
            planned += [Step(number, first, place, size) for number, first, place in picked]
    return planned


def _rounds(planned: Iterable[Step], most: int) -> Iterator[list[Step]]:
    """Group steps that can share a replay: at the same run, in up to `most` different series."""
    waiting: dict[int, list[Step]] = defaultdict(list)
    for step in planned:
        waiting[step.place].append(step)
    for steps in waiting.values():
        while steps:
            together: dict[int, Step] = {}
            for step in steps:
                if len(together) < most:
                    together.setdefault(step.series, step)
            for step in together.values():
                steps.remove(step)
            yield list(together.values())


def _delays(replay: Replay, together: Sequence[Step], detector: Detector) -> dict[Step, int | None]:
    """Return how many runs it took to find each step in a round; None for missed steps."""
    put = {step.series: (step.first, 1 + step.size) for step in together}
    waiting = {step.series: step for step in together}
    delays: dict[Step, int | None] = dict.fromkeys(together)
    for place in range(together[0].place, replay.runs):
        seen = {
            number: len(replay.series[number].until(place).run_ids) - step.first
            for number, step in waiting.items()
        }
        waiting = {number: step for number, step in waiting.items() if seen[number] <= WAITED}
        if not waiting:
            break
        for point in _slower(detector(replay.at(place, put))):
            number, first = replay.find(point)
            if number in waiting and first >= waiting[number].first - SAME_RUNS:
                delays[waiting.pop(number)] = seen[number]
    return delays


def _steps(machine: Machine | None, size: float, delays: Sequence[int | None]) -> Steps:
    found = sorted(delay for delay in delays if delay is not None)
    early = sum(delay <= EARLY for delay in found)
    return Steps(
        machine=machine,
        size=size,
        found=Rate.of(len(found), len(delays)),
        found_early=Rate.of(early, len(delays)),
        delays=tuple(found),
    )


def _alarms(replay: Replay, detector: Detector) -> Alarms:
    """Count alarms in the unmodified histories, once per change, with a Poisson interval."""
    start = max(RUNS_BEFORE_ALARMS, replay.runs - MOST_RUNS_OF_ALARMS)
    known: list[tuple[int, int]] = []
    alarms: list[tuple[int, int]] = []
    series_runs = 0
    shown: list[tuple[int, int]] = []
    for place in range(start - 1, replay.runs):  # the first call tells what was known before
        shown = [replay.find(point) for point in _slower(detector(replay.at(place, {})))]
        for change in shown:
            if not _is_among(change, known):
                known.append(change)
                if place >= start:
                    alarms.append(change)
        if place >= start:
            series_runs += len(replay.measured_at(place))
    low, high = _interval(len(alarms), series_runs)
    return Alarms(
        alarms=len(alarms),
        withdrawn=sum(not _is_among(alarm, shown) for alarm in alarms),
        series_runs=series_runs,
        low=low,
        high=high,
    )


def _interval(alarms: int, series_runs: int) -> tuple[float, float | None]:
    """Return the alarm count's exact Poisson interval, per 1,000 runs of a series."""
    if not series_runs:
        return 0.0, None
    per_run, tail = 1000 / series_runs, (1 - CONFIDENCE) / 2
    low = float(scipy.stats.chi2.ppf(tail, 2 * alarms)) / 2 * per_run if alarms else 0.0
    return low, float(scipy.stats.chi2.ppf(1 - tail, 2 * alarms + 2)) / 2 * per_run


def _is_among(alarm: tuple[int, int], others: Iterable[tuple[int, int]]) -> bool:
    """Check whether any other change is in the same series at about the same run."""
    series, first = alarm
    return any(series == other and abs(first - at) <= SAME_RUNS for other, at in others)


def _synthetic(one: PlacedSeries, rng: Generator) -> Series | None:
    """Make a change-free history with a series' level and noise; None if that series is short."""
    logs = np.log(one.series.values)
    if logs.size < FEWEST_FOR_NOISE:
        return None
    steps = np.diff(logs)  # a change of level is only one of them
    noise = MAD_TO_SD * float(np.median(np.abs(steps - np.median(steps)))) / np.sqrt(2)
    values = np.exp(np.median(logs) + noise * rng.standard_normal(SYNTHETIC_RUNS))
    times = np.sort(one.series.recorded_at)
    interval = max(np.median(np.diff(times)), np.timedelta64(1, "us"))
    return Series(
        key=one.key,
        metric=one.series.metric,
        run_ids=[f"synthetic-{number}" for number in range(SYNTHETIC_RUNS)],
        recorded_at=times[0] + np.arange(SYNTHETIC_RUNS) * interval,
        values=values,
    )
