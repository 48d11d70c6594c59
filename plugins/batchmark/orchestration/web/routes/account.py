"""Pages for alerts with their states, and for past and expected costs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Annotated

from fastapi import APIRouter, Form, HTTPException
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from batchmark.analysis.cost import boot_and_idling_usd
from batchmark.changes.alerts.records import Alert, State
from batchmark.core.errors import AlertError, ConfigError
from batchmark.core.kinds import COSTING, OWN_JOB_DAG, OWN_JOB_SCHEDULE_DAG
from batchmark.core.run import RunPlan
from batchmark.orchestration.schedules import runs_next_month
from batchmark.orchestration.settings import load_own_jobs
from batchmark.orchestration.web import airflow_runs
from batchmark.orchestration.web.access import READ_DAG, Editor
from batchmark.orchestration.web.library import Library
from batchmark.orchestration.web.routes.parts import Books, Here
from batchmark.orchestration.web.routes.runs import RUNS_AHEAD, dag_ids
from batchmark.report.changes.words import ROWS
from batchmark.report.site import costs
from batchmark.report.site.alerts import alert_views

RECENT_RUNS = 5  # that a forecast rests on

Settled = tuple[datetime, str, float]  # when a run was planned, its id, and what it cost in USD

router = APIRouter(default_response_class=HTMLResponse)


@router.get("/alerts")
def alerts(here: Here, books: Books) -> str:
    summary, precision, views = alert_views(books.alerts.alerts())
    return here.render(
        "alerts",
        current="alerts",
        title="Alerts",
        summary=summary,
        precision=precision,
        alerts=views,
        rows_and_series=ROWS,
    )


@router.post("/alerts/{alert_id}")
def change_alert(
    here: Here,
    books: Books,
    visitor: Editor,
    alert_id: str,
    state: Annotated[State, Form()],
    note: Annotated[str, Form(max_length=500)] = "",
) -> Response:
    """Change an alert's state in the same way as the DAG change_alert."""
    if state == "recovered":
        raise HTTPException(422, "Only a later run can determine that an alert has recovered.")
    now = datetime.now(UTC)

    def asked_for(alert: Alert) -> Alert:
        return alert.become(
            state, at=now, by=visitor.name, run_id=f"page__{now.isoformat()}", note=note
        )

    try:
        changed = books.alerts.change_alert(alert_id, asked_for)
    except AlertError as error:
        raise HTTPException(409, str(error)) from None
    return RedirectResponse(f"{here.root}/alerts#{changed.id}", status_code=303)


@router.get("/costs")
def spent(here: Here, books: Books) -> str:
    months = books.months()
    settled = sorted(
        (run.planned_at, run.run_id, float(run.exact_usd))
        for month in months
        for run in month.spending.runs.values()
        if run.finished and run.is_known
    )[-RUNS_AHEAD:]
    dag_of = dag_ids(books, [run_id for _, run_id, _ in settled])
    now = datetime.now(UTC)
    forecasts = []
    for dag_id in COSTING:
        coming = airflow_runs.schedule(dag_id, now)
        if coming.runs is not None or dag_id == READ_DAG:
            of_dag = [each for each in settled if dag_of.get(each[1]) == dag_id]
            plans = books.plans([run_id for _, run_id, _ in of_dag[-1:]])
            forecasts.append(_forecast(dag_id, coming.runs, coming.paused, of_dag, plans))
    of_own_jobs = [each for each in settled if dag_of.get(each[1]) == OWN_JOB_DAG]
    forecasts += _of_own_jobs(books, of_own_jobs, now)
    return here.render(
        "costs",
        current="costs",
        title="Costs",
        summary=costs.summary(months),
        forecasts=[forecast.text for forecast in forecasts],
        months=months,
    )


def _of_own_jobs(
    books: Library, settled: Sequence[Settled], now: datetime
) -> Iterator[costs.Forecast]:
    """Yield a cost forecast for each of the users' scheduled jobs, based on its latest runs."""
    try:
        scheduled = {
            name: job.schedule for name, job in load_own_jobs().jobs.items() if job.schedule
        }
    except ConfigError:  # which own_job_schedule says
        return
    if not scheduled:
        return
    paused = airflow_runs.schedule(OWN_JOB_SCHEDULE_DAG, now).paused
    plans = books.plans([run_id for _, run_id, _ in settled])
    for name, text in scheduled.items():
        runs_of_job = {run_id for run_id, plan in plans.items() if plan.own_job == name}
        of_job = [each for each in settled if each[1] in runs_of_job]
        yield _forecast(f"own job {name}", runs_next_month(text, now), paused, of_job, plans)


def _forecast(
    what: str,
    runs: int | None,
    paused: bool,
    settled: Sequence[Settled],
    plans: Mapping[str, RunPlan],
) -> costs.Forecast:
    """Forecast by what the latest runs cost; by the last one's plan what boot and idling add."""
    recent = settled[-RECENT_RUNS:]
    plan = plans.get(recent[-1][1]) if recent else None
    on_top = boot_and_idling_usd(plan.worst_case) if plan and plan.worst_case else ()
    return costs.Forecast(what, runs, paused, [usd for *_, usd in recent], on_top_usd=on_top)
