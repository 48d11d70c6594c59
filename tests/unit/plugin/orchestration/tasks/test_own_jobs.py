"""The plans and checks of own_job_benchmark and job_comparison."""

from types import SimpleNamespace

import pytest
from airflow.sdk.exceptions import AirflowFailException

from batchmark.aws.result_bucket import PLAN, RunStore
from batchmark.core.errors import PlanError
from batchmark.core.run import RunPlan
from batchmark.orchestration.own_job_form import comparison_params, own_job_params
from batchmark.orchestration.settings import config_of
from batchmark.orchestration.tasks import alerts, budget, environment, own_jobs
from batchmark.runs.own_jobs import discovery
from batchmark.runs.own_jobs.known_queues import FOLDER
from tests.builders import existing_jobs
from tests.builders.existing_jobs import found
from tests.builders.installations import configured, own_types
from tests.builders.leaks import ARN
from tests.builders.runs import PRICES
from tests.stand_ins.bucket import MemoryBucket

RUN_ID = "manual__2026-11-21T03:00:00+00:00"
SIDES = [
    {"name": name, "job_queue": "images", "job_definition": definition}
    for name, definition in (("old", "resize:7"), ("new", "resize:8"))
]
PRICED = PRICES.model_copy(
    update={"on_demand": PRICES.on_demand | {"c5.xlarge": 0.17, "c5.4xlarge": 0.68}}
)


@pytest.fixture
def run(monkeypatch):
    """Contexts of a run, with an installation of two targets and the sides old and new."""
    config = configured(targets=own_types(**{"c5.2xlarge": {}, "g5.xlarge": {}}))
    store = RunStore(MemoryBucket(config.bucket, config.region), config.bucket, RUN_ID)
    stored, asked = [], []
    current = SimpleNamespace(table=PRICED, store=lambda _: stored.append(PRICED))

    def current_prices(*_, instance_types, **__):
        asked.append(set(instance_types))
        return current

    monkeypatch.setattr(RunStore, "of", lambda *_: store)
    monkeypatch.setattr(own_jobs, "load_config", lambda: config)
    monkeypatch.setattr(own_jobs, "load_own_jobs", existing_jobs.own_jobs)
    monkeypatch.setattr(alerts, "check_settings", lambda: None)
    monkeypatch.setattr(budget, "page_url", lambda *_: "the page")
    for tasks in (budget, own_jobs):
        monkeypatch.setattr(tasks, "price_clients", lambda _: ())
        monkeypatch.setattr(tasks, "current_prices", current_prices)
    monkeypatch.setattr(
        discovery,
        "discover",
        lambda _, sides: {
            side.name: found(side.name, side=side, notes=(f"note of {side.name}",))
            for side in sides
        },
    )

    def context(params, run_id=RUN_ID, **changes):
        fields = {name: param.resolve() for name, param in params.items()}
        unknown = changes.keys() - fields.keys()
        assert not unknown
        return {
            "run_id": run_id,
            "params": fields | {"max_cost_usd": 300} | changes,
            "ti": SimpleNamespace(dag_id="dag", max_tries=2, xcom_push=lambda **_: None),
            "task": SimpleNamespace(retries=2),
        }

    return SimpleNamespace(context=context, store=store, config=config, asked=asked, stored=stored)


def job_run(run, **changes):
    return run.context(own_job_params(), **{"job": "thumbnails"} | changes)


def comparison(run, **changes):
    asked = {"name": "resize", "sides": SIDES, "parameter": "size", "sizes": [8, 16]}
    return run.context(comparison_params(), **asked | changes)


def plan_of(run):
    return RunPlan.model_validate_json(run.store.read(run.store.prefix + PLAN))


def test_an_own_job_is_planned_on_all_its_targets_and_sizes(run):
    arguments = own_jobs.plan_own_job(job_run(run))
    assert len(arguments) == 2 + 2 * 2 * 6
    assert {one["job_definition"] for one in arguments} == {"arn:own-cpu:1", "arn:own-cuda:1"}
    plan = plan_of(run)
    assert (plan.sides, len(plan.jobs)) == ({}, 26)
    assert plan.worst_case.usd > 0


def test_the_form_narrows_an_own_jobs_run(run):
    asked = {"targets": ["c5.2xlarge"], "sizes": [64], "repeats": 1, "deadline_seconds": 30}
    own_jobs.plan_own_job(job_run(run, **asked))
    _, job = plan_of(run).jobs
    assert (job.target, job.own_job.size, job.own_job.deadline_seconds) == ("c5.2xlarge", 64, 30)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"job": None}, "unknown own job ''; known: thumbnails"),
        ({"job": "thumbs"}, "unknown own job 'thumbs'"),
        ({"targets": ["a"]}, "thumbnails has no target 'a'"),
        ({"max_cost_usd": 0.01}, "Nothing was submitted. This run can cost up to"),
        ({"run_id": "a~b"}, "which AWS takes in no tag, so the run's jobs or file system"),
    ],
)
def test_an_own_job_that_can_not_run_is_refused_before_anything_is_booked(run, changes, message):
    with pytest.raises(AirflowFailException, match=message):
        own_jobs.plan_own_job(job_run(run, **changes))
    assert run.store.keys("costs/") == []


def test_a_comparison_is_planned_on_the_dearest_types_and_keeps_its_sides(run):
    arguments = own_jobs.plan_comparison(comparison(run, repeats=1))
    assert len(arguments) == 1 + 4
    assert {one["job_queue"] for one in arguments} == {f"{ARN}:job-queue/images"}
    plan = plan_of(run)
    assert list(plan.sides) == ["old", "new"]
    assert {job.instance_type for job in plan.jobs} == {"c5.4xlarge"}
    assert plan.worst_case.usd == 0.85  # 5 jobs x 900 s
    joined = config_of(plan, run.config)
    assert set(joined.targets) == {"c5.2xlarge", "g5.xlarge", "old", "new"}
    assert run.config.targets.keys() == {"c5.2xlarge", "g5.xlarge"}


def test_the_prices_of_all_types_that_its_jobs_may_get_are_kept_and_asked_for_once(run):
    own_jobs.plan_comparison(comparison(run, repeats=1))
    assert run.asked == [{"c5.xlarge", "c5.4xlarge"}]
    assert run.stored == [PRICED]


def test_its_queues_are_known_to_the_guard_before_a_job_is_there(run):
    own_jobs.plan_comparison(comparison(run, repeats=1))
    (key,) = run.store.keys(FOLDER)
    assert f"{ARN}:job-queue/images" in run.store.read(key).decode()


def test_a_dry_run_submits_nothing_and_leaves_no_queue(run):
    assert own_jobs.plan_comparison(comparison(run, dry_run=True)) == []
    assert own_jobs.plan_own_job(job_run(run, dry_run=True, run_id=RUN_ID)) == []
    assert run.store.keys(FOLDER) == []
    assert plan_of(run).dry_run


def test_a_type_without_a_price_is_refused_under_a_cap(run, monkeypatch):
    unpriced = SimpleNamespace(table=PRICES, store=lambda _: None)
    for tasks in (budget, own_jobs):
        monkeypatch.setattr(tasks, "current_prices", lambda *_, **__: unpriced)
    with pytest.raises(AirflowFailException, match=r"there is no On-Demand price of c5\.xlarge"):
        own_jobs.plan_comparison(comparison(run))
    assert own_jobs.plan_comparison(comparison(run, max_cost_usd=None, repeats=1))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"sides": []}, "sides has 0 objects: give from 1 to 20"),
        ({"sides": [SIDES[0], SIDES[0]]}, "2 sides are called 'old'"),
        ({"parameter": "sise"}, "does not have Ref::sise, so sizes would change nothing"),
        ({"run_id": "a~b"}, "which AWS takes in no tag"),
    ],
)
def test_a_comparison_that_can_not_run_is_refused_before_anything_is_booked(run, changes, message):
    with pytest.raises(AirflowFailException, match=message):
        own_jobs.plan_comparison(comparison(run, **changes))
    assert run.store.keys("") == []


@pytest.fixture
def checked(monkeypatch):
    """What was asked of environment.check."""
    asked = []

    def check(_, config, targets, *, foreign):
        asked.append((config, list(targets), foreign))
        return "key"

    monkeypatch.setattr(environment, "check", check)
    return asked


def test_an_own_jobs_own_definitions_are_checked(run, checked):
    assert own_jobs.check_own_job(job_run(run, targets=["g5.xlarge"])) == "key"
    ((config, targets, foreign),) = checked
    assert (targets, foreign) == (["g5.xlarge"], True)
    assert config.targets["g5.xlarge"].job_definition == "arn:own-cuda:1"


def test_sides_are_checked_with_the_smallest_type_that_holds_them(run, checked, caplog):
    caplog.set_level("INFO")
    assert own_jobs.check_sides(comparison(run)) == "key"
    ((config, targets, foreign),) = checked
    assert (targets, foreign) == (["old", "new"], True)
    assert config.targets["old"].instance_type == "c5.xlarge"
    assert "note of new" in caplog.text


def test_a_side_that_is_not_found_fails_the_check_for_good(run, checked, monkeypatch):
    def refuse(*_):
        raise PlanError("side 'old': no job queue 'images'")

    monkeypatch.setattr(discovery, "discover", refuse)
    with pytest.raises(AirflowFailException, match="no job queue 'images'"):
        own_jobs.check_sides(comparison(run))
    assert checked == []
