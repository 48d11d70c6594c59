"""What the tasks of a benchmark's run do about regressions: suspect, look again, decide."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow.sdk.exceptions import AirflowSkipException

from batchmark.run_look import RERUN_TASKS, Look
from batchmark.store import CHANGES, CHANGES_SECTION, COLLECTED, SUSPECTS

if TYPE_CHECKING:
    from airflow.sdk import Context


def find_suspects(context: Context, collected_key: str) -> list[dict[str, Any]]:
    """Keep which of the run's rows look slower; return the arguments of the first fresh jobs."""
    from batchmark.reruns import plan_round, reserve, uncertainties
    from batchmark.suspects import Suspects

    look = Look(context, collected_key)
    found = look.find(uncertainties(look.collected.jobs))
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
    look.plan_jobs(2, plan_round(2, look.plan.jobs, ()))  # in place of an earlier life's
    return look.plan_jobs(1, plan_round(1, look.plan.jobs, suspects.targets))


def find_agreeing(context: Context) -> list[dict[str, Any]]:
    """Return the arguments of the second lot of fresh jobs: where the first one is slow, too.

    A first one that left no figure asks for the others.

    Raises:
        AirflowSkipException: no fresh job was to run.
    """
    from batchmark.reruns import figures_of, plan_round
    from batchmark.suspects import needs_more

    look = Look.of_suspects(context)
    fresh = look.collect(context, rounds=1)
    asked = {job.planned.target for job in fresh.jobs} | {job.planned.target for job in fresh.lost}
    if not asked:
        raise AirflowSkipException("no fresh job was to run")
    targets = [
        suspect.series.target
        for suspect in look.suspects.suspects
        if suspect.series.target in asked
        and needs_more(
            look.standing.get(suspect.series),
            suspect,
            [value for _, value in figures_of(suspect, fresh.jobs)],
        )
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
    from batchmark.suspects import too_early

    if collected_key is None:
        raise AirflowSkipException("the run has no results to look at; see collect_results")
    look = Look.of_suspects(context)
    fresh = look.collect(context, rounds=len(RERUN_TASKS))
    ran = bool(fresh.jobs or fresh.lost)
    verdicts = [look.verdict(one, fresh) for one in look.suspects.suspects] if ran else []
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
        changes,
        everything,
        confirmations=verdicts,
        notes=filter(None, (*look.suspects.notes, too_early(everything))),
    )
    store.write(CHANGES_SECTION, section.model_dump_json(indent=2))
    print(f"{len(changes)} change(s) among {len(everything)} series")
    found = RunChanges(run_id=look.run_id, changes=changes, confirmations=tuple(verdicts))
    return store.write(CHANGES, found.model_dump_json(indent=2))
