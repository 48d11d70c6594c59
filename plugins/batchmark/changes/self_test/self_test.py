"""Tests the detector on real histories: with steps put into copies of them, and as they are.

The detector is called the way the schedule calls it: after every run, with all series of the suite
up to that run. Fresh re-runs can't be replayed, so what is told here is of the history alone.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from batchmark.change_records import ChangePoint
from batchmark.noise_density import MAD_TO_SD
from batchmark.rates import Rate
from batchmark.replay import Replay
from batchmark.self_test_records import Alarms, Machine, Part, Source, Steps, SuiteTest
from batchmark.series_history import SeriesHistory

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.random import Generator

    from batchmark.change_records import SeriesKey
    from batchmark.replay import PlacedSeries

SIZES = (0.03, 0.05, 0.10, 0.25)
RUNS_BEFORE = 10  # a step, without a change
WAITED = 10  # runs, the first with the step among them
EARLY = 5
SAME_RUNS = 3  # apart, and still the same change
SHARE_WITH_STEP = 0.02  # of a suite's series at a time: many steps at once are easier to find
ANCHORS = 8  # runs at which steps are put
FIRST_LOOK = 8  # runs of a history before its alarms count
MOST_LOOKS = 100  # at the latest runs of an untouched history
FEWEST_FOR_NOISE = 5
SYNTHETIC_RUNS = 40

Detector = Callable[[Sequence[SeriesHistory]], Sequence[ChangePoint]]


class Step(NamedTuple):
    """A series that becomes slower, from one of its runs on."""

    series: int
    first: int  # among the series' own runs
    place: int  # of that run among all runs
    size: float


def try_suite(
    suite: str,
    histories: Sequence[SeriesHistory],
    detector: Detector,
    *,
    seed: int = 0,
    steps: int = 20,
) -> SuiteTest:
    """Put steps into a suite's histories, and look what the detector makes of them.

    Targets whose histories are too short get synthetic ones with the noise of their own series.

    Args:
        histories: of the metric time.
        seed: the same one puts the same steps.
        steps: for each size and machine, where there is room for so many.
    """
    rng = np.random.default_rng(seed)
    replay = Replay(histories)
    parts = []
    openings: list[tuple[int, int]] = []
    if replay.runs > FIRST_LOOK:
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
            f"put into synthetic histories of {SYNTHETIC_RUNS} runs with their series' own noise."
        )
        own = Replay(made)
        parts.append(_part("synthetic", own, list(_openings(own, detector)), detector, rng, steps))
    if unknown := len(short) - len(made):
        notes.append(
            f"{unknown} series left out: nothing is known of their noise below "
            f"{FEWEST_FOR_NOISE} runs."
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
    delays: dict[Step, int | None] = {}
    for together in _rounds(planned, max(1, round(SHARE_WITH_STEP * len(replay.series)))):
        delays |= _delays(replay, together, detector)
    machines = dict.fromkeys(_machine(replay.series[step.series].key) for step in planned)
    results = [
        _steps(machine, size, own)
        for machine in (None, *machines)
        for size in SIZES
        if (
            own := [
                delay
                for step, delay in delays.items()
                if step.size == size and machine in {None, _machine(replay.series[step.series].key)}
            ]
        )
    ]
    return Part(
        source=source,
        series=len(replay.series),
        runs=replay.runs,
        steps=tuple(results),
        alarms=_alarms(replay, detector),
    )


def _machine(key: SeriesKey) -> Machine:
    return Machine(target=key.target, device=key.actual_device)


def _slower(points: Iterable[ChangePoint]) -> Iterator[ChangePoint]:
    return (point for point in points if point.metric == "time" and point.worse)


def _openings(replay: Replay, detector: Detector) -> Iterator[tuple[int, int]]:
    """Series and their runs at which a step may be put: amid runs without a change."""
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
    """Steps of every size for every machine, at few runs, so that many can share a replay."""
    places = np.unique([replay.series[number].places[first] for number, first in openings])
    anchors = set(rng.permutation(places)[:ANCHORS].tolist())
    by_machine: dict[Machine, list[tuple[int, int, int]]] = defaultdict(list)
    for number, first in openings:
        one = replay.series[number]
        by_machine[_machine(one.key)].append((number, first, one.places[first]))
    planned = []
    for own in by_machine.values():
        chosen = [opening for opening in own if opening[2] in anchors] or own
        for size in SIZES:
            picked = (chosen[pick] for pick in rng.permutation(len(chosen))[:count])
            planned += [Step(number, first, place, size) for number, first, place in picked]
    return planned


def _rounds(planned: Iterable[Step], most: int) -> Iterator[list[Step]]:
    """Steps at the same run, each in another series, and no more than `most` at a time."""
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
    """How many runs it took until each step was found; None of those that were not."""
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
    """What the schedule would have alerted of, had nothing been put in; each change once."""
    from scipy.stats import chi2

    start = max(FIRST_LOOK, replay.runs - MOST_LOOKS)
    known: list[tuple[int, int]] = []
    alarms: list[tuple[int, int]] = []
    series_runs = 0
    standing: list[tuple[int, int]] = []
    for place in range(start - 1, replay.runs):  # the first look tells what was known before
        standing = [replay.find(point) for point in _slower(detector(replay.at(place, {})))]
        for number, first in standing:
            if not _is_among((number, first), known):
                known.append((number, first))
                if place >= start:
                    alarms.append((number, first))
        if place >= start:
            series_runs += sum(place in one.places for one in replay.series)
    count = len(alarms)
    per_run = 1000 / series_runs if series_runs else None
    return Alarms(
        alarms=count,
        withdrawn=sum(not _is_among(alarm, standing) for alarm in alarms),
        series_runs=series_runs,
        low=float(chi2.ppf(0.025, 2 * count)) / 2 * per_run if count and per_run else 0.0,
        high=float(chi2.ppf(0.975, 2 * count + 2)) / 2 * per_run if per_run else None,
    )


def _is_among(alarm: tuple[int, int], others: Iterable[tuple[int, int]]) -> bool:
    """Whether one of the others is of the same series and of about the same run."""
    number, first = alarm
    return any(number == one and abs(first - other) <= SAME_RUNS for one, other in others)


def _synthetic(one: PlacedSeries, rng: Generator) -> SeriesHistory | None:
    """A history without a change, with a series' own level and noise; None if these are unknown."""
    logs = np.log(one.values)
    if logs.size < FEWEST_FOR_NOISE:
        return None
    steps = np.diff(logs)  # of which a change of level is only one
    noise = MAD_TO_SD * float(np.median(np.abs(steps - np.median(steps)))) / np.sqrt(2)
    values = np.exp(np.median(logs) + noise * rng.standard_normal(SYNTHETIC_RUNS))
    days = np.arange(SYNTHETIC_RUNS).astype("timedelta64[D]")
    return SeriesHistory(
        key=one.key,
        metric=one.history.metric,
        run_ids=[f"synthetic-{number}" for number in range(SYNTHETIC_RUNS)],
        recorded_at=one.history.recorded_at[0] + days,
        values=values,
    )
