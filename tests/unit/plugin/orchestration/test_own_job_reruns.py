"""Which own jobs are measured again, and how."""

import pytest

from batchmark.analysis.samples import parameters_json
from batchmark.core.own_jobs import OwnJobRun
from batchmark.orchestration.reruns import can_be_repeated, plan_round
from batchmark.runs.plans.own_job_plan import plan_own_jobs
from batchmark.runs.plans.planning import all_operator_kwargs
from tests.builders.changed_series import build_key
from tests.builders.existing_jobs import own_jobs
from tests.builders.installations import configured


def own_row(**parameters):
    fields = {"parameters": parameters_json(parameters), "dtype": "none"}
    return build_key("g5.xlarge", "thumbnails", suite="job-thumbnails", **fields)


def test_a_fresh_own_job_is_of_the_rows_size():
    jobs = plan_own_jobs(
        configured(), own_jobs(), OwnJobRun(job="thumbnails", repeats=2), run_name="run"
    )
    plan = plan_round(1, jobs, [own_row(size=256, start="warm")])
    assert {(job.target, job.own_job.size) for job in plan.jobs} == {("g5.xlarge", 256)}
    (job, *_) = plan.jobs
    assert (job.repeat, job.purpose) == (4, "confirmation")
    assert job.result_prefix.endswith("/g5.xlarge/job-thumbnails-size-256/4/")
    (kwargs, *_) = all_operator_kwargs(configured(), "run", plan.jobs)
    assert kwargs["parameters"]["size"] == "256"
    both = plan_round(1, jobs, [own_row(size=256), own_row(size=64, metric="rate")])
    assert {job.own_job.size for job in both.jobs} == {64, 256}


def test_an_own_job_without_an_axis_is_repeated_as_it_is():
    one = own_jobs(axis=None, command=["convert"])
    jobs = plan_own_jobs(configured(), one, OwnJobRun(job="thumbnails", repeats=1), run_name="run")
    (job, *_) = plan_round(1, jobs, [own_row(start="warm")]).jobs
    assert job.own_job.size is None


@pytest.mark.parametrize(("start", "can"), [("cold", False), ("warm", True)])
def test_nobody_can_ask_for_a_cold_instance(start, can):
    assert can_be_repeated(own_row(size=256, start=start)) is can
    assert can_be_repeated(own_row(size=256))
