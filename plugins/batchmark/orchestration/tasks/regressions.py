"""Tasks that detect a run's regressions: find suspects, remeasure them and decide what changed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow.sdk import Context
from airflow.sdk.exceptions import AirflowSkipException

from batchmark.aws.result_bucket import CHANGES, CHANGES_SECTION, SUSPECTS
from batchmark.changes.metric import Metric
from batchmark.core.kinds import KINDS
from batchmark.orchestration.telling import console, tell
from batchmark.orchestration.xcom import RERUN_TASKS

if TYPE_CHECKING:
    from batchmark.core.run import CollectedRun
    from batchmark.orchestration.run_history import RunHistory


def find_suspects(context: Context, collected_key: str) -> list[dict[str, Any]]:
    """Store the run's suspects; return operator arguments for the first round of fresh jobs."""
    from batchmark.changes.suspects import Suspects, suspects_among, why_unwatchable
    from batchmark.orchestration.reruns import can_be_repeated, plan_round, reserve, uncertainties
    from batchmark.orchestration.run_history import RunHistory
    from batchmark.runs.budget import RUN_CAP, parse_cap

    run = RunHistory(context, collected_key)
    repeatable = [one for one in run.histories[Metric.TIME] if can_be_repeated(one.key)]
    found = suspects_among(repeatable, run.weighed, uncertainties(run.rows))
    suspects = Suspects(suspects=tuple(found), hard_to_watch=why_unwatchable(run.weighed))
    for one in found:
        tell(
            f"Suspect {one.kind}: {one.series.target}, {one.series.workload} "
            f"{one.series.parameters}: {one.seconds:.6g} s, expected {one.expected:.6g} s"
        )
    params, why_not = context["params"], None
    kind = KINDS.get(run.plan.dag_id or "")
    if not found:
        tell(f"No suspects among {len(run.weighed)} series with enough runs.")
    elif kind and kind.no_reruns:
        why_not = kind.no_reruns
    elif not params["reruns"]:
        why_not = "the run's option `reruns` is off"
    else:
        cap = parse_cap(params[RUN_CAP])
        why_not = reserve(run.store, run.config, run.plan, suspects.rows, cap)
    if why_not:
        note = f"suspects were not measured again: {why_not}"
        tell(note)
        suspects = suspects.model_copy(update={"notes": (note,)})
    run.store.write(SUSPECTS, suspects.model_dump_json(indent=2))
    run.suspects = suspects
    run.plan_jobs(2, plan_round(2, run.plan.jobs, ()))  # replaces an earlier life's
    return run.plan_jobs(1, plan_round(1, run.plan.jobs, suspects.rows))


def find_agreeing(context: Context) -> list[dict[str, Any]]:
    """Return operator arguments for a second round of fresh jobs, for suspects still in doubt.

    A suspect whose first fresh job left no result is also measured again.

    Raises:
        AirflowSkipException: no fresh job was planned.
    """
    from batchmark.changes.suspects import needs_more
    from batchmark.orchestration.reruns import figures_by_series, plan_round
    from batchmark.orchestration.run_history import RunHistory

    run = RunHistory.of_suspects(context)
    fresh = run.collect(context, rounds=1)
    asked = {job.planned.target for job in fresh.jobs} | {job.planned.target for job in fresh.lost}
    if not asked:
        raise AirflowSkipException("no fresh jobs were planned")
    measured = figures_by_series(fresh.jobs)
    now = run.weigh(run.times_with(fresh))
    rows = [
        one.series
        for one in run.suspects.suspects
        if one.series.target in asked
        and needs_more([value for _, value in measured.get(one.series, ())], now.get(one.series))
    ]
    return run.plan_jobs(2, plan_round(2, run.plan.jobs, rows))


def detect_regressions(context: Context, collected_key: str | None) -> str:
    """Determine what changed, store the changes with the verdicts, and return the changes' key.

    Raises:
        AirflowSkipException: nothing was collected.
    """
    from batchmark.changes.attribution import group_changes, runs_around
    from batchmark.changes.conditions import COLUMNS, run_conditions
    from batchmark.changes.records import RunChanges
    from batchmark.history.store import HistoryStore
    from batchmark.orchestration.run_history import RunHistory
    from batchmark.report.change_records import ChangesSection

    if collected_key is None:
        raise AirflowSkipException(
            "the run has no collected results; see the log of its task collect_results"
        )
    run = RunHistory.of_suspects(context)
    fresh = run.collect(context, rounds=len(RERUN_TASKS))
    if fresh.jobs or fresh.lost or fresh.superseded:
        _store_with(fresh, run)
    shown = run.shown(run.times_with(fresh))
    verdicts = run.verdicts(fresh, shown)
    points, rows = run.news(shown, verdicts), []
    if points:
        history, around = HistoryStore.of(run.config), runs_around(points)
        rows = history.read(COLUMNS, suites=[run.suite], run_ids=around).to_pylist()
    changes = group_changes(
        points,
        run_conditions(rows),
        measured=[one.key for one in run.histories[Metric.TIME]],
        confirmations=[*verdicts, *run.earlier_verdicts],
    )
    everything = [one for own in run.histories.values() for one in own]
    section = ChangesSection.of(
        changes,
        everything,
        confirmations=verdicts,
        notes=filter(None, (*run.suspects.notes, run.suspects.hard_to_watch)),
    )
    run.store.write(CHANGES_SECTION, section.model_dump_json(indent=2))
    tell(f"{len(changes)} change(s) among {len(everything)} series")
    found = RunChanges(run_id=run.run_id, changes=changes, confirmations=tuple(verdicts))
    return run.store.write(CHANGES, found.model_dump_json(indent=2))


def _store_with(fresh: CollectedRun, run: RunHistory) -> None:
    """Add fresh jobs to the stored run, the history and the run's costs."""
    from batchmark.analysis.cost import run_costs
    from batchmark.history.store import HistoryStore, run_prices
    from batchmark.orchestration.tasks.budget import settle
    from batchmark.report.tables import cost_blocks
    from batchmark.report.terminal.sections import print_blocks
    from batchmark.runs.collected_runs import store_run

    whole = run.collected.joined(fresh)
    store_run(run.store, whole)
    prices = run_prices(run.store, run.config.region, whole)
    HistoryStore.of(run.config).append(fresh, prices, run.store.name, run.rows)
    settle(run.store, run.config, run.plan, fresh)
    tell("Cost of the fresh jobs, not included in the run's report:")
    print_blocks(cost_blocks(run_costs(fresh, prices), prices), console())
