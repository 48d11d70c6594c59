"""What the form of job_comparison takes as sides, and whose queues are remembered."""

import re
import traceback
from datetime import UTC, datetime, timedelta

import pytest

from batchmark.aws.result_bucket import RunStore
from batchmark.core.errors import PlanError
from batchmark.runs.own_jobs.known_queues import remember, remembered
from batchmark.runs.own_jobs.sides import Side, parse_sides
from tests.builders.existing_jobs import found
from tests.builders.leaks import ARN
from tests.builders.runs import PRICES
from tests.stand_ins.bucket import MemoryBucket

SIDE = {"name": "old", "job_queue": "images", "job_definition": "resize:7"}
# Of each field, what it can't be.
WRONG = {
    **{name: {} for name in Side.model_fields if name not in ("parameters", "environment")},
    "parameters": [],
    "name": "No Name",
    "shell": "perhaps",
    "output_sha256": "0" * 64,
}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([], "sides contains 0 objects: specify 1 to 20"),
        (["old"], "side 1 is a str: use an object with fields such as name"),
        ([SIDE | {"queue": "a"}], "side 1 has an unknown field 'queue' (did you mean job_queue?)"),
        ([SIDE, {"name": "new"}], "side 2: job_queue: Field required"),
        ([SIDE | {"name": "a" * 33}], "side 1: name: String should match pattern"),
        ([SIDE | {"name": "../x"}], "side 1: name: String should match pattern"),
        ([SIDE | {"timeout_seconds": 59}], "timeout_seconds: Input should be greater than or equ"),
        ([SIDE | {"gpus": 0}], "gpus: Input should be greater than or equal to 1, got 0"),
        ([SIDE | {"check": "true", "shell": False}], "check and output need shell: true"),
        ([SIDE | {"output_sha256": "0" * 64}], "output_sha256 was specified without an output"),
        ([SIDE | {"output": "a", "output_sha256": "x"}], "output_sha256: String should match patt"),
        ([SIDE | {"environment": {"BATCHMARK_CHECK": "1"}}], "contains BATCHMARK_CHECK"),
        ([SIDE | {"environment": {"AWS_BATCH_JOB_ID": "1"}}], "contains AWS_BATCH_JOB_ID"),
        ([SIDE, SIDE], "2 sides are named 'old': give each a unique name"),
        ([SIDE | {"name": "taken"}], "side 'taken' has the name of a target"),
    ],
)
def test_what_no_side_can_be_is_refused_with_its_value(given, message):
    with pytest.raises(PlanError, match=re.escape(message)):
        parse_sides(given, ["taken"])


SECRET = {"TOKEN": "hunter2"}


@pytest.mark.parametrize(
    "given",
    [
        '{"name": "old", "environment": {"TOKEN": "hunter2"}}',
        [SIDE, SECRET],
        SIDE | SECRET,
        SIDE | {"environment": "TOKEN=hunter2"},
        SIDE | {"environment": ["TOKEN=hunter2"]},
        SIDE | {"environment": {"TOKEN": ["hunter2"]}},
        SIDE | {"environment": {"TOKEN": {"is": "hunter2"}}},
        SIDE | {"environment": SECRET | {"AWS_BATCH_JOB_ID": "1"}},
        *(SIDE | {"environment": SECRET, name: value} for name, value in WRONG.items()),
        {"name": "old", "environment": SECRET},
    ],
)
def test_no_error_and_no_traceback_shows_the_value_of_a_variable(given):
    with pytest.raises(PlanError) as refused:
        parse_sides([given])
    assert "hunter2" not in "".join(traceback.format_exception(refused.value))


def test_a_side_is_a_queue_and_a_definition_and_what_differs_from_it():
    more = {"parameters": {"size": 64, "rate": 0.5}, "command": ["a", "b"], "memory_mib": 512}
    more["environment"] = {"N": 1, "BATCHMARK_METRICS": "/scratch/metrics"}
    old, new = parse_sides([SIDE, SIDE | more | {"name": "new"}])
    assert (old.command, old.parameters, old.shell) == (None, {}, True)
    assert new.parameters == {"size": "64", "rate": "0.5"}
    assert new.environment == {"N": "1", "BATCHMARK_METRICS": "/scratch/metrics"}
    assert (new.command, new.memory_mib) == (("a", "b"), 512)


@pytest.mark.parametrize(
    ("prices", "dearest"),
    [
        ({"c5.xlarge": 0.17, "c5.4xlarge": 0.68, "c5.2xlarge": 0.34}, "c5.4xlarge"),
        ({"c5.xlarge": 0.17, "c5.4xlarge": 0.68}, "c5.2xlarge"),  # whose price is unknown
    ],
)
def test_the_dearest_type_that_it_may_run_on_is_what_the_worst_case_counts(prices, dearest):
    side = found(types=("c5.xlarge", "c5.4xlarge", "c5.2xlarge"))
    table = PRICES.model_copy(update={"on_demand": prices})
    assert side.at_worst(table).target.instance_type == dearest
    assert side.target.instance_type == "c5.xlarge"


NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
OLD, NEW = f"{ARN}:job-queue/old", f"{ARN}:job-queue/new"


def test_a_queue_is_remembered_for_thirty_days_after_its_last_comparison():
    store = RunStore(MemoryBucket("results", "us-east-1"), "results", "run")
    store.put("guard/queues/notes.json", "{}")  # somebody else's
    assert remembered(store, NOW) == []
    remember(store, {OLD, NEW}, NOW)
    remember(store, [NEW], NOW + timedelta(days=5))
    for days, known in ((30, [NEW, OLD]), (31, [NEW]), (36, [])):
        assert sorted(remembered(store, NOW + timedelta(days=days))) == known
