"""What a run did cost takes the place of the most that it could."""

import re

import pytest

from batchmark.analysis.cost import run_costs
from batchmark.aws.result_bucket import RunStore
from batchmark.core.run import RunPlan
from batchmark.orchestration.tasks import budget
from batchmark.orchestration.tasks import run as tasks
from tests.builders.runs import PRICES as TABLE
from tests.builders.runs import build_job, build_lost, build_row, build_run
from tests.stand_ins.planning import MONTH, RUN_ID
from tests.stand_ins.planning import benchmark_context as context

WORST = 8.08  # of both targets


def blog_job(usd, **fields):
    """A job of the run that cost so much."""
    seconds = 3600 * usd / TABLE.on_demand["c5.2xlarge"]
    fields |= {"batch_seconds": seconds, "purchase_option": "on_demand"}
    return build_job("c5.2xlarge", [build_row((0.1,) * 8)], **fields)


def settle(cloud, *jobs, lost=()):
    store = cloud.store(RUN_ID)
    budget.settle(store, cloud.config, store.plan(), build_run(*jobs, lost=lost))
    return cloud.record(RUN_ID)


def test_after_the_run_what_it_did_cost_is_booked(cloud):
    tasks.plan_jobs(context())
    gone = build_lost("g5.xlarge", "Batch no longer knows it", repeat=2)
    gone = gone.model_copy(update={"job_id": "gone"})
    failed = gone.model_copy(
        update={"job_id": "failed", "seconds": 1800.0, "instance_type": "g5.xlarge"}
    )
    record = settle(cloud, blog_job(0.17), lost=[gone, failed, build_lost("g5.xlarge", "")])
    assert record.finished
    assert record.job_usd == pytest.approx(
        {
            "c5-2xlarge-blog-1": 0.17,
            "gone": 6.04,  # how long it ran is not known, so the most that it can have cost
            "failed": 0.503,
        }
    )
    assert float(record.exact_usd) == pytest.approx(6.713)


def test_what_a_local_cloud_ran_is_booked_at_nothing(cloud, monkeypatch):
    tasks.plan_jobs(context())
    monkeypatch.setattr(RunStore, "is_aws", lambda self: False)
    record = settle(cloud, lost=[build_lost("g5.xlarge", "").model_copy(update={"job_id": "gone"})])
    assert record.job_usd == {"gone": 0.0}
    assert record.exact_usd == 0


def test_a_spoilt_record_is_written_anew_and_what_an_older_release_planned_is_not_booked(cloud):
    tasks.plan_jobs(context())
    cloud.put(f"costs/{MONTH}/{RUN_ID}.json", "spoilt")
    record = settle(cloud, blog_job(0.17))
    assert float(record.exact_usd) == pytest.approx(0.17)
    store = cloud.store(RUN_ID)
    budget.settle(store, cloud.config, RunPlan(jobs=()), build_run())
    assert cloud.record(RUN_ID) == record


def test_the_cost_is_told_job_by_job_with_the_most_it_could_be_and_the_months_sum(cloud, capsys):
    tasks.plan_jobs(context())
    run = build_run(
        blog_job(0.17),
        lost=[build_lost("g5.xlarge", "exit 3").model_copy(update={"job_id": "lost"})],
    )
    settle(cloud, *run.jobs, lost=run.lost)
    capsys.readouterr()
    budget.print_costs(cloud.store(RUN_ID), run_costs(run, TABLE), TABLE)
    said = capsys.readouterr().out
    assert "What this run's jobs cost" in said
    (line,) = [line for line in said.splitlines() if "c5-2xlarge-blog-1" in line]
    assert re.split(r" {2,}", line.strip()) == [
        "c5-2xlarge-blog-1",
        "c5.2xlarge",
        "On-Demand",
        "1",
        "1800 s",
        "$0.17",
    ]
    (line,) = [line for line in said.splitlines() if line.startswith("lost ")]
    assert line.count("?") == 3
    assert "not included: 1 of 2 jobs of unknown cost" in said
    assert "The run time of a g5.xlarge job is unknown" in said
    assert f"Prices in us-east-1 as of {TABLE.as_of}. Source: {TABLE.source}" in said
    assert "Its worst case was $8.08." in said
    assert f"Runs of {MONTH}: $6.21 (1 finished $6.21)" in said


def test_a_run_that_is_cleared_after_its_end_keeps_what_it_did_cost(cloud):
    tasks.plan_jobs(context())
    settle(cloud, blog_job(0.17, job_id="first"))
    tasks.plan_jobs(context(cleared=1))
    record = cloud.record(RUN_ID)
    assert (record.finished, record.reserved_usd) == (False, WORST)
    assert float(record.exact_usd) == pytest.approx(WORST + 0.17)
    record = settle(cloud, blog_job(0.34, job_id="second"))
    assert record.job_usd == pytest.approx({"first": 0.17, "second": 0.34})
