"""The task of the DAG `diagnose_queue`."""

from __future__ import annotations

from datetime import UTC, datetime

from airflow.sdk import Context
from airflow.sdk.exceptions import AirflowFailException

from batchmark.aws.result_bucket import DIAGNOSES_FOLDER, RunStore
from batchmark.core.errors import BatchmarkError
from batchmark.core.names import slug
from batchmark.orchestration.publishing import publish_page
from batchmark.orchestration.settings import load_config
from batchmark.runs.plans.planning import check_targets


def diagnose_queues(context: Context) -> str:
    """Diagnose the chosen targets' queues, publish the result, and return the page's key.

    Raises:
        AirflowFailException: the configuration is invalid, or a target is unknown.
    """
    from batchmark.aws.batch_targets import published_queues
    from batchmark.aws.boto_clients import patient_clients
    from batchmark.checks.diagnosis.diagnose import diagnose
    from batchmark.report.pages.table_pages import DiagnosisReport, diagnosis_page

    try:
        config = load_config()
        targets = check_targets(config, context["params"]["targets"] or [], need_both_devices=False)
    except BatchmarkError as error:
        raise AirflowFailException(str(error)) from error  # it would fail again
    clients = patient_clients(config.region)
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
    store = RunStore.of(config, context["run_id"])
    prefix = f"{DIAGNOSES_FOLDER}{slug(context['run_id'])}"
    store.put(f"{prefix}.json", report.model_dump_json(indent=2))
    return publish_page(context, store, f"{prefix}.html", diagnosis_page(report), "Diagnosis:")
