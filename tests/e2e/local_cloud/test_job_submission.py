"""What submit_job refuses, and what list_jobs finds."""

import pytest
from botocore.exceptions import ClientError


@pytest.fixture(scope="module")
def definition(cloud):
    return cloud.define(["true"])


def test_a_definition_without_revision_is_the_latest_active_one(cloud):
    name = cloud.name("definition")
    arns = [
        cloud.batch.register_job_definition(
            jobDefinitionName=name,
            type="container",
            containerProperties=cloud.container(["echo", word]),
        )["jobDefinitionArn"]
        for word in ("one", "two", "three")
    ]
    cloud.batch.deregister_job_definition(jobDefinition=arns[2])
    assert cloud.output(cloud.submit(name)) == ["two"]
    assert cloud.output(cloud.submit(arns[0].rpartition(":")[0])) == ["two"]
    assert cloud.output(cloud.submit(f"{name}:1")) == ["one"]


def test_aws_minimum_timeout_holds_by_default(strict_cloud):
    with pytest.raises(ClientError, match="attemptDurationSeconds must be at least 60, not 59"):
        strict_cloud.define(["true"], timeout={"attemptDurationSeconds": 59})
    with pytest.raises(ClientError, match="attemptDurationSeconds must be at least 60"):
        strict_cloud.shell("true", timeout={"attemptDurationSeconds": 1})


def test_list_jobs_by_status(cloud, gate):
    queue = cloud.create_queue()
    running = cloud.shell(gate.script, queue=queue)
    cloud.wait_for(running, "RUNNING")
    failed = cloud.shell("exit 2", queue=queue)
    cloud.finish(failed)

    def listed(**fields):
        answer = cloud.batch.list_jobs(jobQueue=queue, **fields)
        return [job["jobId"] for job in answer["jobSummaryList"]]

    assert listed() == [running]
    assert listed(jobStatus="FAILED") == [failed]
    assert listed(jobStatus="SUCCEEDED") == []
    (summary,) = cloud.batch.list_jobs(jobQueue=queue, jobStatus="FAILED")["jobSummaryList"]
    assert summary["container"] == {"exitCode": 2}
    assert summary["statusReason"] == "Essential container in task exited"


def test_list_jobs_by_filter_newest_first(cloud, definition):
    queue = cloud.create_queue()
    names = ["alpha-1", "alpha-2", "beta-1"]
    ids = [cloud.submit(definition, queue=queue, jobName=name) for name in names]
    for job_id in ids:
        cloud.finish(job_id)

    def listed(name, *values):
        answer = cloud.batch.list_jobs(
            jobQueue=queue, filters=[{"name": name, "values": list(values)}]
        )
        return [job["jobName"] for job in answer["jobSummaryList"]]

    assert listed("JOB_NAME", "ALPHA-1") == ["alpha-1"]
    assert listed("JOB_NAME", "alpha*") == ["alpha-2", "alpha-1"]
    first_created = cloud.describe(ids[0])["createdAt"]
    assert listed("AFTER_CREATED_AT", str(first_created - 1)) == ["beta-1", "alpha-2", "alpha-1"]


def test_list_jobs_shows_array_parents_alone(cloud, definition):
    queue = cloud.create_queue()
    parent = cloud.submit(definition, queue=queue, arrayProperties={"size": 2})
    cloud.finish(parent)
    parents = cloud.batch.list_jobs(jobQueue=queue, jobStatus="SUCCEEDED")["jobSummaryList"]
    assert [job["jobId"] for job in parents] == [parent]
