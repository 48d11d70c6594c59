"""The DAG diagnose_queue through Airflow, on what Terraform made in the local cloud."""

import pytest

from batchmark.aws.result_bucket import DIAGNOSES_FOLDER
from batchmark.report.diagnosis_page import DiagnosisReport
from tests.e2e.stacks import run_dag, store_of

DAG_ID = "diagnose_queue"

pytestmark = pytest.mark.timeout(600)


def diagnose(airflow, aws, targets):
    """Run the DAG; return its stored report, its page and its task's log."""
    run_id, state = run_dag(airflow, DAG_ID, {"targets": targets})
    assert state == "success"
    store = store_of(aws, run_id)
    key = f"{DIAGNOSES_FOLDER}{store.name}"
    report = DiagnosisReport.model_validate_json(store.read(f"{key}.json"))
    (task,) = airflow.task_instances(DAG_ID, run_id)
    return report, store.read(f"{key}.html").decode(), airflow.task_log(task)


def test_a_disabled_environment_is_found_and_the_rest_is_well(airflow, aws):
    target = aws.config().targets["c5.2xlarge"]
    batch, name = aws.client("batch"), target.compute_environments.on_demand
    batch.update_compute_environment(computeEnvironment=name, state="DISABLED")
    try:
        report, page, log = diagnose(airflow, aws, ["c5.2xlarge"])
    finally:
        batch.update_compute_environment(computeEnvironment=name, state="ENABLED")

    by_queue = {one.queue: one for one in report.diagnoses}
    on_demand = by_queue.pop(target.on_demand_queue.rpartition("/")[2])
    (spot_first,) = by_queue.values()
    for diagnosis, certain in ((on_demand, True), (spot_first, False)):
        assert diagnosis.unread == ()
        causes = {one.cause: one for one in diagnosis.findings}
        assert causes["environment_disabled"].certain is certain
        assert name in causes["environment_disabled"].evidence
        assert set(causes) == {"environment_disabled"}
    assert name in page
    assert "environment_disabled" in log
