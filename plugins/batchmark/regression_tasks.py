"""What the tasks of a benchmark's run do about regressions: suspect, look again, decide."""

from __future__ import annotations

from collections import defaultdict
from datetime import timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Any

from airflow.sdk.exceptions import AirflowSkipException

from batchmark.config import load_config
from batchmark.store import (
    CHANGES,
    CHANGES_SECTION,
    COLLECTED,
    PLAN,
    SUSPECTS,
    RunStore,
    rerun_name,
)
from batchmark.triggers.batch import JOB_ID_XCOM

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from airflow.sdk import Context

    from batchmark.alerts.records import Alert
    from batchmark.change_records import ChangePoint, Confirmation, Metric, SeriesKey
    from batchmark.config import Config
    from batchmark.noise_density import Prior
    from batchmark.run import CollectedRun, RunPlan
    from batchmark.series_history import SeriesHistory
    from batchmark.suspects import Standing, Suspect

HISTORY_DAYS = 730
RECENT_RUNS = 30  # a change before these is none of this run's news
RERUN_TASKS = ("rerun_once", "rerun_twice")  # by round


def find_suspects(context: Context, collected_key: str) -> list[dict[str, Any]]:
    """Keep which of the run's rows look slower; return the arguments of the first fresh jobs."""
    from batchmark.reruns import plan_round, reserve, uncertainties
    from batchmark.suspects import Suspects, suspect_levels, suspect_runs

    look = Look(context, collected_key)
    levels = suspect_levels(look.points("time"), look.told_or_refuted)
    on_new_levels = {one.series for one in levels}
    runs = suspect_runs(look.standing, uncertainties(look.collected.jobs))
    found = [*levels, *(one for one in runs if one.series not in on_new_levels)]
    suspects = Suspects(suspects=tuple(found))
    for one in found:
        print(
            f"Suspect {one.kind}: {one.series.target}, {one.series.workload} "
            f"{one.series.parameters}: {one.seconds:.6g} s, expected {one.expected:.6g} s"
        )
    params, note = context["params"], None
    if not found:
        print(f"No suspect among {len(look.standing)} series with runs enough.")
    elif not params["reruns"]:
        note = "suspects are not measured again: the run was asked not to (reruns)"
    elif note := reserve(
        look.store, look.config, look.plan, suspects.targets, params["max_cost_usd"]
    ):
        note = f"suspects are not measured again: {note}"
    if note:
        print(note)
        suspects = suspects.model_copy(update={"notes": (note,)})
    look.store.write(SUSPECTS, suspects.model_dump_json(indent=2))
    look.suspects = suspects
    return look.plan_jobs(1, plan_round(1, look.plan.jobs, suspects.targets))


def find_agreeing(context: Context) -> list[dict[str, Any]]:
    """Return the arguments of the second lot of fresh jobs: where the first one is slow, too."""
    from batchmark.reruns import figures_of, plan_round
    from batchmark.suspects import needs_more

    look = Look.of_suspects(context)
    fresh = look.collect(context, rounds=1)
    targets = [
        suspect.series.target
        for suspect in look.suspects.suspects
        if (seconds := [value for _, value in figures_of(suspect, fresh.jobs)])
        and needs_more(look.standing.get(suspect.series), suspect, seconds)
    ]
    return look.plan_jobs(2, plan_round(2, look.plan.jobs, dict.fromkeys(targets)))


def detect_regressions(context: Context, collected_key: str | None) -> str:
    """Decide what changed, and keep it with its verdicts; return the key of the changes.

    Raises:
        AirflowSkipException: nothing was collected.
    """
    from batchmark.attribution import group_changes, runs_about
    from batchmark.budget_tasks import settle
    from batchmark.change_records import RunChanges
    from batchmark.changes_section import ChangesSection
    from batchmark.circumstances import COLUMNS, circumstances
    from batchmark.history.store import HistoryStore, run_prices
    from batchmark.suspects import confirmed_point

    if collected_key is None:
        raise AirflowSkipException("the run has no results to look at; see collect_results")
    look = Look.of_suspects(context)
    fresh = look.collect(context, rounds=len(RERUN_TASKS))
    verdicts = [look.verdict(suspect, fresh) for suspect in look.suspects.suspects]
    for one in verdicts:
        print(f"{one.outcome}: {one.series.target} {one.series.workload}: {one.reason}")
    store, history = look.store, HistoryStore.of(look.config)
    if fresh.jobs or fresh.lost or fresh.superseded:
        whole = look.collected.model_copy(
            update={
                name: (*getattr(look.collected, name), *getattr(fresh, name))
                for name in ("jobs", "lost", "superseded")
            }
        )
        store.write(COLLECTED, whole.model_dump_json(indent=2))
        history.append(whole, run_prices(store, look.config.region, whole))
        settle(store, look.config, look.plan, whole)
    points = look.news(verdicts)
    times = look.histories["time"]
    by_key = {one.key: one for one in times}
    for one in verdicts:
        if one.outcome == "confirmed" and one.series in look.standing:
            known = any(
                one.series == point.series and one.run_id in point.near_run_ids for point in points
            )
            if not known:
                points.append(confirmed_point(by_key[one.series], look.standing[one.series], one))
    rows = (
        history.read(COLUMNS, suites=[look.suite], run_ids=runs_about(points)) if points else None
    )
    changes = group_changes(
        points,
        circumstances(rows.to_pylist() if rows is not None else []),
        measured=[one.key for one in times],
        confirmations=verdicts,
    )
    everything = [one for own in look.histories.values() for one in own]
    section = ChangesSection.of(
        changes, everything, confirmations=verdicts, notes=look.suspects.notes
    )
    store.write(CHANGES_SECTION, section.model_dump_json(indent=2))
    print(f"{len(changes)} change(s) among {len(everything)} series")
    found = RunChanges(run_id=look.run_id, changes=changes, confirmations=tuple(verdicts))
    return store.write(CHANGES, found.model_dump_json(indent=2))


class Look:
    """A run, and what the history says of its series."""

    def __init__(self, context: Context, collected_key: str) -> None:
        from batchmark.run import CONFIRMATION, CollectedRun, RunPlan
        from batchmark.suspects import Suspects

        self.config: Config = load_config()
        self.run_id: str = context["run_id"]
        self.store = RunStore.of(self.config, self.run_id)
        whole = CollectedRun.model_validate_json(self.store.read(collected_key))
        # A retry finds the fresh jobs of its first try among them.
        self.collected: CollectedRun = whole.model_copy(
            update={
                name: tuple(
                    job for job in getattr(whole, name) if job.planned.purpose != CONFIRMATION
                )
                for name in ("jobs", "lost", "superseded")
            }
        )
        self.plan: RunPlan = RunPlan.model_validate_json(self.store.read(self.store.prefix + PLAN))
        self.suite: str = self.plan.jobs[0].suite
        self.suspects = Suspects(suspects=())

    @classmethod
    def of_suspects(cls, context: Context) -> Look:
        """The run as find_suspects left it.

        Raises:
            AirflowSkipException: it left nothing, as of a dry run.
        """
        from batchmark.suspects import Suspects

        store = RunStore.of(load_config(), context["run_id"])
        text = store.read_if_there(store.prefix + SUSPECTS)
        if text is None or store.read_if_there(store.prefix + COLLECTED) is None:
            raise AirflowSkipException("the run has no results to look at; see collect_results")
        look = cls(context, store.prefix + COLLECTED)
        look.suspects = Suspects.model_validate_json(text)
        return look

    @cached_property
    def histories(self) -> dict[Metric, list[SeriesHistory]]:
        """By metric, of the series that this run measured."""
        from batchmark.history.series import COLUMNS, series_histories
        from batchmark.history.store import HistoryStore

        metrics: tuple[Metric, ...] = ("time", "price", "noise", "speedup")
        if not self.collected.jobs:
            return {metric: [] for metric in metrics}
        ended = max(job.document.finished_at for job in self.collected.jobs)
        table = HistoryStore.of(self.config).read(
            COLUMNS, suites=[self.suite], since=(ended - timedelta(days=HISTORY_DAYS)).date()
        )
        return {
            metric: [one for one in series_histories(table, metric) if self.run_id in one.run_ids]
            for metric in metrics
        }

    @cached_property
    def priors(self) -> dict[SeriesKey, Prior]:
        from batchmark.reruns import calibrated
        from batchmark.tasks import calibrations

        return calibrated(calibrations(self.store, self.collected), self.collected.jobs)

    @cached_property
    def alerts(self) -> list[Alert]:
        from batchmark.alerts.store import AlertStore

        return AlertStore(self.store).alerts()

    @cached_property
    def told(self) -> dict[SeriesKey, set[str]]:
        """First runs of the changes that alerts and good news told of.

        Without this run's own: where it is repeated, it decides as it did the first time.
        """
        from batchmark.alerts.store import AlertStore

        found: dict[SeriesKey, set[str]] = defaultdict(set)
        told = [one.change for one in self.alerts if one.transitions[0].run_id != self.run_id]
        told += [
            improvement.change
            for improvement in AlertStore(self.store).improvements()
            if improvement.run_id != self.run_id
        ]
        for change in told:
            for point in change.points:
                if point.metric == "time":
                    found[point.series].add(point.first_run_id)
        return found

    @cached_property
    def standing(self) -> dict[SeriesKey, Standing]:
        from batchmark.suspects import standings

        return standings(self.histories["time"], self.run_id, starts=self.told, priors=self.priors)

    def points(self, metric: Metric) -> list[ChangePoint]:
        """Recent changes of one metric, in either direction."""
        return [
            point for point in self._all_points if point.metric == metric and self._is_recent(point)
        ]

    @cached_property
    def _all_points(self) -> list[ChangePoint]:
        from batchmark.regressions import detect_changes

        return detect_changes(
            [one for own in self.histories.values() for one in own], priors=self.priors
        )

    def _is_recent(self, point: ChangePoint) -> bool:
        return point.after.runs <= RECENT_RUNS

    @cached_property
    def told_or_refuted(self) -> dict[SeriesKey, set[str]]:
        """Of the recent slower levels: what nobody has to look at again."""
        from batchmark.change_records import RunChanges

        found = defaultdict(set, {key: set(ids) for key, ids in self.told.items()})
        runs = {
            run_id
            for point in self.points("time")
            if point.worse and not set(point.near_run_ids) & found[point.series]
            for run_id in self._runs_since(point)
        }
        for run_id in sorted(runs - {self.run_id}):
            earlier = self.store.of_run(run_id)
            if text := earlier.read_if_there(earlier.prefix + CHANGES):
                for one in RunChanges.model_validate_json(text).confirmations:
                    if one.outcome == "refuted":
                        found[one.series].add(one.run_id)
        return found

    def _runs_since(self, point: ChangePoint) -> Sequence[str]:
        from batchmark.regressions import timeline

        history = next(one for one in self.histories["time"] if one.key == point.series)
        runs = timeline(history).run_ids
        return runs[runs.index(point.near_run_ids[0]) :]

    def news(self, verdicts: Iterable[Confirmation]) -> list[ChangePoint]:
        """The recent changes of all metrics, without what fresh jobs refuted.

        A speedup that moved where a time is known to have moved, or was refuted, is no news.
        """
        known = defaultdict(set, {key: set(ids) for key, ids in self.told_or_refuted.items()})
        refuted = defaultdict(set, {key: ids - self.told[key] for key, ids in known.items()})
        for one in verdicts:
            if one.outcome == "refuted":
                refuted[one.series].add(one.run_id)
                known[one.series].add(one.run_id)
        found = [
            *(
                point
                for metric in ("time", "price", "noise")
                for point in self.points(metric)
                if metric != "time" or not point.worse or not _is_about(point, refuted)
            ),
            *(point for point in self.points("speedup") if not _is_about(point, known)),
        ]
        seen = {
            (one.series, run_id) for one in found if not one.worse for run_id in one.near_run_ids
        }
        return found + [
            one for one in self._recoveries() if (one.series, one.first_run_id) not in seen
        ]

    def _recoveries(self) -> Iterable[ChangePoint]:
        from batchmark.alerts.records import WATCHED
        from batchmark.recoveries import recoveries

        return recoveries(
            self.histories["time"],
            [
                point
                for alert in self.alerts
                if alert.state in WATCHED
                for point in alert.change.points
                if point.metric == "time" and point.series not in alert.back
            ],
        )

    def plan_jobs(self, number: int, planned: RunPlan) -> list[dict[str, Any]]:
        """Keep a round's plan; return the operator's arguments for each job.

        Where no fresh job may run, an earlier plan stays: what it submitted is paid, and counts.
        """
        from batchmark.planning import operator_kwargs

        if self.suspects.notes:
            return []
        self.store.write(rerun_name(number), planned.model_dump_json(indent=2))
        return [operator_kwargs(self.config, self.run_id, job) for job in planned.jobs]

    def collect(self, context: Context, *, rounds: int) -> CollectedRun:
        """What the fresh jobs of the first rounds left."""
        import boto3

        from batchmark.reruns import collect_rounds

        return collect_rounds(
            self.store,
            boto3.client("batch", region_name=self.config.region),
            boto3.client("logs", region_name=self.config.region),
            run_id=self.run_id,
            config=self.config,
            rounds=rounds,
            told_ids=lambda number, count: context["ti"].xcom_pull(
                task_ids=RERUN_TASKS[number - 1], key=JOB_ID_XCOM, map_indexes=range(count)
            ),
        )

    def verdict(self, suspect: Suspect, fresh: CollectedRun) -> Confirmation:
        from batchmark.reruns import figures_of
        from batchmark.suspects import verdict

        measured = list(figures_of(suspect, fresh.jobs))
        hosts = {job.host for job, _ in measured}
        return verdict(
            self.standing.get(suspect.series),
            suspect,
            [seconds for _, seconds in measured],
            job_ids=[job.job_id for job, _ in measured],
            hosts=None if None in hosts or not hosts else len(hosts),
        )


def _is_about(point: ChangePoint, runs: Mapping[SeriesKey, set[str]]) -> bool:
    """Whether a change is at one of the runs told of its series, or of one side of its speedup."""
    row = point.series
    sides = {row.target, row.against}
    return any(
        not ids.isdisjoint(point.near_run_ids)
        for key, ids in runs.items()
        if key.target in sides
        and (key.workload, key.parameters, key.dtype) == (row.workload, row.parameters, row.dtype)
    )
