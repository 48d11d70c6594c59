"""What runs of own jobs plan, what their jobs are told, and what they can cost at most."""

import re
from collections import Counter
from datetime import UTC, datetime
from itertools import product

import pytest
from botocore.session import get_session
from botocore.validate import validate_parameters

from batchmark.core.errors import ConfigError, PlanError
from batchmark.core.own_jobs import ComparisonRun
from batchmark.core.run import RunPlan
from batchmark.runs.budget import worst_case
from batchmark.runs.own_jobs.wrapper import container_overrides
from batchmark.runs.plans.options import parse_options
from batchmark.runs.plans.own_job_plan import parse_own_job_run, plan_comparison, plan_own_jobs
from batchmark.runs.plans.planning import all_operator_kwargs, longest_seconds, operator_kwargs
from tests.builders.existing_jobs import found, own_jobs, side
from tests.builders.installations import configured, own_types
from tests.builders.runs import PRICES

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
EMPTY = own_jobs(parameters={"quality": ""}, command=["a", "Ref::size", "Ref::quality"])
COMMITS = {"old": "8ab0c11", "new": None}
CPU_ALONE = configured(targets=own_types(**{"c5.2xlarge": {}}))


def planned(jobs=None, config=None, **changes):
    run_name = changes.pop("run_name", "run")
    jobs = jobs or own_jobs()
    wanted = parse_own_job_run(jobs, {"job": "thumbnails", "repeats": 2} | changes)
    return plan_own_jobs(config or configured(), jobs, wanted, run_name=run_name)


def compared(*sides, **changes):
    found_sides = {each.side.name: each for each in sides or (found("old"), found("new"))}
    targets = {name: each.target for name, each in found_sides.items()}
    wanted = parse_options(ComparisonRun, {"name": "resize", "repeats": 2} | changes)
    return plan_comparison(with_targets(targets), found_sides, wanted, run_name="run"), targets


def places(jobs):
    return [(job.target, job.own_job.size, job.repeat) for job in jobs]


def with_targets(targets):
    return configured().model_copy(update={"targets": targets})


def test_each_target_size_and_repeat_is_a_job():
    jobs = planned()
    measured = product(("g5.xlarge", "c5.2xlarge"), (64, 256), (1, 2))
    assert Counter(places(jobs)) == Counter([*measured, *places(jobs[:2])])
    assert {job.suite for job in jobs} == {"job-thumbnails"}
    assert {job.dtype for job in jobs} == {"suite"}
    assert len({(job.target, job.name) for job in jobs}) == len(jobs)
    (first,) = [job for job in jobs if places([job]) == [("g5.xlarge", 64, 1)]]
    assert first.name == "job-thumbnails-size-64-1"
    assert first.result_prefix == "s3://results/raw/run/g5.xlarge/job-thumbnails-size-64/1/"
    assert first.own_job.command == ("convert", "--size", "64", "--quality=90")
    assert first.own_job.parameters == {"size": "64", "quality": "90"}
    assert first.own_job.job_definition == "arn:own-cuda:1"
    jobs = planned(own_jobs(axis=None, command=[], shell=False))
    assert [job.repeat for job in jobs] == [3, 3, 1, 1, 2, 2]
    assert {(job.own_job.size, job.own_job.shell) for job in jobs} == {(None, False)}
    assert jobs[2].name == "job-thumbnails-1"


def test_repeats_mix_sizes_and_targets_after_one_job_that_starts_the_instance_of_each_queue():
    jobs = planned(repeats=6)
    assert {(job.target, job.repeat) for job in jobs[:2]} == {("g5.xlarge", 7), ("c5.2xlarge", 7)}
    for first in jobs[:2]:
        following = next(job for job in jobs[2:] if places([job])[0][:2] == (first.target, 64))
        assert first.own_job == following.own_job
        assert first.result_prefix != following.result_prefix
        assert first.name.endswith("-7")
    repeats = [job.repeat for job in jobs[2:]]
    assert repeats == sorted(repeats)
    orders = {
        tuple((job.target, job.own_job.size) for job in jobs if job.repeat == repeat)
        for repeat in range(1, 7)
    }
    assert len(orders) > 1
    assert set(Counter((job.target, job.own_job.size) for job in jobs[2:]).values()) == {6}
    assert jobs == planned(repeats=6), "a retry of the task plans the same"
    assert jobs != planned(repeats=6, run_name="another")


def firsts(jobs, config=None):
    """Of each job with its place, that of the one without whose success it is not run."""
    kwargs = all_operator_kwargs(config or configured(), "run", jobs)
    told = [each["first"] for each in kwargs]
    found = [index if index is None else places([jobs[index]])[0] for index in told]
    return list(zip(places(jobs), found, strict=True))


def test_no_job_of_a_side_is_run_where_the_first_of_its_size_or_a_smaller_one_fails_by_itself():
    starts, others = firsts(planned())[:2], firsts(planned())[2:]
    assert [first for _, first in starts] == [None, None]
    assert {first == (target, 64, 3) for (target, _, _), first in others} == {True}
    # Sides of one queue have one job more together, and so the first of a side may be large.
    jobs, targets = compared(parameter="size", sizes=[1, 2, 3], repeats=1)
    for index, ((target, size, _), first) in enumerate(firsts(jobs, with_targets(targets))):
        before = [place for place in places(jobs[:index]) if place[0] == target]
        asks_no_more = [place for place in before if place[1] <= size]
        assert first == next(iter(asks_no_more), None)


def test_sides_of_one_queue_share_the_job_that_starts_it_and_measure_their_own_versions():
    jobs, targets = compared(repeats=6)
    assert len(jobs) == 1 + 2 * 6
    assert places(jobs)[0] == ("old", None, 7)
    kwargs = all_operator_kwargs(with_targets(targets), "run", jobs)
    assert [each["turn"] for each in kwargs] == list(range(1, 14))
    jobs, _ = compared(
        *(found(name, side=side(name, commit=commit)) for name, commit in COMMITS.items()),
        parameter="size",
        sizes=[1],
    )
    assert {job.target: job.version.commit for job in jobs} == COMMITS


def test_limits_are_the_own_jobs_and_count_in_the_worst_case_in_the_one_order_of_targets():
    jobs = planned(targets=["c5.2xlarge"])
    assert {dict(job.limits)["timeout_seconds"] for job in jobs} == {600}
    assert {(job.limits.attempts, job.limits.submissions) for job in jobs} == {(2, 2)}
    config = configured(targets=own_types(**{"c5.2xlarge": {}, "g5.xlarge": {}}))
    worst = worst_case(config, planned(config=config, targets=["c5.2xlarge"]), PRICES, NOW)
    assert worst.targets[0].seconds == (1 + 4) * 2 * 2 * 600
    assert worst.usd == 1.14  # 12,000 s at 0.34 USD
    assert {longest_seconds(job, job.limits) for job in jobs} == {6 * 3600 + 1200}
    worst = [
        worst_case(configured(), planned(run_name=f"run {n}"), PRICES, NOW).targets
        for n in range(4)
    ]
    assert {tuple(one.target for one in each) for each in worst} == {("c5.2xlarge", "g5.xlarge")}


@pytest.mark.parametrize(
    ("sizes", "commands"),
    [
        ([16], ["16"]),
        (["16", " 32\r", ""], ["16", "32"]),
        (["2.5e1"], ["25"]),
        ([32.0, 0.5, 32], ["0.5", "32"]),
        ([3, 1, 2], ["1", "2", "3"]),
    ],
)
def test_other_sizes_may_be_asked_for(sizes, commands):
    jobs = planned(sizes=sizes, targets=["c5.2xlarge"], repeats=1)
    assert sorted((job.own_job.command[2] for job in jobs[1:]), key=float) == commands


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"job": "thumbnail"}, "unknown own job 'thumbnail' (did you mean thumbnails?); known: t"),
        ({"targets": ["c5.xlarge"]}, "thumbnails has no target 'c5.xlarge' (did you mean c5.2xl"),
        ({"config": CPU_ALONE}, "unknown target 'g5.xlarge'; Terraform created: c5.2xl"),
        ({"sizes": [0]}, "sizes 0 is out of range; use a number above 0, up to 1e+18"),
        ({"sizes": [float("nan")]}, "sizes expects numbers, got nan"),
        ({"sizes": ["all"]}, "sizes expects numbers, got 'all'; the sizes in Terraform are 64"),
        ({"sizes": ["64, 256"]}, "got '64, 256'; the sizes in Terraform are 64, 256"),
        ({"sizes": "64"}, "sizes: Input should be a valid tuple, got '64'"),
        ({"sizes": ["inf"]}, "sizes expects numbers, got inf"),
        ({"job": ""}, "job: String should match"),
        ({"job": None}, "unknown own job ''; known: thumbnails"),
        ({"jobs": own_jobs(parameters={})}, "contains Ref::quality, which has no value: set it"),
        ({"jobs": own_jobs(check="test Ref::x")}, "the check of g5.xlarge contains Ref::x"),
        ({"jobs": own_jobs(output="/tmp/Ref::x")}, "the output of g5.xlarge contains Ref::x"),
        ({"jobs": EMPTY}, "word 3 of the command of g5.xlarge, 'Ref::quality', is empty, which"),
        ({"jobs": own_jobs(axis=None, command=["a", ""])}, "word 2 of the command of g5.xlarge,"),
        ({"jobs": own_jobs(command=[])}, "uses its image's default command, which is unknown"),
        ({"jobs": own_jobs(command=["convert"])}, "does not contain Ref::size, so sizes would"),
        ({"jobs": own_jobs(axis=None, command=["a"]), "sizes": [5]}, "contains 5, but the job has"),
        ({"jobs": own_jobs(command=["Ref::size", "x" * 9000])}, "ECS allows only 8,192: put a"),
    ],
)
def test_what_can_not_run_is_refused(changes, message):
    with pytest.raises(PlanError, match=re.escape(message)):
        planned(**changes)


def test_parameters_are_put_into_the_check_and_the_output_too():
    changes = {"check": "test -s Ref::unused/Ref::size", "output": "/tmp/Ref::size.tar"}
    jobs = planned(own_jobs(**changes))
    plans = [job.own_job for job in jobs if job.own_job.size == 64]
    assert {(each.check, each.output) for each in plans} == {("test -s 1/64", "/tmp/64.tar")}
    assert plans[0].parameters == {"size": "64", "quality": "90", "unused": "1"}
    given = side(parameters={"size": "1", "quality": "90", "to": "/a"}, check="test -s Ref::to")
    jobs, _ = compared(found(side=given, parameters=dict(given.parameters)))
    assert jobs[0].own_job.check == "test -s /a"


def test_targets_whose_jobs_share_an_instance_and_jobs_of_another_installation_are_refused():
    shared = {"sharing": "mps", "max_replicas": 4, "gpus": 0}
    config = configured(targets=own_types(**{"g5.xlarge": shared, "c5.2xlarge": {}}))
    with pytest.raises(PlanError, match=r"^jobs on g5\.xlarge share an instance, which would"):
        planned(config=config)
    assert planned(config=config, targets=["c5.2xlarge"])
    with pytest.raises(ConfigError, match="belong to installation 'batchmark' in us-east-1"):
        planned(config=configured(name="lab"))


def test_a_comparison_runs_each_side_with_its_own_and_each_size_in_its_command():
    own = {"environment": {"MODE": "fast"}, "vcpus": 4, "memory_mib": 4096, "gpus": 1}
    own |= {"check": "test -s out.png", "output": "out.png"}
    new = side("new", parameters={"quality": "50"}, **own)
    parameters = {"size": "1", "quality": "50"}
    jobs, targets = compared(found("old"), found("new", side=new, parameters=parameters))
    assert {(job.target, job.repeat) for job in jobs[1:]} == set(product(("old", "new"), (1, 2)))
    assert {job.instance_type for job in jobs} == {"c5.xlarge"}
    job = next(job for job in jobs if job.target == "new")
    assert job.own_job.command == ("convert", "--size", "1", "--quality=50")
    assert job.own_job.existing
    assert not planned()[0].own_job.existing
    kwargs = operator_kwargs(with_targets(targets), "run", job)
    assert kwargs["job_definition"].endswith("job-definition/resize:7")
    assert kwargs["job_queue"].endswith("job-queue/images")
    assert kwargs["on_demand_queue"] is None
    assert kwargs["submit_job_timeout"] == 900
    assert {name: getattr(job.own_job, name) for name in own} == own
    assert kwargs["environment"] == own["environment"]
    jobs, _ = compared(parameter="size", sizes=[8, 16])
    assert {(job.own_job.axis, job.own_job.size, job.own_job.command[2]) for job in jobs} == {
        ("size", 8, "8"),
        ("size", 16, "16"),
    }
    names = {job.name for job in jobs if job.repeat == 1}
    assert names == {"job-resize-size-8-1", "job-resize-size-16-1"}
    jobs, targets = compared(parameter="size", sizes=[8, 0.5])
    plan = RunPlan(jobs=tuple(jobs), sides=targets)
    assert RunPlan.model_validate_json(plan.model_dump_json()) == plan


@pytest.mark.parametrize(
    ("sides", "changes", "message"),
    [
        ((), {"name": "Resize it"}, "name: String should match pattern '^[a-z]"),
        ((), {"name": "resize\n"}, r"got 'resize\n'"),
        ((), {"parameter": "size\n", "sizes": [1]}, r"got 'size\n'"),
        ((), {"parameter": "sise", "sizes": [1]}, "does not contain Ref::sise, so sizes would"),
        ((), {"parameter": "a b", "sizes": [1]}, "parameter: String should match pattern"),
        ((), {"parameter": "unit", "sizes": [1]}, "'unit', which is a reserved name"),
        ((), {"parameter": "size"}, "parameter is 'size', but there are no sizes: add some, or"),
        ((), {"sizes": [1]}, "but the job has no axis: choose a parameter of its command"),
        ((found(side=side(parameters={"qualty": "1"})),), {}, "parameter 'qualty', which its"),
        # More than may wait in a triggerer beside others.
        (
            [found(f"s{number}") for number in range(4)],
            {"parameter": "size", "sizes": list(range(1, 21)), "repeats": 7},
            "jobs exceed the limit of 500 per run",
        ),
    ],
)
def test_a_comparison_that_can_not_run_is_refused(sides, changes, message):
    with pytest.raises(PlanError, match=re.escape(message)):
        compared(*sides, **changes)


def test_the_jobs_are_such_as_batch_accepts_and_name_their_run_by_a_tag():
    config = configured()
    (job, *_) = planned()
    (kwargs, *_) = all_operator_kwargs(config, "manual__1", [job])
    assert kwargs["tags"]["batchmark:run-id"] == "manual__1"
    assert set(kwargs["parameters"]) == {"size", "quality"}
    shape = get_session().get_service_model("batch").operation_model("SubmitJob").input_shape
    request = {
        "jobName": "a",
        "jobQueue": kwargs["job_queue"],
        "jobDefinition": kwargs["job_definition"],
        "parameters": kwargs["parameters"],
        "containerOverrides": container_overrides(job.own_job),
        "tags": kwargs["tags"],
    }
    validate_parameters(request, shape)
