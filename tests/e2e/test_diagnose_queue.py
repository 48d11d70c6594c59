"""The DAG diagnose_queue through Airflow, on what Terraform created in the local cloud."""

import json

from batchmark.aws.result_bucket import DIAGNOSES_FOLDER
from batchmark.report.pages.table_pages import DiagnosisReport
from tests.documented import documented, the_block, the_command, typed_to_aws
from tests.e2e.stacks import run_dag, store_of, type_beside
from tests.waiting import wait_for

DAG_ID = "diagnose_queue"


def diagnose(airflow, aws, targets):
    """Run the DAG; return its stored report, its page and its task's log."""
    run_id = run_dag(airflow, DAG_ID, {"targets": targets})
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


def test_stuck_jobs_are_found_and_ended_by_hand(stack, aws, tmp_path):
    target = aws.config().targets["c5.2xlarge"]
    batch, environment = aws.client("batch"), target.compute_environments.on_demand
    queue = target.on_demand_queue.rpartition("/")[2]
    outputs, *block = the_block("terraform output targets")

    def asked(start, **placeholders):
        (command,) = [line for line in block if line.startswith(start)] or [the_command(start)]
        said = typed_to_aws(command, stack.aws, **placeholders)
        return said and json.loads(said)

    def submit():
        job = {"jobName": "stuck", "jobQueue": queue, "jobDefinition": target.job_definition}
        return batch.submit_job(**job)["jobId"]

    def described(job_id):
        return batch.describe_jobs(jobs=[job_id])["jobs"][0]

    batch.update_compute_environment(computeEnvironment=environment, state="DISABLED")
    try:
        ends = {submit(): command for command in documented("aws batch terminate-job ")}
        for job_id in ends:
            wait_for(lambda id_=job_id: described(id_)["status"] == "RUNNABLE", "waiting job", 60)
        assert f"job-queue/{queue}" in type_beside(stack, outputs, tmp_path)
        listed = asked("aws batch list-jobs", QUEUE=queue)["jobSummaryList"]
        assert {job["jobId"] for job in listed} == ends.keys()
        ((status, _),) = asked("aws batch describe-jobs", ID=job_id)
        assert status == "RUNNABLE"
        states = {name: state for name, state, *_ in asked("aws batch describe-compute-env")}
        assert states.pop(environment) == "DISABLED"
        assert set(states.values()) == {"ENABLED"}
        for job_id, command in ends.items():
            asked(command, ID=job_id)
        assert {described(job_id)["statusReason"] for job_id in ends} == {"leaked", "stuck"}
    finally:
        asked("aws batch update-compute-environment", NAME=environment)
    (enabled,) = batch.describe_compute_environments(computeEnvironments=[environment])[
        "computeEnvironments"
    ]
    assert enabled["state"] == "ENABLED"
    batch.update_job_queue(jobQueue=queue, state="DISABLED")
    asked("aws batch update-job-queue", QUEUE=queue)
    assert batch.describe_job_queues(jobQueues=[queue])["jobQueues"][0]["state"] == "ENABLED"
