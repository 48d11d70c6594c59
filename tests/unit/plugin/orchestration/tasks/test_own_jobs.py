"""The plans and checks of own_job_benchmark and job_comparison."""

import json
from collections import Counter
from types import SimpleNamespace

import boto3
import pytest
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException
from airflow.sdk.execution_time.context import OutletEventAccessors

from batchmark.core.errors import PlanError
from batchmark.core.names import full_name
from batchmark.core.prices import PriceTable
from batchmark.history.store import HistoryStore
from batchmark.orchestration import run_history
from batchmark.orchestration.assets import RESULTS
from batchmark.orchestration.forms import comparison_params, own_job_params
from batchmark.orchestration.reruns import plan_round, series_of_row
from batchmark.orchestration.run_history import RunHistory
from batchmark.orchestration.settings import config_of
from batchmark.orchestration.tasks import alerts, environment, own_jobs, regressions
from batchmark.orchestration.tasks import run as run_tasks
from batchmark.runs import collecting, result_documents
from batchmark.runs.collected_runs import readable_run
from batchmark.runs.own_jobs import discovery, storing
from batchmark.runs.own_jobs.known_queues import FOLDER
from batchmark_job.result.document import parse_document
from batchmark_job.result.version import GivenVersion
from tests.builders import existing_jobs
from tests.builders.existing_jobs import found
from tests.builders.installations import configured, own_types
from tests.builders.leaks import ARN
from tests.builders.runs import PRICES
from tests.builders.watched_jobs import BEGIN, END, described, facts, host
from tests.stand_ins.batch import TAGS, FakeBatch, FakeClients
from tests.stand_ins.failing_calls import failing
from tests.stand_ins.marked_log import MarkedLog
from tests.stand_ins.planning import PlanningAccount, planning_context

RUN_ID = "manual__2026-11-21T03:00:00+00:00"
SIDES = [
    {"name": name, "job_queue": "images", "job_definition": definition}
    for name, definition in (("old", "resize:7"), ("new", "resize:8"))
]
SECRET = "hunter2"
TERRAFORMS = {"commit": "3f2a91c", "label": "1.4"}
WITH_SECRETS = [side | {"environment": {"TOKEN": f"{SECRET} of {side['name']}"}} for side in SIDES]
PRICED = PRICES.model_copy(
    update={"on_demand": PRICES.on_demand | {"c5.xlarge": 0.17, "c5.4xlarge": 0.68}}
)


@pytest.fixture
def run(monkeypatch):
    """An account with an installation of two targets and the sides old and new."""
    config = configured(
        targets=own_types(**{"c5.2xlarge": {}, "g5.xlarge": {}}),
        comparison_definitions=["allowed by Terraform"],
    )

    def discover(_, sides, allowed):
        notes = {side.name: (f"note of {side.name}", *allowed) for side in sides}
        return {side.name: found(side.name, side=side, notes=notes[side.name]) for side in sides}

    account = PlanningAccount(monkeypatch, config, PRICED, own_jobs, run_tasks)
    monkeypatch.setattr(own_jobs, "load_own_jobs", existing_jobs.own_jobs)
    monkeypatch.setattr(discovery, "discover", discover)
    return SimpleNamespace(account=account, store=account.store(RUN_ID), config=config)


def context(params, run_id=RUN_ID, **changes):
    fields = {name: param.resolve() for name, param in params.items()}
    assert changes.keys() <= fields.keys()
    return planning_context(run_id, fields | {"max_cost_usd": 300} | changes, dag_id="dag")


def job_run(**changes):
    return context(own_job_params(), **{"job": "thumbnails"} | changes)


def comparison(**changes):
    asked = {"name": "resize", "sides": SIDES, "parameter": "size", "sizes": [8, 16]}
    return context(comparison_params(), **asked | changes)


def test_an_own_job_is_planned_on_all_its_targets_and_sizes_unless_the_form_narrows_it(run):
    arguments = own_jobs.plan_own_job(job_run())
    assert len(arguments) == 2 + 2 * 2 * 6
    assert {one["job_definition"] for one in arguments} == {"arn:own-cpu:1", "arn:own-cuda:1"}
    plan = run.store.plan()
    assert (plan.sides, len(plan.jobs)) == ({}, 26)
    assert plan.worst_case.usd > 0
    asked = {"targets": ["c5.2xlarge"], "sizes": [64], "repeats": 1, "deadline_seconds": 30}
    own_jobs.plan_own_job(job_run(**asked))
    _, job = run.store.plan().jobs
    assert (job.target, job.own_job.size, job.own_job.deadline_seconds) == ("c5.2xlarge", 64, 30)


@pytest.mark.parametrize(
    ("form", "published", "version"),
    [
        ({}, {}, None),
        ({}, TERRAFORMS, GivenVersion(**TERRAFORMS)),
        ({"commit": " "}, TERRAFORMS, GivenVersion(**TERRAFORMS)),
        ({"commit": "8ab0c11"}, TERRAFORMS, GivenVersion(commit="8ab0c11", label="1.4")),
    ],
)
def test_a_job_has_the_forms_version_or_terraforms(run, monkeypatch, form, published, version):
    found = existing_jobs.own_jobs(**published)
    monkeypatch.setattr(own_jobs, "load_own_jobs", lambda: found)
    own_jobs.plan_own_job(job_run(**form))
    assert {job.version for job in run.store.plan().jobs} == {version}


def test_a_comparison_is_planned_on_the_dearest_types_and_keeps_sides_prices_and_queues(run):
    arguments = own_jobs.plan_comparison(comparison(repeats=1))
    assert len(arguments) == 1 + 4
    assert {one["job_queue"] for one in arguments} == {f"{ARN}:job-queue/images"}
    plan = run.store.plan()
    assert list(plan.sides) == ["old", "new"]
    assert {job.instance_type for job in plan.jobs} == {"c5.4xlarge"}
    assert plan.worst_case.usd == 0.85  # 5 jobs x 900 s
    joined = config_of(plan, run.config)
    assert set(joined.targets) == {"c5.2xlarge", "g5.xlarge", "old", "new"}
    assert run.config.targets.keys() == {"c5.2xlarge", "g5.xlarge"}
    # Of all types that its jobs may get.
    assert run.account.asked == [{"c5.xlarge", "c5.4xlarge"}]
    kept = PriceTable.model_validate_json(run.store.read(run.store.prefix + "prices.json"))
    assert kept == PRICED
    (key,) = run.store.keys(FOLDER)
    assert f"{ARN}:job-queue/images" in run.store.read(key).decode(), "the leak guard looks there"


def test_a_dry_run_submits_nothing_and_leaves_no_queue(run, monkeypatch, capsys):
    assert own_jobs.plan_comparison(comparison(dry_run=True)) == []
    scheduled = existing_jobs.own_jobs(schedule="0 3 1 * *")
    monkeypatch.setattr(own_jobs, "load_own_jobs", lambda: scheduled)
    assert own_jobs.plan_own_job(job_run(dry_run=True, run_id=RUN_ID)) == []
    forecast = "1 scheduled run of own job thumbnails next month, $"
    assert forecast in capsys.readouterr().out
    assert run.store.keys(FOLDER) == []
    assert run.store.plan().dry_run


@pytest.mark.parametrize(
    ("plan", "asked", "message"),
    [
        (own_jobs.plan_own_job, job_run(job=None), "unknown own job ''; known: thumbnails"),
        (own_jobs.plan_own_job, job_run(run_id="a~b"), "which AWS does not allow in tags"),
        (own_jobs.plan_comparison, comparison(sides=[]), "sides contains 0 objects"),
        (own_jobs.plan_comparison, comparison(run_id="a~b"), "which AWS does not allow in tags"),
    ],
)
def test_what_can_not_run_is_refused_before_anything_is_booked(run, plan, asked, message):
    with pytest.raises(AirflowFailException, match=message):
        plan(asked)
    assert run.store.keys("") == []


@pytest.fixture
def checked(monkeypatch):
    """What was asked of environment.check."""
    asked = []

    def check(_, config, targets, **whose):
        asked.append((config, list(targets), whose))
        return "key"

    monkeypatch.setattr(environment, "check", check)
    return asked


def test_own_definitions_and_sides_smallest_types_are_checked(run, checked, monkeypatch, caplog):
    assert own_jobs.check_own_job(job_run(targets=["g5.xlarge"])) == "key"
    config, targets, whose = checked.pop()
    assert (targets, whose) == (["g5.xlarge"], {"own_jobs": True})
    assert config.targets["g5.xlarge"].job_definition == "arn:own-cuda:1"
    caplog.set_level("INFO")
    assert own_jobs.check_sides(comparison()) == "key"
    config, targets, whose = checked.pop()
    assert (targets, whose) == (["old", "new"], {"foreign": True})
    assert config.targets["old"].instance_type == "c5.xlarge"
    assert "note of new" in caplog.text
    assert "allowed by Terraform" in caplog.text
    refused = failing(PlanError("side 'old': no job queue 'images'"))
    monkeypatch.setattr(discovery, "discover", refused)
    with pytest.raises(AirflowFailException, match="no job queue 'images'"):
        own_jobs.check_sides(comparison())
    assert checked == []


WRITTEN = ("plan.json", "rerun-1.json", "collected.json", "comparison.json", "report.json")


@pytest.mark.parametrize(
    ("plan", "asked"), [(own_jobs.plan_own_job, job_run), (own_jobs.plan_comparison, comparison)]
)
def test_a_retry_of_the_plan_submits_and_books_the_same_once(run, plan, asked):
    arguments, planned = plan(asked()), run.store.plan()
    kept = run.store.keys("")
    assert plan(asked()) == arguments
    assert (run.store.plan(), run.store.keys("")) == (planned, kept)


@pytest.fixture
def ended(run, monkeypatch):
    """A comparison at one size whose jobs have ended; its sides are in no configuration."""
    batch, logs = FakeBatch(), MarkedLog(facts(*BEGIN, *END))
    clients = {"batch": batch, "logs": logs}
    for tasks in (run_tasks, run_history, alerts):
        monkeypatch.setattr(tasks, "load_config", lambda: run.config)
    monkeypatch.setattr(run_history, "client", lambda service, _: clients[service])
    monkeypatch.setattr(boto3, "client", lambda *_, **__: run.account.s3)
    monkeypatch.setattr(collecting, "patient_clients", lambda _: FakeClients(**clients))
    monkeypatch.setattr(storing, "host_of", lambda *_: host())
    context = comparison(sides=WITH_SECRETS, sizes=[8], repeats=2)
    arguments = own_jobs.plan_comparison(context)
    ids = [end(batch, each) for each in arguments]
    states = {RUN_ID: {"run_benchmark_0": "success", "find_suspects": "success"}}
    context["ti"].get_task_states = lambda **_: states
    context["ti"].xcom_pull = lambda **_: ids
    context |= {"outlet_events": OutletEventAccessors()}
    return SimpleNamespace(context=context, batch=batch, arguments=arguments, ids=ids)


def end(batch, arguments):
    name = full_name(arguments["job_name"], RUN_ID, 0)
    job_id = f"job-{len(batch.jobs)}"
    fields = {"jobId": job_id, "jobName": name, "jobQueue": arguments["job_queue"], "tags": TAGS}
    batch.jobs[job_id] = described(**fields)
    return job_id


def collect(ended):
    return run_tasks.collect_results(ended.context, "run_benchmark")


def test_a_comparison_is_collected_once_however_often_and_what_it_left_is_ended(run, ended):
    first = readable_run(run.store, collect(ended))
    targets = [job.planned.target for job in first.jobs]
    assert targets == [job.target for job in run.store.plan().jobs]
    assert set(targets) == {"old", "new"}
    rows = HistoryStore.of(run.config).read(["target"]).num_rows
    assert rows >= len(ended.ids)
    told = json.loads(json.dumps(ended.context["outlet_events"][RESULTS].extra))
    (key,) = told.pop("history_keys")
    assert key in run.account.s3.objects
    assert told == {"run_id": RUN_ID, "rows": rows, "targets": ["new", "old"]}
    assert readable_run(run.store, collect(ended)) == first
    assert HistoryStore.of(run.config).read(["target"]).num_rows == rows
    ended.batch.jobs.clear()
    name = full_name(ended.arguments[0]["job_name"], RUN_ID, 1)
    queue = ended.arguments[0]["job_queue"]
    left, copy = (ended.batch.add(each, "RUNNING", queue) for each in (name, f"{name}-debug"))
    collect(ended)
    assert [job_id for job_id, _ in ended.batch.terminated] == [left]
    assert ended.batch.jobs[copy]["status"] == "RUNNING"


def test_a_job_that_was_not_run_says_why_and_fails_nothing_by_itself(run, ended, capsys):
    *ids, last = ended.ids
    del ended.batch.jobs[last]
    why = "not run, because the first job of this side failed: exit code 3"
    told = {"job_id": [*ids, None], "not_run": [*[None] * len(ids), why]}
    ended.context["ti"].xcom_pull = lambda key, **_: told[key]
    collected = readable_run(run.store, collect(ended))
    (lost,) = collected.lost
    assert (lost.reason, lost.not_run) == (why, True)
    assert len(collected.jobs) == len(ids)
    assert f"1 more job (1 on {lost.planned.target}): {why}." in capsys.readouterr().out


def test_a_comparison_parses_a_document_twice_and_writes_no_variable(run, ended, monkeypatch):
    parsed = Counter()

    def parse(text):
        document = parse_document(text)
        parsed[document.job_id] += 1
        return document

    collect(ended)  # writes them, as the jobs' tasks would have
    monkeypatch.setattr(result_documents, "parse_document", parse)
    context, key = ended.context, collect(ended)
    assert parsed == Counter(ended.ids)
    compared = run_tasks.compare(context, key)
    assert set(parsed.values()) == {2}
    regressions.find_suspects(context, key)
    with pytest.raises(AirflowSkipException, match="no fresh job"):
        regressions.find_agreeing(context)
    alerts.open_alerts(context, regressions.detect_regressions(context, key))
    run_tasks.publish_report(context, compared)
    assert set(parsed.values()) == {2}
    history = RunHistory(context, key)
    history.plan_jobs(1, plan_round(1, history.plan.jobs, [series_of_row(history.rows[0])]))
    given = {one["environment"]["TOKEN"] for one in ended.arguments}
    assert given == {f"{SECRET} of old", f"{SECRET} of new"}
    written = run.account.s3.objects
    assert {f"{run.store.prefix}{name}" for name in WRITTEN} <= set(written)
    assert [key for key, body in written.items() if SECRET.encode() in body] == []


def test_fresh_jobs_of_a_side_run_in_its_queue_and_are_collected_from_there(run, ended):
    key = collect(ended)
    assert regressions.find_suspects(ended.context, key) == []
    history = RunHistory(ended.context, key)
    row = history.rows[0]
    rows = [series_of_row(row)]
    (fresh,) = history.plan_jobs(1, plan_round(1, history.plan.jobs, rows))
    assert fresh["job_queue"] == f"{ARN}:job-queue/images"
    assert fresh["document"]["target"] == row["target"]
    assert fresh["environment"] == {"TOKEN": f"{SECRET} of {row['target']}"}
    ended.context["ti"].xcom_pull = lambda **_: [end(ended.batch, fresh)]
    (found,) = history.collect(ended.context, rounds=1).jobs
    assert (found.planned.target, found.planned.purpose) == (row["target"], "confirmation")
    assert RunHistory.of_suspects(ended.context).config.targets.keys() > {"old", "new"}
