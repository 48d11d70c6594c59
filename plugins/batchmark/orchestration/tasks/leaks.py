"""What the tasks of leak_guard do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow.sdk import Param
from airflow.sdk.exceptions import AirflowFailException

from batchmark.config import load_config
from batchmark.leak_records import ENDABLE, Limits
from batchmark.store import RunStore, guard_key

if TYPE_CHECKING:
    from airflow.sdk import Context

    from batchmark.leak_guard import RunState
    from batchmark.leak_records import RunName

# The DAGs that submit jobs: where a job's run is looked for when its tags name no DAG.
SUBMITTING_DAGS = ("gpu_cpu_benchmark", "noise_calibration")
LIVE_RUN = ["queued", "running"]
# For the filters of the topic's subscribers, as alerts have them.
ATTRIBUTES = {"kind": ("leak",), "state": ("open",)}


def leak_params() -> dict[str, Param]:
    """Fields of leak_guard's form; its schedule runs with the defaults."""
    return {
        "end_leaks": Param(
            ["jobs"],
            type="array",
            items={"type": "string", "enum": list(ENDABLE)},
            examples=list(ENDABLE),
            description="What may be ended. jobs: those whose run is over. jobs_of_unknown_runs "
            "may be another Airflow's. A file system is deleted with what it holds.",
        ),
        **{
            name: Param(field.default, type="number", minimum=0, description=field.description)
            for name, field in Limits.model_fields.items()
        },
    }


def look_for_leaks(context: Context) -> str:
    """Find what no run needs, end what may be ended, and return the key of what was found."""
    from datetime import UTC, datetime
    from functools import cache

    from batchmark.batch_environment import aws_clients
    from batchmark.leak_guard import end_leaks, look

    config, params = load_config(), context["params"]
    clients = aws_clients(config.region)
    ti = context["ti"]
    limits = Limits(**{name: params[name] for name in Limits.model_fields})
    # Asked once per run while looking, and again before anything is ended.
    found = look(
        config,
        clients,
        cache(lambda run: _run_state(ti, run)),
        limits=limits,
        now=datetime.now(UTC),
    )
    report = end_leaks(
        found, clients, cache(lambda run: _run_state(ti, run)), may_end=params["end_leaks"]
    )
    store = RunStore.of(config, context["run_id"])
    return store.put(_guard_key(context, "json"), report.model_dump_json(indent=2))


def report_leaks(context: Context, found_key: str) -> str:
    """Publish what was found as a page, and alert where something leaked.

    Raises:
        AirflowFailException: after publishing, with every leak, or with what AWS did not tell.
    """
    from rich.console import Console

    from batchmark.alerts.sending import publish
    from batchmark.guard_terminal import guard_table
    from batchmark.leak_records import GuardReport

    config = load_config()
    store = RunStore.of(config, context["run_id"])
    report = GuardReport.model_validate_json(store.read(found_key))
    console = Console(width=200, record=True)
    console.print(guard_table(report))
    key = store.put(_guard_key(context, "html"), console.export_html(), "text/html")
    print(f"Leak guard: {report.summary}. {store.object_url(key)}")
    for line in report.unread:
        print(f"Not looked at: {line}")
    if alarm := report.alarm():
        text = f"{len(report.of('leaked'))} leak(s) of {config.name}:\n{alarm}"
        subject = f"Batchmark {config.name}: something runs that no run needs"
        publish(config, subject, f"{text}\n\n{store.object_url(key)}", ATTRIBUTES)
        raise AirflowFailException(text)
    if report.unread:
        raise AirflowFailException("not all could be looked at: " + "; ".join(report.unread))
    return key


def _run_state(ti: Any, run: RunName) -> RunState:
    """What Airflow says of a run, in the DAG its job names or in all that submit jobs."""
    dag_ids = (run.dag_id,) if run.dag_id else SUBMITTING_DAGS

    def runs(states: list[str] | None) -> int:
        return sum(
            ti.get_dr_count(dag_id=dag_id, run_ids=[run.run_id], states=states)
            for dag_id in dag_ids
        )

    if runs(LIVE_RUN):
        return "live"
    return "over" if runs(None) else "unknown"


def _guard_key(context: Context, ending: str) -> str:
    run_after = context["dag_run"].run_after
    return guard_key(f"{run_after:%Y-%m-%d}", context["run_id"], ending)
