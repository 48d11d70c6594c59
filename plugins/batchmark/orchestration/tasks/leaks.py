"""The tasks of the DAG `leak_guard`."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import cache
from typing import Any

from airflow.sdk import Context, Param
from airflow.sdk.exceptions import AirflowFailException

from batchmark.aws.result_bucket import RunStore, dated_key
from batchmark.checks.leak_judge import RunState
from batchmark.checks.leak_records import ENDABLE, LeakAges, RunName
from batchmark.core.errors import ConfigError
from batchmark.core.kinds import SUBMITTING
from batchmark.orchestration.publishing import publish_page
from batchmark.orchestration.settings import (
    load_cluster_if_any,
    load_config,
    load_multi_node_if_any,
)
from batchmark.orchestration.telling import tell

LIVE_RUN = ["queued", "running"]
# For the topic's subscription filters, as alerts have them.
ATTRIBUTES = {"kind": ("leak",), "state": ("open",)}


def leak_params() -> dict[str, Param]:
    """Return the trigger form's fields; scheduled runs use the defaults."""
    return {
        "end_leaks": Param(
            ["jobs", "run_file_systems"],
            type="array",
            items={"type": "string", "enum": list(ENDABLE)},
            examples=list(ENDABLE),
            description="What the guard may end. jobs: jobs whose run is over. "
            "jobs_of_unknown_runs: jobs that may belong to another Airflow deployment. "
            "instances: idle instances. run_file_systems: file systems that a run created for "
            "itself, with copies of files in S3; if this Airflow does not know the run, only "
            "once they are older than file_system_hours. file_systems: all other file systems, "
            "including their files. nodes: the EKS cluster's GPU node.",
        ),
        **{
            name: Param(field.default, type="number", minimum=0, description=field.description)
            for name, field in LeakAges.model_fields.items()
        },
    }


def look_for_leaks(context: Context) -> str:
    """Find resources that no run needs and end those the form allows; return the report's key."""
    from batchmark.aws.boto_clients import patient_clients
    from batchmark.checks.leaks import end_leaks, find_leaks
    from batchmark.runs.own_jobs.known_queues import remembered

    params, cluster, config = context["params"], load_cluster_if_any(), load_config()
    nodes, unread = None, list[str]()
    try:
        if nodes := load_multi_node_if_any():
            config = nodes.joined_to(config)
    except ConfigError as error:  # file systems carry all that it takes to end them
        nodes = None
        unread.append(f"multi-node jobs: {error}")
    clients = patient_clients(config.region)
    ti = context["ti"]
    limits = LeakAges(**{name: params[name] for name in LeakAges.model_fields})
    store, now = RunStore.of(config, context["run_id"]), datetime.now(UTC)
    # Each run's state is asked for once for the search, and again before anything is ended.
    found = find_leaks(
        config,
        clients,
        cache(lambda run: _run_state(ti, run)),
        limits=limits,
        now=now,
        cluster=cluster,
        nodes=nodes,
        queues=remembered(store, now),
    )
    report = end_leaks(
        found,
        clients,
        cache(lambda run: _run_state(ti, run)),
        may_end=params["end_leaks"],
        cluster=cluster,
        nodes=nodes,
    )
    report = report.model_copy(update={"unread": (*report.unread, *unread)})
    return store.put(_guard_key(context, "json"), report.model_dump_json(indent=2))


def report_leaks(context: Context, found_key: str) -> str:
    """Publish the report as a page, and send an alert if something has leaked.

    Everything is logged before it is published.

    Raises:
        AirflowFailException: something leaked or couldn't be checked; raised after publishing.
        AlertError: something leaked but the alert couldn't be sent; a retry will send it.
    """
    from batchmark.changes.alerts.delivering import UnsureError
    from batchmark.checks.leak_records import GuardReport
    from batchmark.core.errors import AlertError
    from batchmark.orchestration.channels import publish
    from batchmark.report.pages.table_pages import guard_page

    config = load_config()
    store = RunStore.of(config, context["run_id"])
    report = GuardReport.model_validate_json(store.read(found_key))
    text = ""
    if alarm := report.alarm():
        text = f"{len(report.of('leaked'))} leak(s) of {config.name}:\n{alarm}"
        tell(text)
    key = _guard_key(context, "html")
    publish_page(context, store, key, guard_page(report), "Report:")
    if text and config.topic_arn is None:
        raise AirflowFailException(f"{text}\nNo alert was sent: no topic is configured")
    if text:
        subject = f"Batchmark {config.name}: there are running resources that no run needs"
        try:
            publish(config, subject, f"{text}\n\n{store.object_url(key)}", ATTRIBUTES)
        except UnsureError as error:  # a retry might send it twice
            raise AirflowFailException(
                f"{text}\nThe alert may not have arrived: {error}"
            ) from error
        except AlertError as error:
            raise AlertError(f"{text}\nThe alert could not be sent: {error}") from error
        raise AirflowFailException(text)
    if report.unread:
        raise AirflowFailException("not everything could be checked: " + "; ".join(report.unread))
    return key


def _run_state(ti: Any, run: RunName) -> RunState:
    """Look up a run's state in its DAG or, if that is unknown, in all DAGs that submit jobs."""
    dag_ids = (run.dag_id,) if run.dag_id else SUBMITTING

    def runs(states: list[str] | None) -> int:
        return sum(
            ti.get_dr_count(dag_id=dag_id, run_ids=[run.run_id], states=states)
            for dag_id in dag_ids
        )

    if runs(LIVE_RUN):
        return "live"
    return "over" if runs(None) else "unknown"


def _guard_key(context: Context, ending: str) -> str:
    return dated_key("guard", context["dag_run"].run_after, context["run_id"], ending)
