"""What the DAG `diagnose_queue` does."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow.sdk.exceptions import AirflowFailException

from batchmark.config import load_config
from batchmark.exceptions import BatchmarkError
from batchmark.planning import check_targets
from batchmark.store import DIAGNOSES_FOLDER, RunStore

if TYPE_CHECKING:
    from airflow.sdk import Context


def diagnose_queues(context: Context) -> str:
    """Diagnose each chosen target's queues; print a table, store it, return the page's key.

    Raises:
        AirflowFailException: the configuration can't be used, or a target is unknown.
    """
    from datetime import UTC, datetime

    from rich.console import Console

    from batchmark.batch_environment import aws_clients, published_queues
    from batchmark.diagnosis import diagnose
    from batchmark.diagnosis.page import DiagnosisReport, render_html, render_table

    try:
        config = load_config()
        targets = check_targets(config, context["params"]["targets"], need_both_devices=False)
    except BatchmarkError as error:
        raise AirflowFailException(str(error)) from error  # it would fail again
    clients = aws_clients(config.region)
    now = datetime.now(UTC)
    report = DiagnosisReport(
        created_at=now,
        region=config.region,
        diagnoses=tuple(
            diagnose(
                clients,
                queue=queue,
                job_definition=config.targets[name].job_definition,
                events_log_group=config.events_log_group,
                now=now,
            )
            for name in targets
            for queue in published_queues({name: config.targets[name]})
        ),
    )
    render_table(report, Console(width=200))
    store = RunStore.of(config, context["run_id"])
    prefix = f"{DIAGNOSES_FOLDER}{store.name}"
    store.put(f"{prefix}.json", report.model_dump_json(indent=2))
    key = store.put(f"{prefix}.html", render_html(report), "text/html")
    print(f"Diagnosis: {store.object_url(key)}")
    return key
