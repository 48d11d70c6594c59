"""Commands of the docs, as they stand there, beside a stack that is applied and runs."""

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from unittest.mock import patch

import pytest
from airflow.configuration import get_custom_secret_backend

from batchmark.changes.alerts.store import FOLDER, AlertStore
from batchmark_job.result.document import parse_document
from laptop import up
from tests.builders.alerts import message, opened
from tests.builders.lustre import Lustre
from tests.documented import documented, the_block, the_command, typed_to_aws
from tests.e2e.stacks import store_of, type_beside, wait_for_end
from tests.waiting import wait_for

ONLY_WITH_A_ROLE = "terraform output airflow_role_arn"
OF_ANOTHER_STACK = (
    "terraform output -raw manifests | kubectl apply -f -"  # see test_optional_stacks
)


def test_each_output_is_there(stack, tmp_path):
    for command in documented("terraform output"):
        if command not in {ONLY_WITH_A_ROLE, OF_ANOTHER_STACK}:
            assert type_beside(stack, command, tmp_path), command


def test_the_settings_of_airflow_read_what_terraform_published(stack, aws):
    lines = the_block("AIRFLOW__SECRETS__BACKEND=")
    settings = dict(line.split("=", 1) for line in lines)
    with patch.dict(os.environ, {**stack.aws, **settings}):
        published = get_custom_secret_backend().get_variable("batchmark")
    assert json.loads(published)["bucket"] == aws.config().bucket


def test_the_months_costs_are_copied_and_shown(stack, calibration, tmp_path):
    block = the_block("BUCKET=$(terraform output -raw bucket_name)")
    shown = type_beside(stack, "\n".join(block), tmp_path)
    assert f"costs/{datetime.now(UTC):%Y-%m}/" in shown
    assert '"run_id"' in shown
    assert list((tmp_path / "costs").glob("*.json"))


def test_a_shell_with_the_file_of_up_shows_history_and_bucket(stack, aws, calibration, tmp_path):
    folder = tmp_path / "build" / "up"
    folder.mkdir(parents=True)
    (folder / up.SHELL).write_text(up._for_a_shell(stack))
    bucket = aws.config().bucket
    history, listed = (
        type_beside(stack, command, tmp_path, BUCKET=bucket)
        for command in the_block("(. build/up/aws.env && .venv/bin/batchmark history")
    )
    assert "suite own: " in history
    assert " history/suite=own/" in listed


@pytest.fixture
def alert(aws, calibration):
    """An open alert with the id that the docs name."""
    command = the_command("airflow dags trigger change_alert")
    store = store_of(aws, calibration)
    made = opened()[0].model_copy(update={"id": command.split('"')[3]})
    AlertStore(store).apply(message(opened=(made,)))
    yield made
    aws.client("s3").delete_object(Bucket=aws.config().bucket, Key=f"{FOLDER}{made.id}.json")


def test_airflows_command_changes_an_alert_and_lists_errors(stack, airflow, aws, alert, tmp_path):
    dag_id = "change_alert"
    airflow.wait_for_dag(dag_id)
    airflow.unpause(dag_id)
    starts = ("airflow dags list-import-errors", f"airflow dags trigger {dag_id} ")
    with ThreadPoolExecutor() as beside:
        errors, _ = beside.map(
            lambda start: type_beside(stack, the_command(start), tmp_path), starts
        )
    assert "No data found" in errors
    assert wait_for_end(airflow, dag_id, airflow.newest_run(dag_id)) == "success"
    (changed,) = [one for one in AlertStore(store_of(aws, "any")).alerts() if one.id == alert.id]
    assert (changed.state, changed.transitions[-1].note) == ("acknowledged", "the new tokenizer")


def test_what_a_first_apply_asks_of_aws_is_answered(stack, aws):
    def asked(start, **placeholders):
        return typed_to_aws(the_command(start), stack.aws, **placeholders)

    assert "G and VT" in asked("aws service-quotas list-service-quotas ")
    offered = "aws ec2 describe-instance-type-offerings "
    for command in documented(offered):
        assert "us-east-1a" in typed_to_aws(command.replace("TYPE", "g5.xlarge"), stack.aws)
    environments = "aws batch describe-compute-environments "
    (table,) = [command for command in documented(environments) if "table" in command]
    assert "| ENABLED" in typed_to_aws(table, stack.aws).replace("|  ", "| ")
    running = the_command("aws ec2 describe-instances ").replace("NAME", "batchmark")
    assert json.loads(typed_to_aws(running, stack.aws)) == []


@pytest.fixture
def instance(aws):
    ec2 = aws.client("ec2")
    image = ec2.describe_images(Owners=["amazon"])["Images"][0]["ImageId"]
    (made,) = ec2.run_instances(ImageId=image, MinCount=1, MaxCount=1)["Instances"]
    return made["InstanceId"]


@pytest.fixture
def file_system(aws):
    return Lustre(aws.client).create()


def test_a_leak_is_looked_at_and_ended_by_hand(stack, aws, instance, file_system):
    def asked(start, id_):
        return json.loads(typed_to_aws(the_command(start), stack.aws, ID=id_))

    assert asked("aws ec2 get-console-output ", instance)["InstanceId"] == instance
    (ended,) = asked("aws ec2 terminate-instances ", instance)["TerminatingInstances"]
    assert ended["CurrentState"]["Name"] == "shutting-down"
    deleted = asked("aws fsx delete-file-system ", file_system)
    assert (deleted["FileSystemId"], deleted["Lifecycle"]) == (file_system, "DELETING")


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
            wait_for(lambda id_=job_id: described(id_)["status"] == "RUNNABLE", "waiting job")
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


@pytest.mark.parametrize(
    ("output", "target"),
    [("submit_gpu_job_command", "g4dn.xlarge"), ("submit_cpu_job_command", "c5.2xlarge")],
)
def test_a_printed_submit_command_runs_a_job(stack, aws, output, target):
    command = stack.terraform.outputs()[output][target]
    tools = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    env = {"PATH": tools, "HOME": str(stack.folder), "AWS_PAGER": "", **stack.aws}
    typed = subprocess.run(
        ["bash", "-c", command], env=env, capture_output=True, text=True, check=False
    )
    assert typed.returncode == 0, typed.stderr
    job_id = json.loads(typed.stdout)["jobId"]
    batch = aws.client("batch")

    def succeeded():
        (job,) = batch.describe_jobs(jobs=[job_id])["jobs"]
        assert job["status"] != "FAILED", job["statusReason"]
        return job["status"] == "SUCCEEDED"

    wait_for(succeeded, f"end of job {job_id}", every=0.5)
    store = store_of(aws, "manual")
    documents = map(parse_document, map(store.read, store.keys(f"raw/manual/{target}/")))
    (document,) = [document for document in documents if document.job_id == job_id]
    assert document.target == target
