"""Runs of synthetic series through the product's own code, from suspects to alerts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from io import BytesIO
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from batchmark.alerts.merging import merge
from batchmark.alerts.settings import AlertSettings
from batchmark.alerts.store import AlertStore
from batchmark.attribution import group_changes
from batchmark.change_records import ChangePoint, Confirmation, RunChanges, SeriesKey
from batchmark.regressions import DetectorSettings, detect_changes, held_down
from batchmark.run_look import Look
from batchmark.series_history import SeriesHistory, moment
from batchmark.store import CHANGES, RunStore
from batchmark.suspects import (
    JOBS_OF_ROUND,
    Suspect,
    needs_more,
    verdict,
)

FIRST, INTERVAL = np.datetime64("2026-01-05", "us"), np.timedelta64(1, "D")


@dataclass(frozen=True, eq=False)
class Series:
    """A synthetic series, the only one of its suite and target.

    Attributes:
        step: relative; None without one.
        seconds: shape (runs, jobs): of the scheduled run and of fresh jobs; NaN for no figure.
        rises: first runs of slower levels.
    """

    cell: str
    step: float | None
    key: SeriesKey
    seconds: NDArray[np.float64]
    rises: Sequence[int]

    @cached_property
    def measured(self) -> NDArray[np.int64]:
        """The runs with a figure."""
        return np.flatnonzero(np.isfinite(self.seconds[:, 0]))

    def history(self, run: int) -> SeriesHistory:
        """Up to a run."""
        runs = self.measured[: np.searchsorted(self.measured, run, side="right")]
        return SeriesHistory(
            self.key,
            "time",
            [name_of(one) for one in runs],
            FIRST + runs * INTERVAL,
            self.seconds[runs, 0],
        )


@dataclass
class Outcome:
    """What came of a series.

    Attributes:
        jobs: fresh ones.
        alerts: first run of the slower level, run that told, and what kind of suspect it was.
    """

    series: Series
    suspects: int = 0
    jobs: int = 0
    alerts: list[tuple[int, int, str]] = field(default_factory=list)


class Memory:
    """Answers what RunStore asks a client of S3."""

    exceptions = SimpleNamespace(NoSuchKey=KeyError)

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}

    def put_object(self, *, Key: str, Body: bytes, **_: object) -> None:  # noqa: N803
        self.objects[Key] = Body

    def get_object(self, *, Key: str, **_: object) -> dict[str, Any]:  # noqa: N803
        return {"Body": BytesIO(self.objects[Key]), "ETag": ""}

    def get_paginator(self, _operation: str) -> Memory:
        return self

    def paginate(self, *, Prefix: str, **_: object) -> Iterable[Any]:  # noqa: N803
        yield {"Contents": [{"Key": key} for key in self.objects if key.startswith(Prefix)]}


class SimulatedLook(Look):
    """A run, and what the history and the alerts say of its series."""

    def __init__(self, store: RunStore, run_id: str, times: list[SeriesHistory]) -> None:
        self.store, self.run_id = store, run_id
        self.histories = {"time": times, "price": [], "noise": [], "speedup": []}
        self.priors = {}

    @cached_property
    def _all_points(self) -> list[ChangePoint]:
        """As of suites of one series each, though all are searched at once: that is faster."""
        settings = DetectorSettings(false_discovery_rate=1)
        points: dict[SeriesKey, list[ChangePoint]] = defaultdict(list)
        for point in detect_changes(self.histories["time"], settings, self.priors):
            points[point.series].append(point)
        rate = DetectorSettings().false_discovery_rate
        return [
            point
            for own in points.values()
            for point, stands in zip(
                own, held_down([one.p_value for one in own], 1, rate), strict=True
            )
            if stands
        ]


def play(series: Sequence[Series]) -> list[Outcome]:
    """Go through all runs, as a schedule would."""
    store = RunStore(Memory(), "results", "schedule")
    outcomes = {one.key: Outcome(one) for one in series}
    for run in range(max(len(one.seconds) for one in series)):
        measured = [one for one in series if run in one.measured]
        if measured:
            _look(store, run, measured, outcomes)
    return list(outcomes.values())


def _look(
    store: RunStore, run: int, measured: Sequence[Series], outcomes: dict[SeriesKey, Outcome]
) -> None:
    """What find_suspects, find_agreeing, detect_regressions and open_alerts do in turn."""
    run_id = name_of(run)
    times = {one.key: one.history(run) for one in measured}
    look = SimulatedLook(store.of_run(run_id), run_id, list(times.values()))
    verdicts = []
    for suspect in look.find({}):
        outcome = outcomes[suspect.series]
        fresh, jobs = _fresh(look, suspect, outcome.series.seconds[run, 1:])
        outcome.suspects += 1
        outcome.jobs += jobs
        standing = look.standing.get(suspect.series)
        verdicts.append(verdict(standing, suspect, fresh, job_ids=(), hosts=None))
    kinds = {one.series: one.kind for one in verdicts}
    for point in _told(look, look.news(verdicts), verdicts):
        told = (run_of(point.first_run_id), run, kinds.get(point.series, "level"))
        outcomes[point.series].alerts.append(told)


def _fresh(look: Look, suspect: Suspect, seconds: NDArray[np.float64]) -> tuple[list[float], int]:
    """The figures of a suspect's fresh jobs, and how many jobs ran."""
    figures: list[float] = []
    jobs = 0
    for count in JOBS_OF_ROUND:
        standing = look.standing.get(suspect.series)
        if jobs and not needs_more(standing, suspect, figures):
            break
        own = seconds[jobs : jobs + count]
        figures += own[np.isfinite(own)].tolist()
        jobs += count
    return figures, jobs


def _told(
    look: Look, points: Sequence[ChangePoint], verdicts: Sequence[Confirmation]
) -> list[ChangePoint]:
    """Keep what is new; return what the alerts tell that were opened."""
    changes = group_changes(
        points, {}, measured=[one.key for one in look.histories["time"]], confirmations=verdicts
    )
    found = RunChanges(run_id=look.run_id, changes=changes, confirmations=tuple(verdicts))
    look.store.write(CHANGES, found.model_dump_json())
    alerts = AlertStore(look.store)
    merged = merge(
        look.alerts,
        alerts.improvements(),
        changes,
        AlertSettings(),
        run_id=look.run_id,
        at=moment(look.histories["time"][0].recorded_at[-1]),
    )
    message: Any = merged  # it has all that is applied of a message
    alerts.apply(message)
    return [point for alert in merged.opened for point in alert.change.points]


def name_of(run: int) -> str:
    return f"run-{run:04}"


def run_of(name: str) -> int:
    return int(name.removeprefix("run-"))
