"""The guards through the real chain: a check that passes, one that fails, leaks that are ended."""

import json

import pytest

from batchmark.aws.result_bucket import ENVIRONMENT_HTML, ENVIRONMENT_JSON
from batchmark.core.names import slug
from laptop.demo import DAG_ID
from tests.e2e.stacks import failed_log, job_ids, run_dag, store_of
from tests.waiting import wait_for

GUARD = "leak_guard"


@pytest.fixture(scope="module")
def batch(aws):
    return aws.client("batch")


def checks(aws, run_id):
    store = store_of(aws, run_id)
    return json.loads(store.read(store.prefix + ENVIRONMENT_JSON))["checks"]


def test_a_healthy_installation_passes_its_check(airflow, aws):
    run_id = run_dag(airflow, "environment_check", {})
    found = checks(aws, run_id)
    assert {one["status"] for one in found} == {"ok"}
    assert "image scan" not in {one["name"] for one in found}  # nothing scans a local cloud's
    assert sum(one["name"] == "vCPU quota" for one in found) == 4
    assert sum(one["name"] == "compute environment" for one in found) == 4
    assert sum(one["name"] == "job queue" for one in found) == 4
    store = store_of(aws, run_id)
    assert b"batchmark in us-east-1, checked on" in store.read(store.prefix + ENVIRONMENT_HTML)


def test_a_broken_installation_stops_a_benchmark_before_it_costs_money(airflow, aws, batch):
    queue, before = aws.config().targets["c5.2xlarge"].job_queue, job_ids(aws)
    batch.update_job_queue(jobQueue=queue, state="DISABLED")
    run_id = run_dag(airflow, DAG_ID, {"suite": "smoke"}, "failed")
    batch.update_job_queue(jobQueue=queue, state="ENABLED")
    told = "1 check(s) failed, so nothing is submitted:"
    log = failed_log(airflow, DAG_ID, run_id, "check_environment", told)
    assert "job queue of c5.2xlarge: batchmark-c5-2xlarge is DISABLED and VALID" in log
    states = {task["task_id"]: task["state"] for task in airflow.task_instances(DAG_ID, run_id)}
    assert states["plan_jobs"] == states["run_benchmark"] == "upstream_failed"
    assert job_ids(aws) == before


def submit(aws, batch, name, **more):
    """A job that sleeps for longer than any of these tests."""
    published = aws.config().targets["c5.2xlarge"]
    return batch.submit_job(
        jobName=name,
        jobQueue=published.job_queue,
        jobDefinition=published.job_definition,
        containerOverrides={"command": ["python", "-c", "import time; time.sleep(3600)"]},
        **more,
    )["jobId"]


def status(batch, job_id):
    return batch.describe_jobs(jobs=[job_id])["jobs"][0]["status"]


@pytest.fixture
def leaks(aws, batch, calibration):
    """A job of a run that is over, one that somebody submitted, and an instance nobody uses."""
    tags = {
        "batchmark:installation": "batchmark",
        "batchmark:run": slug(calibration),
        "batchmark:target": "c5.2xlarge",
    }
    leaked = submit(aws, batch, "leaked", parameters={"run_id": calibration}, tags=tags)
    by_hand = submit(aws, batch, "by-hand")
    ec2 = aws.client("ec2")
    template = next(
        one
        for one in ec2.describe_launch_templates()["LaunchTemplates"]
        if "-g4dn-xlarge-" in one["LaunchTemplateName"]
    )
    (version,) = ec2.describe_launch_template_versions(
        LaunchTemplateId=template["LaunchTemplateId"], Versions=["$Latest"]
    )["LaunchTemplateVersions"]
    of_instances = [
        one
        for one in version["LaunchTemplateData"]["TagSpecifications"]
        if one["ResourceType"] == "instance"
    ]
    image = ec2.describe_images(Owners=["amazon"])["Images"][0]["ImageId"]
    (instance,) = ec2.run_instances(
        ImageId=image,
        InstanceType="g4dn.xlarge",
        MinCount=1,
        MaxCount=1,
        TagSpecifications=of_instances,
    )["Instances"]
    yield {"leaked": leaked, "by hand": by_hand, "instance": instance["InstanceId"]}
    for job_id in (leaked, by_hand):
        batch.terminate_job(jobId=job_id, reason="the test is over")
    ec2.terminate_instances(InstanceIds=[instance["InstanceId"]])


def look(aws, run_id):
    """What a run of the guard wrote."""
    store = store_of(aws, run_id)
    (key,) = [key for key in store.keys("guard/") if key.endswith(f"/{slug(run_id)}.json")]
    report = json.loads(store.read(key))
    return {one["id"]: one for one in report["resources"]}


def alerts(stack):
    lines = [json.loads(line) for line in stack.calls.read_text().splitlines()]
    return [
        call["status"]
        for call in lines
        if (call["access_key_id"], call["operation"]) == ("airflow", "Publish")
    ]


def test_leaks_are_found_ended_where_allowed_and_told(stack, airflow, aws, batch, leaks):
    conf = {"grace_minutes": 0, "idle_minutes": 0, "end_leaks": ["jobs", "instances"]}
    told_before = len(alerts(stack))
    run_id = run_dag(airflow, GUARD, conf, "failed")
    found = look(aws, run_id)
    assert {id_: (one["verdict"], one["ended"]) for id_, one in found.items()} == {
        leaks["leaked"]: ("leaked", True),
        leaks["by hand"]: ("by hand", False),
        leaks["instance"]: ("leaked", True),
    }
    log = failed_log(airflow, GUARD, run_id, "report_leaks", "2 leak(s) of batchmark:")
    assert f"job {leaks['leaked']} (leaked, " in log
    assert alerts(stack)[told_before:] == [200]

    wait_for(lambda: status(batch, leaks["leaked"]) == "FAILED", "end of the leaked job")
    assert status(batch, leaks["by hand"]) not in ("FAILED", "SUCCEEDED")
    (job,) = batch.describe_jobs(jobs=[leaks["leaked"]])["jobs"]
    assert "leak guard: its Airflow run is over" in job["statusReason"]

    run_id = run_dag(airflow, GUARD, conf)
    assert [one["verdict"] for one in look(aws, run_id).values()] == ["by hand"]
