"""Money in real DAG runs: shown by a dry run, and booked after a run."""

import json
import shutil

import pytest

from batchmark.aws.result_bucket import ENVIRONMENT_HTML, ENVIRONMENT_JSON, PLAN, PLAN_HTML
from batchmark.runs.spending import RunSpending
from laptop.demo import DAG_ID
from tests.documented import the_block, the_command, typed
from tests.e2e.stacks import job_ids, store_of, type_beside, wait_for_end


def triggered_from_a_shell(stack):
    """The id of the run that the block of docs/dags.md starts."""
    _, *rest = the_block("API=http://127.0.0.1:8080 PASSWORD=...")
    here = {"API": stack.airflow.url, "PASSWORD": stack.airflow.password}
    return json.loads(typed("\n".join(rest), stack.folder, here))["dag_run_id"]


def triggered_by_airflows_command(stack, airflow):
    """The run that docs/runbook.md starts. It would wait for the end of the other: it is ended."""
    command = the_command("airflow dags trigger gpu_cpu_benchmark --conf")
    type_beside(stack, command, stack.folder)
    run = airflow.dag_run(DAG_ID, airflow.newest_run(DAG_ID))
    airflow.cancel(DAG_ID, run["dag_run_id"])
    return run


@pytest.mark.skipif(not shutil.which("curl"), reason="needs curl, as the docs do")
def test_a_dry_run_from_a_shell_shows_the_plan_and_the_most_that_it_can_cost(airflow, aws, stack):
    before = job_ids(aws)
    airflow.wait_for_dag(DAG_ID)
    airflow.unpause(DAG_ID)
    by_api = triggered_from_a_shell(stack)
    by_command = triggered_by_airflows_command(stack, airflow)
    assert wait_for_end(airflow, DAG_ID, by_api) == "success"
    tasks = {task["task_id"]: task for task in airflow.task_instances(DAG_ID, by_api)}
    states = {name: task["state"] for name, task in tasks.items()}
    log = airflow.task_log(tasks["plan_jobs"])
    assert (states.pop("check_environment"), states.pop("plan_jobs")) == ("success", "success")
    assert set(states.values()) == {"skipped"}
    assert "What this run can cost at most" in log
    assert "$10.40" in log
    assert job_ids(aws) == before
    store = store_of(aws, by_api)
    written = {key.removeprefix(store.prefix) for key in store.keys(store.prefix)}
    assert written == {ENVIRONMENT_HTML, ENVIRONMENT_JSON, PLAN, PLAN_HTML}
    plan = store.plan()
    assert (plan.dry_run, len(plan.jobs), plan.worst_case.usd) == (True, 4, 10.4)
    assert plan.worst_case.prices_source.startswith("the local cloud's price file")
    assert by_command["conf"] == {"suite": "blog", "dry_run": True}


def test_after_a_run_its_cost_is_booked_and_told(calibration, airflow, aws):
    """Jobs of the local cloud cost nothing, and the log says what they could have cost in AWS."""
    store = store_of(aws, calibration)
    plan = store.plan()
    record = RunSpending.model_validate_json(store.read(plan.spending_key))
    assert record.finished
    assert list(record.job_usd.values()) == 4 * [0.0]
    (task,) = airflow.instances("noise_calibration", calibration, "publish_noise")
    log = airflow.task_log(task)
    assert all(job_id in log for job_id in record.job_usd)
    assert "No cost is shown for c5.2xlarge: its time was measured on a machine outside EC2." in log
    assert "Its worst case was $10.40 in AWS; on this machine it costs nothing." in log
    assert f"Runs of {record.planned_at:%Y-%m}: $" in log
