"""What plan_jobs lets through and books, and what takes the place of that after the run."""

import json
import re
from html import unescape
from types import SimpleNamespace

import pytest
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException, TaskDeferred

from batchmark.analysis.cost import run_costs
from batchmark.aws.result_bucket import PLAN, PLAN_HTML, PRICES, RunStore
from batchmark.core.names import slug
from batchmark.core.run import RunPlan
from batchmark.orchestration.operators.batch_operator import BenchmarkJobOperator
from batchmark.orchestration.tasks import budget
from batchmark.orchestration.tasks import run as tasks
from batchmark_job.result.version import GivenVersion
from tests.builders.installations import configured, target
from tests.builders.runs import PRICES as TABLE
from tests.builders.runs import build_job, build_lost, build_row, build_run
from tests.builders.spending import PLANNED_AT
from tests.stand_ins.batch import FakeBatch, FakeClients
from tests.stand_ins.planning import DAG_ID, MONTH, RUN_ID, PlanningAccount, two_targets
from tests.stand_ins.planning import benchmark_context as context

WORST = 8.08  # 2 x 3 attempts of an hour on each target: 6.036 and 2.04, each rounded up


@pytest.fixture
def cloud(monkeypatch):
    """An account in which it is noon of the day on which runs were planned."""
    monkeypatch.setattr(budget, "datetime", SimpleNamespace(now=lambda _: PLANNED_AT))
    return PlanningAccount(monkeypatch, two_targets(), TABLE, tasks)


def refused(cloud, **params):
    """The message of a plan that nothing came of, and that wrote nothing."""
    before = cloud.objects()
    cloud.s3.calls.clear()
    with pytest.raises(AirflowFailException) as error:
        tasks.plan_jobs(context(**params))
    assert cloud.writes == []
    assert cloud.objects() == before
    return str(error.value)


def test_what_may_run_is_planned_with_its_version_and_booked_at_the_most_it_can_cost(cloud, capsys):
    jobs = tasks.plan_jobs(context(max_cost_usd=WORST))
    assert [job["job_queue"] for job in jobs] == ["arn:queue-cuda", "arn:queue-cpu"]
    plan = cloud.store(RUN_ID).plan()
    assert plan.worst_case.usd == WORST
    assert plan.spending_key == f"costs/{MONTH}/{RUN_ID}.json"
    assert json.loads(cloud.read(f"runs/{RUN_ID}/{PRICES}"))["source"] == TABLE.source
    record = cloud.record(RUN_ID)
    assert (record.run_id, record.reserved_usd, record.finished) == (RUN_ID, WORST, False)
    said = capsys.readouterr().out
    assert "What this run can cost at most" in said
    assert re.search(r"(?m)^all +\$8\.08 *$", said)
    assert f"On-Demand prices in us-east-1 as of 2026-11-20. Source: {TABLE.source}" in said
    version = GivenVersion(commit="3f2a91c", branch="main")
    fields = {"commit": "3f2a91c", "branch": "main", "label": " "}
    for given, planned in ((fields, version), ({"commit": "", "label": None}, None)):
        tasks.plan_jobs(context(**given))
        assert [job.version for job in cloud.store(RUN_ID).plan().jobs] == [planned] * 2


def submitted(kwargs):
    """SubmitJob's arguments, of the job and of the On-Demand job that may follow it."""
    operator = BenchmarkJobOperator(task_id="run_benchmark", aws_conn_id=None, **kwargs)
    batch = FakeBatch()
    operator.clients = FakeClients(batch=batch)
    with pytest.raises(TaskDeferred) as deferred:
        operator.execute({**context(), "task": operator})
    return [*batch.submissions, deferred.value.trigger.order.on_demand]


def test_each_job_is_submitted_with_the_timeout_and_the_attempts_that_its_cap_counted(cloud):
    """Whatever its job definition says, the job can't cost more."""
    jobs = tasks.plan_jobs(context())
    plan = cloud.store(RUN_ID).plan()
    for kwargs, planned, counted in zip(jobs, plan.jobs, plan.worst_case.targets, strict=True):
        requests = [request for request in submitted(kwargs) if request]
        assert len(requests) == counted.submissions == planned.limits.submissions
        for request in requests:
            assert request["timeout"] == {"attemptDurationSeconds": counted.timeout_seconds}
            assert request["retryStrategy"]["attempts"] == counted.attempts
            assert request["retryStrategy"]["evaluateOnExit"][-1]["action"] == "EXIT"


SHARING = {
    "modes": ["time_slicing"],
    "replicas": [1, 2],
    "task": "matmul",
    "axes": "size=64",
    "disturbances": None,
    "mps_threads": None,
    "mps_memory_mib": None,
}


def test_a_sharing_run_is_planned_and_booked_and_tells_of_replicas_without_room(cloud, capsys):
    jobs = tasks.plan_sharing(context(**SHARING))
    assert [job["parameters"]["suite"] for job in jobs] == ["sharing"] * 2
    plan = cloud.store(RUN_ID).plan()
    assert [job.sharing.replicas for job in plan.jobs] == [(1, 2)] * 2
    assert cloud.record(RUN_ID).reserved_usd == WORST
    assert "has room" not in capsys.readouterr().out
    g5 = {"instance_type": "g5.xlarge", "gpus": 0}
    shared = target("cuda", sharing="time_slicing", max_replicas=2, **g5)
    targets = {"g5.xlarge-shared": shared, "g5.xlarge": target("cuda", **g5)}
    cloud.config = configured(targets=targets)
    jobs = tasks.plan_sharing(context(**SHARING | {"replicas": [1, 2, 5, 20]}, repeats=2))
    assert len(jobs) == 2 * (2 + 1)
    said = capsys.readouterr().out
    told = "g5.xlarge-shared has room for 2 replicas, so it does not measure 5, 20. For these, "
    assert said.count(told + "raise its max_replicas in Terraform's shared_targets.") == 1
    assert "g5.xlarge has room" not in said


def test_above_the_cap_nothing_is_submitted_or_written(cloud):
    message = refused(cloud, max_cost_usd=WORST - 0.01)
    assert message.startswith("Nothing was submitted. This run can cost up to $8.08, above its ma")
    message = refused(cloud, max_cost_usd="50")
    assert message == "max_cost_usd must be an amount above 0, or empty for no cap, got '50'"
    assert cloud.s3.calls == [], "nothing is asked of AWS"
    cloud.prices = TABLE.model_copy(update={"on_demand": {"c5.2xlarge": 0.34}})
    message = refused(cloud)
    assert "checked against max_cost_usd: there is no On-Demand price for g5.xlarge" in message
    assert len(tasks.plan_jobs(context(max_cost_usd=None))) == 2
    assert cloud.record(RUN_ID).reserved_usd is None


def test_the_monthly_cap_counts_what_others_cost_and_may_still_cost(cloud):
    cloud.config = two_targets(monthly_cap_usd=20)
    cloud.book("finished", finished=True, job_usd={"a": 1.5, "b": 2.5})
    cloud.book("running", reserved_usd=7.93)
    message = refused(cloud)
    assert message.startswith(f"Nothing was submitted. Runs of {MONTH}: $11.93 (1 finished $4.00")
    cloud.book("running", reserved_usd=7.92)
    assert len(tasks.plan_jobs(context())) == 2


@pytest.mark.parametrize("usd", ["-100", "-1e-9", "NaN", "Infinity", "-Infinity", "1e308", "1e400"])
@pytest.mark.parametrize("field", ["reserved_usd", "job_usd"])
def test_a_booking_that_is_no_amount_lets_no_run_through_a_cap(cloud, capsys, field, usd):
    cloud.config = two_targets(monthly_cap_usd=20)
    cloud.book("dear", finished=True, job_usd={"a": 19.0})
    cloud.book("odd", reserved_usd=7.25, job_usd={"job": 7.25})
    key = f"costs/{MONTH}/odd.json"
    written = json.loads(cloud.read(key)) | {field: "USD" if field != "job_usd" else {"j": "USD"}}
    cloud.put(key, json.dumps(written).replace('"USD"', usd))
    unsummed = rf"can't be summed up: {key} \({field}.* contain no valid amount"
    assert re.search(unsummed, refused(cloud))
    assert f"missing or only partly included: {key} ({field}" in capsys.readouterr().out


def test_two_runs_planned_at_the_same_time_never_exceed_the_monthly_cap_together(cloud):
    """The other run books between this one's sum and this one's booking."""
    cloud.config = two_targets(monthly_cap_usd=20)

    def book_the_other(operation, _):
        if operation == "PutObject":
            cloud.book("other", reserved_usd=15.0)

    cloud.s3.on_call = book_the_other
    with pytest.raises(AirflowFailException, match="another run was planned at the same time"):
        tasks.plan_jobs(context())
    assert cloud.objects() == [f"costs/{MONTH}/other.json", f"costs/{MONTH}/{RUN_ID}.json"]
    assert cloud.record(RUN_ID).exact_usd == 0


def test_a_retry_of_the_plan_books_once_and_a_run_cleared_half_way_once_more(cloud):
    """What its first jobs cost is known only after the run; until then it is the most."""
    cloud.config = two_targets(monthly_cap_usd=20)
    for cleared, usd in ((0, WORST), (0, WORST), (1, 16.16)):
        tasks.plan_jobs(context(cleared=cleared))
        assert cloud.record(RUN_ID).reserved_usd == usd
    with pytest.raises(AirflowFailException, match=r"\$16\.16 \(1 planned and not finished"):
        tasks.plan_jobs(context(cleared=2))


def test_a_run_id_that_another_dags_run_has_is_refused_but_not_one_that_looks_alike(cloud):
    tasks.plan_jobs(context())
    cloud.s3.calls.clear()
    with pytest.raises(AirflowFailException, match="already used by a run of gpu_cpu_benchmark:"):
        tasks.plan_jobs(context(dag_id="noise_calibration"))
    assert cloud.writes == []
    cloud.config = two_targets(monthly_cap_usd=20)
    tasks.plan_jobs(context(run_id="r+1"))
    with pytest.raises(AirflowFailException, match=r"Runs of 2026-11: \$16\.16 \(2 planned"):
        tasks.plan_jobs(context(run_id="r:1"))
    assert cloud.record(slug("r+1")).run_id == "r+1"


@pytest.mark.parametrize("taken", ["plan.json", "costs"])
def test_a_run_that_is_called_like_anothers_folder_is_refused(cloud, taken):
    tasks.plan_jobs(context(run_id="r+1"))
    for key in [key for key in cloud.objects() if taken not in key]:
        del cloud.s3.objects[key]
    message = r"'r-1-[0-9a-f]{10}' is already .*'r\+1'.*: choo"
    with pytest.raises(AirflowFailException, match=message):
        tasks.plan_jobs(context(run_id=slug("r+1")))


OLD = "manual__2026-11-20T12:00:00+00:00"
OLD_NAME = "manual__2026-11-20T12-00-00-00-00"


def begun_by_0_1(cloud, run_id=OLD):
    """What release 0.1 left of a run that it planned and did not collect."""
    key = f"costs/{MONTH}/{OLD_NAME}.json"
    cloud.book(OLD_NAME, run_id=run_id, reserved_usd=WORST)
    plan = RunPlan(jobs=(), dag_id=DAG_ID, spending_key=key)
    cloud.put(f"runs/{OLD_NAME}/{PLAN}", plan.model_dump_json(exclude={"run_id"}))


def test_a_run_that_release_0_1_began_keeps_its_folder_and_its_booking(cloud):
    begun_by_0_1(cloud)
    jobs = tasks.plan_jobs(context(run_id=OLD, cleared=1))
    assert cloud.record(OLD_NAME).reserved_usd == 2 * WORST
    assert jobs[0]["parameters"]["output"].startswith(f"s3://results/raw/{OLD_NAME}/g5.xlarge/")
    assert {key.split("/")[1] for key in cloud.objects() if key.startswith("runs/")} == {OLD_NAME}


@pytest.mark.parametrize("spoilt", [None, "costs", "plan.json"])
def test_what_release_0_1_left_of_another_run_or_spoilt_is_not_taken_over(cloud, spoilt):
    begun_by_0_1(cloud, run_id=OLD.replace("+", ":"))
    for key in [key for key in cloud.objects() if spoilt and spoilt in key]:
        cloud.put(key, "[" * 100_000)
    left = {key: cloud.read(key) for key in cloud.objects()}
    tasks.plan_jobs(context(run_id=OLD))
    assert cloud.record(slug(OLD)).run_id == OLD
    assert {key: cloud.read(key) for key in left} == left


def test_a_dry_run_shows_the_plan_and_leaves_nothing_else(cloud, capsys, monkeypatch):
    assert tasks.plan_jobs(context(dry_run=True, max_cost_usd=1)) == []
    assert cloud.writes == ["PutObject"] * 2
    assert sorted(cloud.objects()) == [f"runs/{RUN_ID}/{name}" for name in (PLAN_HTML, PLAN)]
    page = unescape(cloud.read(f"runs/{RUN_ID}/{PLAN_HTML}").decode())
    assert (
        "2 jobs can cost $8.08 (Spot jobs counted twice: they may run again On-Demand) at most. "
        "Boot and idling of each "
        "instance, 2 to 15 minutes, come on top: $0.045 to $0.34 for one instance of each target. "
        "The run would be refused." in page
    )
    forecast = (
        f"2 scheduled runs of {DAG_ID} next month, $16.16 at most ($8.08 each); the page Costs "
        "goes by what runs did cost."
    )
    said = capsys.readouterr().out
    for text in (page, said):
        assert forecast in text
        assert "can cost up to $8.08, above its max_cost_usd of $1" in text
    plan = cloud.store(RUN_ID).plan()
    assert (plan.dry_run, plan.worst_case.usd, plan.spending_key) == (True, WORST, None)
    assert "What this run can cost at most" in said
    assert "Dry run: nothing is submitted. Its plan: " in said
    with pytest.raises(AirflowSkipException, match="a dry run"):
        tasks.collect_results(context(), "run_benchmark")
    monkeypatch.setattr(RunStore, "is_aws", lambda self: False)
    monkeypatch.setattr(budget, "page_url", lambda *_: "a page")
    tasks.plan_jobs(context(dry_run=True))
    page = cloud.read(f"runs/{RUN_ID}/{PLAN_HTML}").decode()
    assert (
        "can cost $8.08 (Spot jobs counted twice: they may run again On-Demand) at most in AWS; on "
        "this machine it costs "
        "nothing. Boot and idling of each instance, 2 to 15 minutes, come on top in AWS: $" in page
    )


def test_a_plan_that_was_refused_after_a_clear_leaves_nothing_to_collect(cloud):
    tasks.plan_jobs(context())
    with pytest.raises(AirflowSkipException, match="nothing was planned"):
        tasks.collect_results(context(cleared=3, jobs_state="upstream_failed"), "run_benchmark")


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
    update = {"job_id": "failed", "seconds": 1800.0, "instance_type": "g5.xlarge"}
    failed = gone.model_copy(update=update)
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
