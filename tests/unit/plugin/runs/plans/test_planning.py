import json
import re
from datetime import UTC, datetime
from itertools import product

import pytest

from batchmark.aws.job_description import RETRY_RULES
from batchmark.core.errors import PlanError
from batchmark.core.names import full_name
from batchmark.core.run import PlannedJob
from batchmark.runs.budget import worst_case
from batchmark.runs.plans.planning import (
    LONGEST_WAIT_SECONDS,
    all_operator_kwargs,
    names_of_job,
    operator_kwargs,
    plan_jobs,
)
from batchmark.runs.result_documents import ExpectedDocument
from tests.builders.installations import configured, target
from tests.builders.runs import PRICES
from tests.builders.watched_jobs import plan as own_job_plan
from tests.builders.watched_jobs import planned as own_job
from tests.paths import ROOT

RUN_ID = "manual__2026-11-21T01:00:00+00:00"


@pytest.fixture
def config():
    return configured()


def planned(config, **fields):
    return plan_jobs(config, **{"run_name": "run", "suite": "smoke"} | fields)


def test_by_default_all_targets_run_with_their_own_dtypes_and_a_calibration_on_any(config):
    jobs = planned(config, repeats=2)
    targets = ("g5.xlarge", "c5.2xlarge")
    assert [(job.repeat, job.target) for job in jobs] == list(product((1, 2), targets))
    assert {job.dtype for job in jobs} == {"suite"}
    assert len({job.result_prefix for job in jobs}) == len(jobs)
    assert jobs[0].result_prefix == "s3://results/raw/run/g5.xlarge/smoke/1/"
    scheduled = planned(config)
    assert {job.purpose for job in scheduled} == {"scheduled"}
    equal = planned(config, repeats=2, purpose="calibration")
    assert {job.purpose for job in equal} == {"calibration"}
    older = scheduled[0].model_dump(exclude={"purpose"})
    assert PlannedJob.model_validate(older) == scheduled[0]
    jobs = planned(config, targets=["c5.2xlarge"], repeats=2, need_both_devices=False)
    assert [(job.target, job.repeat) for job in jobs] == [("c5.2xlarge", 1), ("c5.2xlarge", 2)]
    with pytest.raises(PlanError, match="no targets to run: Terraform created none, or only ones"):
        planned(configured(targets={}), need_both_devices=False)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"suite": "smokey"}, "unknown suite 'smokey'; known: smoke, blog, sam"),
        ({"suite": "scaling"}, "run the DAG distributed_training_benchmark"),
        ({"dtype": "float8"}, "unknown dtype 'float8'; known: suite, float32"),
        ({"repeats": 0}, "repeats must be a whole number from 1 to 20, got 0"),
        ({"repeats": 21}, "got 21"),
        ({"repeats": float("nan")}, "got nan"),
        ({"repeats": True}, "got True"),
        ({"targets": ["g5.48xlarge"]}, "unknown target 'g5.48xlarge'; Terraform created"),
        ({"targets": ["g5.xlarge"]}, "no cpu target among g5.xlarge"),
        ({"targets": ["c5.2xlarge"]}, "no cuda target among c5.2xlarge"),
    ],
)
def test_what_cannot_be_planned_is_refused_with_the_value_seen(config, changes, message):
    with pytest.raises(PlanError, match=message):
        planned(config, **changes)


def test_a_job_goes_to_its_targets_queue_with_its_parameters_after_earlier_repeats(config):
    job = planned(config, suite="blog", dtype="float16")[0]
    kwargs = operator_kwargs(config, RUN_ID, job)
    assert kwargs["job_name"] == "batchmark-g5-xlarge-blog-1"
    assert kwargs["job_queue"] == "arn:queue-cuda"
    assert kwargs["on_demand_queue"] == "arn:queue-cuda-on-demand"
    assert ExpectedDocument(**kwargs["document"]) == ExpectedDocument.of(RUN_ID, job)
    assert kwargs["job_definition"] == "arn:definition-cuda:1"
    assert kwargs["tags"]["batchmark:installation"] == "batchmark"
    assert kwargs["parameters"] == {
        "suite": "blog",
        "dtype": "float16",
        "run_id": RUN_ID,
        "output": job.result_prefix,
    }
    jobs = planned(config, repeats=2, targets=["g5.xlarge"], need_both_devices=False)
    first, second = (operator_kwargs(config, RUN_ID, job)["longest_seconds"] for job in jobs)
    assert second - first == first - LONGEST_WAIT_SECONDS == 3 * 3600


def test_what_a_plan_counted_holds_though_terraform_has_been_applied_since(config):
    job = planned(config)[0]
    now = configured(targets={job.target: target("cuda", timeout_seconds=86400, attempts=10)})
    assert worst_case(now, [job], PRICES, datetime.now(UTC)).targets[0].attempts == 3
    kwargs = operator_kwargs(now, RUN_ID, job)
    assert (kwargs["submit_job_timeout"], kwargs["retry_strategy"]["attempts"]) == (3600, 3)
    spot_only = configured(targets={"g5.xlarge": target("cuda", on_demand_queue=None)})
    (job,) = planned(spot_only, need_both_devices=False)
    assert operator_kwargs(config, RUN_ID, job)["on_demand_queue"] is None
    job = planned(config)[0].model_copy(update={"limits": None})
    kwargs = operator_kwargs(config, RUN_ID, job)
    assert kwargs["submit_job_timeout"] == 3600
    assert kwargs["on_demand_queue"] == "arn:queue-cuda-on-demand"


def test_jobs_are_sent_with_the_retry_rules_of_their_definitions():
    """A strategy sent with a job replaces the definition's, with its rules."""
    text = (ROOT / "terraform" / "modules" / "batch" / "main.tf").read_text()
    rules = [
        dict(re.findall(r'(\w+) *= "([^"]+)"', block))
        for block in re.findall(r"\{ (action .*?) \}", text)
    ]
    names = {"action": "action", "onReason": "on_reason", "onStatusReason": "on_status_reason"}
    sent = [{names[name]: value for name, value in rule.items()} for rule in RETRY_RULES]
    assert sent == rules


def test_targets_of_one_vcpu_quota_may_wait_for_each_other():
    targets = {
        name: target(device, instance_type=name, job_queue=name, on_demand_queue=on_demand)
        for name, device, on_demand in (
            ("g5.xlarge", "cuda", "g5-on-demand"),
            ("g6.xlarge", "cuda", None),
            ("c5.2xlarge", "cpu", None),
            ("hpc7a.96xlarge", "cpu", None),
            ("trn1.2xlarge", "cpu", None),
        )
    }
    config = configured(targets=targets)
    shared = {
        job.target: operator_kwargs(config, RUN_ID, job)["queues_of_same_quota"]
        for job in planned(config, suite="blog")
    }
    counted = {"g5.xlarge": ["g6.xlarge"], "g6.xlarge": ["g5.xlarge", "g5-on-demand"]}
    assert shared == {name: [] for name in targets} | counted


def test_the_operator_and_the_collection_find_a_job_by_one_name(config):
    job = planned(config, suite="blog", repeats=2)[2]
    kwargs = operator_kwargs(config, RUN_ID, job)
    name = full_name(kwargs["job_name"], RUN_ID, 3)
    assert name == names_of_job(config.name, RUN_ID, job) + "3"
    assert re.fullmatch(r"batchmark-g5-xlarge-blog-2-[0-9a-f]{10}-g3", name)


def test_own_jobs_that_may_share_an_instance_know_whose_turn_is_before_theirs():
    one, both = target("cuda", job_queue="one"), target("cpu", job_queue="both")
    targets = {"g5.xlarge": one, "c5.xlarge": both, "c6i.xlarge": both}
    jobs = [
        own_job(repeat=repeat).model_copy(update={"target": name})
        for repeat in (1, 2)
        for name in targets
    ]
    found = all_operator_kwargs(configured(targets=targets), RUN_ID, jobs)
    turns = [(each["after"], each["turn"]) for each in found]
    assert turns == [(None, 1), (None, 1), (1, 2), (0, 2), (2, 3), (4, 4)]
    assert {(each["in_turn"], each["alone"]) for each in found} == {(True, False)}
    assert len({each["longest_seconds"] for each in found}) == 1, "none waits for others in Batch"

    # They would get in each other's way; a row may join what has nothing in common itself.
    def side(name, *environments):
        spot, *more = environments
        kept = {"spot": spot, "on_demand": None, "more": more}
        return target("cpu", job_queue=name, compute_environments=kept)

    targets = {
        "old": side("a", "1"),
        "new": side("b", "2", "4"),
        "alone": side("c", "3"),
        "both": side("d", "1", "5", "4"),
    }
    jobs = [own_job().model_copy(update={"target": name}) for name in targets]
    found = all_operator_kwargs(configured(targets=targets), RUN_ID, jobs)
    assert [each["after"] for each in found] == [None, 0, None, 1]
    one = configured(targets={"g5.xlarge": target("cuda")})
    jobs = [own_job(repeat=repeat) for repeat in range(1, 41)]
    found = [each["ahead"] for each in all_operator_kwargs(one, RUN_ID, jobs)]
    assert found[:5] == [[], [], [0], [1], [2, 0]]
    assert found[39] == [37, 35, 31, 23, 7]


def test_what_an_own_jobs_document_is_made_of_survives_json():
    job = own_job(own_job_plan(axis="size", size=64, check="./check"))
    document = operator_kwargs(configured(), RUN_ID, job)["document"]
    read = ExpectedDocument(**json.loads(json.dumps(document)))
    assert read == ExpectedDocument.of(RUN_ID, job)
    assert type(read.own_job.size) is int
