"""What a sharing run plans, and how its jobs are told what to share."""

import shlex
from datetime import UTC, datetime

import pytest

from batchmark.core.errors import PlanError
from batchmark.core.run import PlannedJob
from batchmark.runs.budget import worst_case
from batchmark.runs.plans.planning import (
    all_operator_kwargs,
    names_of_job,
    operator_kwargs,
    plan_jobs,
)
from batchmark.runs.plans.sharing_plan import plan_sharing, sharing_options
from tests.builders.installations import configured, target
from tests.builders.runs import PRICES

SHARED = {"instance_type": "g5.xlarge", "gpus": 0, "max_replicas": 10}
TARGETS = {
    "g5.xlarge": target("cuda", instance_type="g5.xlarge"),
    "c5.2xlarge": target("cpu", instance_type="c5.2xlarge"),
    "g5.xlarge-shared": target("cuda", sharing="time_slicing", **SHARED),
    "g5.xlarge-mps": target("cuda", sharing="mps", **SHARED),
}
WANTED = {
    "modes": ["time_slicing", "exclusive"],
    "replicas": [5, 1, 20, 5],
    "task": "cnn_training_step",
    "axes": "batch=32",
}


@pytest.fixture
def config():
    return configured(targets=TARGETS)


def planned(config, *, targets=(), repeats=1, **wanted):
    asked = sharing_options(WANTED | wanted)
    return plan_sharing(config, asked, run_name="run", targets=targets, repeats=repeats)


def options(config, job):
    kwargs = operator_kwargs(config, "run", job)
    ((name, value),) = [each.values() for each in kwargs["container_overrides"]["environment"]]
    assert name == "BATCHMARK_OPTIONS"
    return shlex.split(value)


def test_a_target_with_its_instance_alone_runs_one_job_with_every_mode_and_number(config):
    (job,) = planned(config, targets=["g5.xlarge"], disturbances=["hang", "crash"])
    assert (job.suite, job.name) == ("sharing", "sharing-1")
    assert job.result_prefix == "s3://results/raw/run/g5.xlarge/sharing/1/"
    assert "array_properties" not in operator_kwargs(config, "run", job)
    assert options(config, job) == [
        *("--task", "cnn_training_step", "--axis", "batch=32"),
        *("--modes", "exclusive,time_slicing", "--replicas", "1,5,20"),
        *("--disturbances", "crash,hang", "--form", "processes"),
    ]
    (job,) = planned(config, targets=["g5.xlarge"], task="own:softmax", axes="")
    assert options(config, job)[:4] == ["--task", "softmax", "--modes", "exclusive,time_slicing"]
    (job,) = planned(config, targets=["g5.xlarge"], task="own:softmax", axes=" size=10, heads=2 ")
    assert job.sharing.axes == {"size": 10, "heads": 2}


def test_limits_of_mps_and_disturbances_reach_the_jobs_that_can_have_them(config):
    limits = {"mps_threads": 25, "mps_memory_mib": 1024}
    asked = {"modes": ["time_slicing", "mps"], "replicas": [2], "disturbances": ["crash"], **limits}
    targets = ["g5.xlarge", "g5.xlarge-shared", "g5.xlarge-mps"]
    alone, sliced, mps = jobs = planned(config, targets=targets, **asked)
    told = ["--mps-threads", "25", "--mps-memory", "1024"]
    for job in (alone, mps):
        given = options(config, job)
        assert given[(at := given.index(told[0])) : at + 4] == told
    assert "--mps-threads" not in options(config, sliced)
    assert [job.sharing.disturbances for job in jobs] == [("crash",), (), ()]


def test_a_target_that_shares_its_instance_runs_an_array_at_one_jobs_cost(config):
    jobs = planned(config, targets=["g5.xlarge-shared"])
    assert [job.sharing.separate_replicas for job in jobs] == [1, 5]
    sizes = [operator_kwargs(config, "run", job).get("array_properties") for job in jobs]
    assert sizes == [None, {"size": 5}], "Batch has no array of one"
    told = " ".join(options(config, jobs[1])[4:])
    assert told == "--modes time_slicing --replicas 5 --form jobs"
    jobs = planned(config, targets=["g5.xlarge-shared"], replicas=[10])
    alone = planned(config, targets=["g5.xlarge"], replicas=[10])
    now = datetime.now(UTC)
    assert worst_case(config, jobs, PRICES, now).usd == worst_case(config, alone, PRICES, now).usd


def test_each_job_has_a_name_and_a_folder_of_its_own(config):
    jobs = planned(config, repeats=2)
    names = {names_of_job(config.name, "run", job) for job in jobs}
    folders = {job.result_prefix for job in jobs}
    assert len(names) == len(folders) == len(jobs) == 2 * (1 + 1 + 2)
    array = next(job for job in jobs if job.sharing.separate_replicas == 5)
    kwargs = operator_kwargs(config, "run", array)
    assert kwargs["job_name"] == "batchmark-g5-xlarge-shared-sharing-of-5-1"
    assert array.result_prefix == "s3://results/raw/run/g5.xlarge-shared/sharing/of-5/1/"


def test_jobs_that_share_an_instance_come_one_after_the_other(config):
    jobs = planned(config, repeats=2, targets=["g5.xlarge", "g5.xlarge-shared"])
    turns = [
        (job.target, job.sharing.separate_replicas, kwargs["after"], kwargs["turn"])
        for job, kwargs in zip(jobs, all_operator_kwargs(config, "run", jobs), strict=True)
    ]
    assert turns == [
        ("g5.xlarge", None, None, 1),
        ("g5.xlarge-shared", 1, None, 1),
        ("g5.xlarge-shared", 5, 1, 2),
        ("g5.xlarge", None, None, 1),
        ("g5.xlarge-shared", 1, 2, 3),
        ("g5.xlarge-shared", 5, 4, 4),
    ]


def test_targets_that_share_their_instance_are_left_out_where_not_asked_for_or_named(config):
    assert {job.target for job in planned(config)} == set(TARGETS) - {"g5.xlarge-mps"}
    with pytest.raises(PlanError, match=r"g5\.xlarge-mps shares its instance by mps, but modes"):
        planned(config, targets=["g5.xlarge-mps"])
    alone = configured(targets={name: TARGETS[name] for name in ("g5.xlarge-mps",)})
    with pytest.raises(PlanError, match="nothing to run: no target fits the modes exclusive, time"):
        planned(alone)
    jobs = plan_jobs(config, run_name="run", suite="smoke")
    assert [job.target for job in jobs] == ["g5.xlarge", "c5.2xlarge"]
    asked = {"targets": ["g5.xlarge-mps"], "need_both_devices": False}
    (named,) = plan_jobs(config, run_name="run", suite="smoke", **asked)
    assert named.target == "g5.xlarge-mps"
    kwargs = [operator_kwargs(config, "run", job) for job in (*jobs, named)]
    waits = [each["in_turn"] for each in kwargs]
    assert waits == [False, False, True], "whatever its suite, it is not alone there"
    assert not any("container_overrides" in each for each in kwargs)
    assert PlannedJob.model_validate(named.model_dump(exclude={"sharing"})) == named, "as of before"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"modes": ["mps"], "replicas": [1, 49]}, "49, but MPS supports at most 48 clients per"),
        ({"mps_threads": 50}, "50, but modes includes only time_slicing, exclusive: add mps"),
        ({"mps_memory_mib": 9}, "9, but modes includes only time_slicing, exclusive: add"),
        ({"task": "matmull"}, r"unknown task 'matmull' \(did you mean matmul\?\); known: cnn"),
        ({"task": "softmax"}, "unknown task 'softmax'.* Your own tasks are own:NAME"),
        ({"task": "own:matmul"}, "task 'matmul' is not one of your own workloads: omit"),
        ({"task": "own:../x"}, "task 'own:../x' is not a valid workload name: use"),
        ({"task": "matmul"}, "axes contains batch=32, but the axes of matmul are size"),
        ({"axes": ""}, "cnn_training_step needs batch: set it in axes, such as batch=32"),
        ({"axes": "batch"}, "axes contains 'batch': use a name and a whole number"),
        ({"axes": "batch=0"}, "axes contains 'batch=0': use a name and a whole number"),
        ({"axes": "batch=32 batch=64"}, "axes contains batch twice"),
        ({"axes": "batch=65537"}, "can't have batch=65537: use 1 to 65536"),
        ({"repeats": 21}, "repeats must be a whole number from 1 to 20, got 21"),
        ({"targets": ["g5"]}, "unknown target 'g5'; Terraform created: g5.xlarge, "),
        ({"targets": ["g5.xlarge-shared"], "replicas": [20, 40]}, "room for 10 replicas"),
        (
            {"targets": ["g5.xlarge-shared"], "disturbances": ["crash"]},
            "replicas can only be disturbed within one job: add a target that does not share",
        ),
    ],
)
def test_what_cannot_be_planned_is_refused_with_the_value_seen(config, changes, message):
    with pytest.raises(PlanError, match=message):
        planned(config, **changes)
