"""Queues and definitions that no Terraform of ours made: found, submitted to, and looked into."""

from datetime import UTC, datetime, timedelta

import pytest

from batchmark.checks.leak_records import LeakAges
from batchmark.checks.leaks import end_leaks, find_leaks
from batchmark.core.errors import PlanError
from batchmark.core.own_jobs import ComparisonRun, OwnJobPlan
from batchmark.core.prices import load_prices
from batchmark.runs.own_jobs.discovery import discover
from batchmark.runs.own_jobs.sides import parse_sides
from batchmark.runs.own_jobs.wrapper import container_overrides
from batchmark.runs.plans.own_job_plan import plan_comparison
from batchmark.runs.plans.planning import all_operator_kwargs
from tests.builders.installations import configured

RUN_ID = "manual__comparison"


@pytest.fixture(scope="module")
def queue(cloud):
    """A queue of two instance types."""
    dearer = cloud.create_compute_environment(
        "plain", instanceTypes=["c5.2xlarge", "c5.4xlarge"], type="EC2"
    )
    return cloud.create_queue(compute_environment=dearer)


@pytest.fixture(scope="module")
def definition(cloud):
    return cloud.define(
        ["sh", "-c", "echo size Ref::size of $MODE $0", "Ref::size"],
        parameters={"size": "1"},
        timeout={"attemptDurationSeconds": 600},
    )


def submitted(cloud, kwargs, name):
    """Submit as the operator does."""
    own_job = OwnJobPlan(**kwargs["document"]["own_job"], environment=kwargs["environment"])
    answer = cloud.batch.submit_job(
        jobName=name,
        jobQueue=kwargs["job_queue"],
        jobDefinition=kwargs["job_definition"],
        parameters=kwargs["parameters"],
        containerOverrides=container_overrides(own_job),
        tags=kwargs["tags"],
        timeout={"attemptDurationSeconds": kwargs["submit_job_timeout"]},
        retryStrategy=kwargs["retry_strategy"],
    )
    return answer["jobId"]


def planned(cloud, queue, definition, **changes):
    given = [
        {"name": "old", "job_queue": queue, "job_definition": definition},
        {
            "name": "new",
            "job_queue": queue.rpartition("/")[2],
            "job_definition": definition.rpartition("/")[2].partition(":")[0],
            "environment": {"MODE": "fast"},
        }
        | changes,
    ]
    found = discover(cloud.client, parse_sides(given), ["*"])
    found = {name: side.at_worst(load_prices()) for name, side in found.items()}
    targets = {name: side.target for name, side in found.items()}
    config = configured().model_copy(update={"targets": targets})
    wanted = ComparisonRun(name="echo", parameter="size", sizes=(8, 0.5), repeats=1)
    jobs = plan_comparison(config, found, wanted, run_name="run")
    return config, jobs


def test_sides_are_found_by_name_and_by_arn_and_their_jobs_run(cloud, queue, definition):
    config, jobs = planned(cloud, queue, definition)
    assert {job.instance_type for job in jobs} == {"c5.4xlarge"}, "the dearer of two"
    assert {target.job_definition for target in config.targets.values()} == {definition}
    ids = {
        (job.target, job.own_job.size): submitted(cloud, kwargs, f"{kwargs['job_name']}-{number}")
        for number, (job, kwargs) in enumerate(
            zip(jobs, all_operator_kwargs(config, RUN_ID, jobs), strict=True)
        )
    }
    lines = {key: cloud.output(job_id) for key, job_id in ids.items()}
    assert "size 8 of fast 8" in lines["new", 8]
    assert "size 0.5 of 0.5" in lines["old", 0.5]


def test_more_than_its_types_have_is_refused(cloud, queue, definition):
    fault = r"requests 1 GPU, but none of the queue.s instance types \(c5\.2xlarge, c5\.4xlarge\)"
    with pytest.raises(PlanError, match=fault):
        planned(cloud, queue, definition, gpus=1)
    with pytest.raises(
        PlanError, match="side 'new': there is no job queue 'nowhere' in this region"
    ):
        planned(cloud, queue, definition, job_queue="nowhere")


def test_the_guard_ends_what_is_ours_in_a_queue_of_others_and_nothing_else(
    cloud, queue, definition, gate
):
    config, jobs = planned(cloud, queue, definition, command=["sh", "-c", gate.script, "Ref::size"])
    (kwargs, *_) = [
        each
        for each in all_operator_kwargs(config, RUN_ID, jobs)
        if each["tags"]["batchmark:target"] == "new"
    ]
    ours = submitted(cloud, kwargs, "batchmark-new-1")
    theirs = submitted(cloud, kwargs | {"tags": {}}, "batchmark-new-1")
    installation = config.model_copy(update={"targets": {}})
    now = datetime.now(UTC) + timedelta(hours=1)
    asked = []

    def over(run):
        asked.append(run.run_id)
        return "over"

    gone = queue.replace("queue", "gone")
    report = find_leaks(
        installation, cloud.client, over, limits=LeakAges(), now=now, queues=[queue, gone]
    )
    found = [one for one in report.resources if one.kind == "job"]
    assert [(one.id, one.verdict) for one in found] == [(ours, "leaked")]
    assert asked == [RUN_ID]
    end_leaks(report, cloud.client, over, may_end=["jobs"])
    assert cloud.finish(ours)["status"] == "FAILED"
    gate.open()
    assert cloud.finish(theirs)["status"] == "SUCCEEDED"
