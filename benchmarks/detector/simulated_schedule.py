"""Sends synthetic series through the product's own code, run by run, from suspects to alerts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from io import BytesIO
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from batchmark.aws.result_bucket import CHANGES, RunStore
from batchmark.changes.alerts.merging import merge
from batchmark.changes.alerts.settings import AlertSettings
from batchmark.changes.alerts.store import AlertStore
from batchmark.changes.attribution import group_changes
from batchmark.changes.detection import DetectorSettings, detect_changes, discoveries
from batchmark.changes.records import (
    ChangePoint,
    Confirmation,
    RunChanges,
    Series,
    SeriesKey,
    moment,
)
from batchmark.changes.self_test.replay import Replay
from batchmark.changes.suspects import JOBS_OF_ROUND, Suspect, needs_more, verdict
from batchmark.orchestration.run_history import RunHistory
from benchmarks.synthetic import daily


@dataclass(frozen=True, eq=False)
class SyntheticSeries:
    """A synthetic series, the only one of its suite and target."""

    cell: str
    step: float | None  # relative size of the true one
    key: SeriesKey
    seconds: NDArray[np.float64]  # (runs, jobs), the scheduled job first; NaN if missing
    rises: Sequence[int]  # first runs of the slower levels

    @cached_property
    def measured(self) -> NDArray[np.int64]:
        """Indexes of the runs with a figure."""
        return np.flatnonzero(np.isfinite(self.seconds[:, 0]))

    @property
    def history(self) -> Series:
        """What the scheduled jobs measured."""
        return daily(self.key, self.measured, self.seconds[self.measured, 0])


@dataclass
class Outcome:
    """What became of a series.

    An alert is the first run of the slower level, the run that alerted, and the suspect's kind.
    """

    series: SyntheticSeries
    suspects: int = 0
    jobs: int = 0  # fresh ones that ran
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


class SimulatedRunHistory(RunHistory):
    """A run with its series' history, from memory."""

    def __init__(self, store: RunStore, run_id: str, times: list[Series]) -> None:
        self.store, self.run_id = store, run_id
        self.histories = {"time": times, "price": [], "noise": [], "speedup": []}
        self.priors = {}

    @cached_property
    def _all_points(self) -> list[ChangePoint]:
        """Search all series at once, which is faster, but judge each as its suite's only one."""
        settings = DetectorSettings(false_discovery_rate=1)
        points: dict[SeriesKey, list[ChangePoint]] = defaultdict(list)
        for point in detect_changes(self.histories["time"], settings, self.priors):
            points[point.series].append(point)
        rate = DetectorSettings().false_discovery_rate
        return [point for found in points.values() for point in discoveries(found, 1, rate)]


def play(series: Sequence[SyntheticSeries]) -> list[Outcome]:
    """Play all runs in order, as on a schedule."""
    store = RunStore(Memory(), "results", "schedule")
    outcomes = {each.key: Outcome(each) for each in series}
    replay = Replay([each.history for each in series])
    for place in range(replay.runs):
        _play_run(store, replay.measured_at(place), outcomes)
    return list(outcomes.values())


def _play_run(store: RunStore, times: list[Series], outcomes: Mapping[SeriesKey, Outcome]) -> None:
    """Do what find_suspects, find_agreeing, detect_regressions and open_alerts do in turn.

    The run is the last one of each series that it measured.
    """
    run_id = times[0].run_ids[-1]
    run = SimulatedRunHistory(store.of_run(run_id), run_id, times)
    verdicts = []
    for suspect in run.find_suspects({}):
        outcome = outcomes[suspect.series]
        fresh, jobs = _fresh(run, suspect, outcome.series.seconds[number_of(run_id), 1:])
        outcome.suspects += 1
        outcome.jobs += jobs
        verdicts.append(verdict(run.before(suspect), suspect, fresh, job_ids=(), hosts=None))
    kinds = {each.series: each.kind for each in verdicts}
    for point in _alerted(run, run.news(verdicts), verdicts):
        kind = kinds.get(point.series, "level")
        alert = (number_of(point.first_run_id), number_of(run_id), kind)
        outcomes[point.series].alerts.append(alert)


def _fresh(
    run: RunHistory, suspect: Suspect, seconds: NDArray[np.float64]
) -> tuple[list[float], int]:
    """A suspect's figures from fresh jobs, and how many jobs ran."""
    figures: list[float] = []
    jobs = 0
    for count in JOBS_OF_ROUND:
        if jobs and not needs_more(run.noise_before.get(suspect.series), suspect, figures):
            break
        fresh = seconds[jobs : jobs + count]
        figures += fresh[np.isfinite(fresh)].tolist()
        jobs += count
    return figures, jobs


def _alerted(
    run: RunHistory, points: Sequence[ChangePoint], verdicts: Sequence[Confirmation]
) -> list[ChangePoint]:
    """Store the run's new changes; return the change points of the alerts that it opens."""
    changes = group_changes(
        points, {}, measured=[each.key for each in run.histories["time"]], confirmations=verdicts
    )
    found = RunChanges(run_id=run.run_id, changes=changes, confirmations=tuple(verdicts))
    run.store.write(CHANGES, found.model_dump_json())
    alerts = AlertStore(run.store)
    merged = merge(
        run.alerts,
        alerts.improvements(),
        changes,
        AlertSettings(),
        run_id=run.run_id,
        at=moment(run.histories["time"][0].recorded_at[-1]),
    )
    message: Any = merged  # has every attribute that apply() reads
    alerts.apply(message)
    return [point for alert in merged.opened for point in alert.change.points]


def number_of(run_id: str) -> int:
    return int(run_id.removeprefix("run-"))
