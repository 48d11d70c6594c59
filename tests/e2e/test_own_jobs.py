"""Jobs that were not written for Batchmark: Terraform's own ones, and those that run already."""

import json
from contextlib import closing

import pytest

from batchmark.aws.result_bucket import PLAN, REPORT_HTML
from batchmark.core.run import RunPlan
from laptop.airflow import AirflowClient
from laptop.aws import AwsClients
from tests.e2e.existing_jobs import ACCESS, TIMEOUT_SECONDS, Existing
from tests.e2e.own_job_runs import (
    CASES,
    CPU,
    GPU,
    IMAGE,
    OWN,
    REPEATS,
    SIZES,
    SWEEP,
    TARGETS,
    case_of,
    documents_of_run,
    figures,
    own_job_stack,
    own_jobs,
    report_of_run,
    run_all,
    study,
    told,
)
from tests.e2e.own_jobs.work import FAILS, LOUD, MALFORMED, WRONG
from tests.e2e.privileges import airflow_statements, allows, needs, with_the_resources_tags
from tests.e2e.stacks import failed_log, run_dag, store_of
from tests.waiting import wait_for

COMPARISON, GUARD = "job_comparison", "leak_guard"
LIVE = ("SUBMITTED", "PENDING", "RUNNABLE", "STARTING", "RUNNING")


@pytest.fixture(scope="module")
def stack(tmp_path_factory):
    folder = tmp_path_factory.mktemp("own_jobs")
    with own_job_stack(folder, own_jobs(), access=ACCESS) as running:
        yield running


@pytest.fixture(scope="module")
def aws(stack):
    with closing(AwsClients(stack)) as clients:
        yield clients


@pytest.fixture(scope="module")
def airflow(stack):
    with AirflowClient(stack.airflow) as client:
        yield client


@pytest.fixture(scope="module")
def theirs(aws):
    """A job of theirs runs before, during and after the comparison."""
    made = Existing(aws)
    yield made
    for job_id in made.own:
        made.batch.terminate_job(jobId=job_id, reason="the tests are over")


@pytest.fixture(scope="module")
def runs(airflow, theirs):
    """The run ids and states of all runs, which overlap."""
    comparison = {
        "name": "theirs",
        "sides": theirs.sides[:2],
        "parameter": "size",
        "sizes": [1, 2],
        "repeats": 1,
    }
    endless = {"name": "endless", "sides": theirs.sides[2:], "repeats": 1}
    return run_all(
        airflow,
        {
            "sweep": (OWN, SWEEP),
            "cases": (OWN, CASES),
            "comparison": (COMPARISON, comparison),
            "endless": (COMPARISON, endless),
        },
    )


@pytest.fixture(scope="module")
def report_of(aws, runs):
    return lambda name: report_of_run(aws, runs[name][0])


@pytest.fixture(scope="module")
def documents_of(aws, runs):
    return lambda name: documents_of_run(aws, runs[name][0])


def test_a_sweep_measures_each_target_at_each_size(runs, report_of):
    assert runs["sweep"][1] == "success"
    found = figures(report_of("sweep"))
    assert set(found) == {(target, size) for target in TARGETS for size in SIZES}
    jobs = [figure.jobs for figure in found.values()]
    assert sorted(jobs)[-len(TARGETS) :] == [REPEATS + 1] * len(TARGETS), "that started a queue"
    assert set(jobs) == {REPEATS, REPEATS + 1}
    assert all(figure.problem is None for figure in found.values())


def test_metrics_come_from_the_log_and_from_the_file(report_of):
    for (_, size), figure in figures(report_of("sweep")).items():
        metrics = {each.metric: each for each in figure.metrics}
        assert metrics["rate"].value.value == pytest.approx(100 / size)
        assert (metrics["rate"].unit, metrics["rate"].higher_is_better) == ("items/s", True)
        assert metrics["error"].value.value == pytest.approx(0.5)
        assert {each.jobs for each in metrics.values()} == {figure.jobs}


def test_sizes_and_sides_take_turns_in_a_mixed_order(aws, runs):
    store = store_of(aws, runs["sweep"][0])
    plan = RunPlan.model_validate_json(store.read(store.prefix + PLAN))
    order = [(job.repeat, job.target, job.own_job.size) for job in plan.jobs]
    first, order = order[: len(TARGETS)], order[len(TARGETS) :]
    assert {(repeat, target) for repeat, target, _ in first} == {
        (REPEATS + 1, target) for target in TARGETS
    }
    assert len(order) == len(TARGETS) * len(SIZES) * REPEATS
    assert [repeat for repeat, *_ in order] == sorted(repeat for repeat, *_ in order)
    rounds = [
        [rest for repeat, *rest in order if repeat == number] for number in range(1, REPEATS + 1)
    ]
    assert sorted(rounds[0]) == sorted(rounds[1]) == sorted(rounds[2])
    assert len({str(each) for each in rounds}) > 1


def test_no_figure_of_this_machine_stands_for_a_gpu_or_costs_money(report_of, documents_of):
    documents = documents_of("sweep")
    assert {each.actual_device for each in documents} == {"cpu"}
    assert {each.environment.instance_type for each in documents} == {None}
    assert {each.own_job.start for each in documents} == {None}
    assert {each.environment.image for each in documents} == {IMAGE}
    assert {figure.usd_per_job for figure in figures(report_of("sweep")).values()} == {None}


def test_the_page_shows_the_job(aws, runs):
    store = store_of(aws, runs["sweep"][0])
    page = store.read(store.prefix + REPORT_HTML).decode()
    assert "sweep" in page
    assert "items/s" in page


def test_a_job_that_exits_3_is_not_compared(runs, report_of, documents_of):
    assert runs["cases"][1] == "failed"
    documents = documents_of("cases")
    for target in TARGETS:
        document = case_of(documents, FAILS, target)
        assert document.own_job.exit_code == 3
        assert not document.own_job.check.passed
        assert {row.status for row in document.measurements} == {"failed"}
        assert "3" in figures(report_of("cases"))[target, FAILS].problem


def test_a_check_that_fails_on_one_side_leaves_the_other(report_of, documents_of):
    documents = documents_of("cases")
    wrong, right = (case_of(documents, WRONG, target) for target in TARGETS)
    assert (wrong.own_job.check.passed, right.own_job.check.passed) == (False, True)
    assert wrong.own_job.check.kind == right.own_job.check.kind == "command"
    found = figures(report_of("cases"))
    assert found[GPU, WRONG].problem
    assert found[CPU, WRONG].problem is None
    assert not [duel for duel in study(report_of("cases")).duels if duel.place.size == WRONG]


def test_each_malformed_line_is_named_and_the_good_ones_are_kept(documents_of):
    document = case_of(documents_of("cases"), MALFORMED, CPU)
    bad = [(each.source, each.number) for each in document.own_job.bad_lines]
    assert sorted(bad) == [("file", 2), ("log", 1), ("log", 3)]
    assert "no JSON" in {each.text for each in document.own_job.bad_lines}
    assert told(document) == {
        "rate": (pytest.approx(1 / 7),),
        "share": (pytest.approx(2.0),),
    }


def test_a_job_that_prints_100_mb_is_measured_like_any_other(documents_of):
    for target in TARGETS:
        document = case_of(documents_of("cases"), LOUD, target)
        assert document.own_job.check.passed
        assert told(document) == {"rate": (pytest.approx(1 / 9),)}


def test_existing_jobs_are_compared_and_priced(aws, runs, report_of, theirs):
    assert runs["comparison"][1] == "success"
    found = figures(report_of("comparison"))
    assert set(found) == {(side, size) for side in ("old", "new") for size in (1, 2)}
    # The two queues' first jobs ran one size more.
    assert sorted(figure.jobs for figure in found.values()) == [1, 1, 2, 2]
    store = store_of(aws, runs["comparison"][0])
    plan = RunPlan.model_validate_json(store.read(store.prefix + PLAN))
    assert {job.target: job.instance_type for job in plan.jobs} == {
        "old": "m5.2xlarge",
        "new": "c5.2xlarge",
    }
    revisions = {job.own_job.job_definition.rpartition("/")[2] for job in plan.jobs}
    assert revisions == {"their-old:1", "their-new:1"}
    assert plan.worst_case.usd > 0


def test_a_job_that_never_ends_is_ended_by_its_timeout(runs, documents_of):
    assert runs["endless"][1] == "failed"
    documents = documents_of("endless")
    assert len(documents) == 2
    for document in documents:
        assert not document.own_job.check.passed
        assert document.own_job.running_seconds == pytest.approx(TIMEOUT_SECONDS, abs=20)
        assert {row.status for row in document.measurements} == {"failed"}


def test_a_comparison_leaves_nothing_and_touches_nothing_of_others(runs, theirs):
    jobs = theirs.jobs()
    assert [job["jobId"] for job in jobs if job["status"] in LIVE] == theirs.own
    assert {theirs.status(job_id) for job_id in theirs.own} == {"RUNNING"}
    queues = theirs.batch.describe_job_queues(jobQueues=list(theirs.queues.values()))["jobQueues"]
    assert {queue["state"] for queue in queues} == {"ENABLED"}


def test_the_leak_guard_leaves_jobs_of_others_alone(airflow, theirs, runs):
    ours = next(job["jobName"] for job in theirs.jobs() if job["jobId"] not in theirs.own)
    theirs.own.append(theirs.submit(ours))
    wait_for(lambda: theirs.status(theirs.own[-1]) == "RUNNING", "start of a job of theirs", 60)
    conf = {"grace_minutes": 0, "idle_minutes": 0, "end_leaks": ["jobs", "instances"]}
    _, state = run_dag(airflow, GUARD, conf)
    assert state == "success"
    assert {theirs.status(job_id) for job_id in theirs.own} == {"RUNNING"}


def test_an_unknown_side_submits_nothing(airflow, theirs):
    before = [job["jobId"] for job in theirs.jobs()]
    sides = [{**theirs.sides[0], "job_queue": "their-odd"}]
    run_id, state = run_dag(airflow, COMPARISON, {"name": "typo", "sides": sides})
    assert state == "failed"
    log = failed_log(airflow, COMPARISON, run_id, "check_environment")
    assert "no job queue 'their-odd' in this region (did you mean their-old?)" in log
    assert [job["jobId"] for job in theirs.jobs()] == before


def test_airflow_is_allowed_all_that_these_runs_called(stack, aws, runs):
    calls = [json.loads(line) for line in stack.calls.read_text().splitlines()]
    called = [call for call in calls if call["access_key_id"] == "airflow"]
    needed = {need for call in called for need in needs(with_the_resources_tags(call, aws))}
    assert {need.action for need in needed} >= {"batch:SubmitJob", "ecs:DescribeTasks"}
    statements = airflow_statements(stack, aws)
    assert [need for need in needed if not allows(statements, need)] == []
