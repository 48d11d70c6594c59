"""How jobs are described and listed."""

import itertools

import pytest

from tests.stand_ins.local_batch import requirements


def container(batch, job_id):
    return batch.describe(job_id)["container"]


def test_old_and_new_resource_fields_are_described_where_they_were(batch, queue):
    old = {"image": "image", "vcpus": 2, "memory": 8}
    named = {"jobDefinitionName": "definition", "type": "container"}
    batch.call("RegisterJobDefinition", **named, containerProperties=old)
    described = container(batch, batch.submit())
    assert (described["vcpus"], described["memory"]) == (2, 8)
    assert described["resourceRequirements"] == []
    overridden = container(batch, batch.submit(containerOverrides={"memory": 16}))
    assert (overridden["vcpus"], overridden["memory"]) == (2, 16)
    needs = requirements(GPU=1, VCPU=3)
    batch.define(container={"memory": 8, "resourceRequirements": needs})
    described = container(batch, batch.submit())
    assert described["memory"] == 8
    assert "vcpus" not in described
    assert sorted(described["resourceRequirements"], key=str) == needs


def test_a_job_stops_when_its_last_attempt_does(batch, queue, monkeypatch):
    ticks = itertools.count(1)
    for module in ("jobs.job", "running.attempt"):
        monkeypatch.setattr(f"local_cloud.batch.{module}.now_milliseconds", lambda: next(ticks))
    job = batch.finish(batch.submit())
    (attempt,) = job["attempts"]
    assert job["status"] == "SUCCEEDED"
    assert (job["startedAt"], job["stoppedAt"]) == (attempt["startedAt"], attempt["stoppedAt"])


def test_a_child_of_an_array_has_an_index_and_its_parent_the_size(batch, queue):
    parent = batch.submit(arrayProperties={"size": 3})
    assert batch.describe(parent)["arrayProperties"]["size"] == 3
    assert batch.describe(f"{parent}:2")["arrayProperties"] == {"index": 2}


@pytest.mark.parametrize(
    ("needs", "options"),
    [
        ({"VCPU": 8, "MEMORY": 1024, "GPU": 2}, "--vcpus 8 --gpus 2"),
        ({"VCPU": 1, "MEMORY": 8192}, "--memory 8192"),
    ],
)
def test_a_job_that_fits_nowhere_says_how_the_pool_is_made_large_enough(
    batch, queue, needs, options
):
    batch.define(needs=needs)
    stuck = batch.submit()
    job = batch.describe(stuck)
    assert job["status"] == "RUNNABLE"
    assert job["statusReason"].startswith("MISCONFIGURATION:JOB_RESOURCE_REQUIREMENT - ")
    assert "pool has 4 vCPUs, 4096 MiB and 0 GPUs" in job["statusReason"]
    assert job["statusReason"].endswith(f"restart it with at least {options}.")
    batch.define("small")
    assert batch.finish(batch.submit(definition="small"))["status"] == "SUCCEEDED"
    batch.call("CancelJob", jobId=stuck, reason="seen enough")
    assert batch.describe(stuck)["status"] == "FAILED"


def test_a_job_above_its_environments_maximum_stays_runnable(batch):
    batch.environment(maxvCpus=2)
    batch.queue()
    batch.define(needs={"VCPU": 3})
    job = batch.describe(batch.submit())
    assert job["status"] == "RUNNABLE"
    assert job["statusReason"].startswith("MISCONFIGURATION:COMPUTE_ENVIRONMENT_MAX_RESOURCE")


def test_jobs_are_described_in_the_order_asked_for_and_unknown_ones_left_out(batch, queue):
    first, second = batch.submit(), batch.submit()
    jobs = batch.call("DescribeJobs", jobs=[second, "no-such-job", first])["jobs"]
    assert [job["jobId"] for job in jobs] == [second, first]


@pytest.mark.parametrize("count", [4, 5])
def test_jobs_are_listed_in_pages_of_which_the_last_has_no_token(batch, queue, count):
    ids = [batch.submit() for _ in range(count)]
    for job_id in ids:
        batch.finish(job_id)
    listed, token = [], {}
    while not listed or token:
        page = batch.call("ListJobs", jobQueue=queue, jobStatus="SUCCEEDED", maxResults=2, **token)
        listed.append([job["jobId"] for job in page["jobSummaryList"]])
        token = {"nextToken": page["nextToken"]} if "nextToken" in page else {}
    assert listed == [ids[start : start + 2] for start in range(0, count, 2)]
