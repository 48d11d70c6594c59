"""Jobs that were not written for Batchmark, in Terraform's file: from their images to reports."""

import pytest

from batchmark.changes.alerts.store import AlertStore
from laptop.own_jobs.versions import definition_of, queue_of
from laptop.stack import apply_core_stack
from tests.e2e.own_job_runs import (
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
    own_jobs,
    report_of_run,
    study,
)
from tests.e2e.quick_job.work import FAILS, WRONG
from tests.e2e.regression_runs import put_earlier_runs
from tests.e2e.stacks import run_dag, store_of
from tests.inbox import Inbox


@pytest.fixture(scope="module")
def report_of(aws, own_runs):
    return lambda name: report_of_run(aws, own_runs[name][0])


@pytest.fixture(scope="module")
def documents_of(aws, own_runs):
    return lambda name: documents_of_run(aws, own_runs[name][0])


def test_a_sweep_measures_each_target_at_each_size_and_takes_metrics_from_log_and_file(
    own_runs, report_of
):
    assert own_runs["sweep"][1] == "success"
    found = figures(report_of("sweep"))
    assert set(found) == {(target, size) for target in TARGETS for size in SIZES}
    jobs = [figure.jobs for figure in found.values()]
    assert sorted(jobs)[-len(TARGETS) :] == [REPEATS + 1] * len(TARGETS), "that started a queue"
    assert set(jobs) == {REPEATS, REPEATS + 1}
    for (_, size), figure in found.items():
        assert figure.problem is None
        metrics = {each.metric: each for each in figure.metrics}
        assert metrics["rate"].value.value == pytest.approx(100 / size)
        assert (metrics["rate"].unit, metrics["rate"].higher_is_better) == ("items/s", True)
        assert metrics["error"].value.value == pytest.approx(0.5)
        assert {each.jobs for each in metrics.values()} == {figure.jobs}


def test_a_comparison_of_versions_finds_queue_and_definition_by_name(aws):
    batch = aws.client("batch")
    (queue,) = batch.describe_job_queues(jobQueues=[queue_of(CPU)])["jobQueues"]
    assert queue["state"] == "ENABLED"
    name = definition_of(SWEEP["job"], CPU)
    assert batch.describe_job_definitions(jobDefinitionName=name)["jobDefinitions"]


def test_no_figure_of_this_machine_stands_for_a_gpu_or_costs_money(report_of, documents_of):
    documents = documents_of("sweep")
    assert {each.actual_device for each in documents} == {"cpu"}
    assert {each.environment.instance_type for each in documents} == {None}
    assert {each.own_job.start for each in documents} == {None}
    assert {each.environment.image for each in documents} == {IMAGE}
    assert {figure.usd_per_job for figure in figures(report_of("sweep")).values()} == {None}


def test_a_job_that_exits_3_is_not_compared(own_runs, report_of, documents_of):
    assert own_runs["cases"][1] == "failed"
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


@pytest.mark.thirty_runs
def test_a_third_release_that_is_slower_opens_one_alert_with_its_image_as_the_cause(
    stack, aws, airflow, own_runs
):
    first, second, third = (f"registry.example.com/team/work:1.{minor}" for minor in (3, 4, 5))
    assert second == IMAGE
    put_earlier_runs(aws, own_runs["sweep"][0], lambda weeks: first if weeks > 6 else second)
    inbox = Inbox(aws, "release")
    apply_core_stack(stack.terraform, stack.say, own_jobs=own_jobs(third, "slower_sweep"))
    run_id = run_dag(airflow, OWN, SWEEP | {"sizes": [SIZES[0]], "targets": [CPU]})
    (message,) = inbox.alerts()
    alerts = AlertStore(store_of(aws, run_id)).alerts()
    (alert,) = [one for one in alerts if one.id in message["Message"]]
    assert alert.state == "open"
    assert alert.change.targets == (CPU,)
    likeliest = alert.change.causes[0]
    assert (likeliest.name, likeliest.before, likeliest.after) == ("image", second, third)
