"""Jobs of several parts, and those that share an instance: what the operator asks for."""

from datetime import timedelta

import pytest

from batchmark.orchestration.links import JobResultLink
from batchmark.orchestration.operators.batch_trigger import ENDING_SECONDS
from tests.builders.watched_jobs import expected
from tests.stand_ins.batch import ON_DEMAND_QUEUE, RECLAIMED
from tests.stand_ins.operator_task import Task, name

SHARED = {"in_turn": True, "after": 4, "ahead": [2, 0], "turn": 3}
OPTIONS = {"environment": [{"name": "BATCHMARK_OPTIONS", "value": "--form jobs"}]}
ARRAY = {"array_properties": {"size": 5}, "container_overrides": OPTIONS}


def test_a_multi_node_job_is_submitted_with_its_nodes_and_its_result_is_the_main_nodes():
    """Each with a secret of its own, as the last variable, that Airflow does not keep."""
    tokens = set()
    for options in (OPTIONS, {}):
        changes = {"targetNodes": "0:"} | ({"containerOverrides": options} if options else {})
        overrides = {"numNodes": 2, "nodePropertyOverrides": [changes]}
        document = {"prefix": "s3://results/raw/run/t/scaling/on-2/1/"}
        task = Task(node_overrides=overrides, document=document, on_demand_queue=None)
        arguments, _ = task.deferral()
        (request,) = task.batch.submissions
        (nodes,) = request["nodeOverrides"]["nodePropertyOverrides"]
        *others, variable = nodes["containerOverrides"]["environment"]
        assert others == options.get("environment", [])
        assert (nodes["targetNodes"], variable["name"]) == ("0:", "BATCHMARK_NODES_TOKEN")
        assert request["nodeOverrides"]["numNodes"] == 2
        assert not {"containerOverrides", "arrayProperties"} & request.keys()
        assert arguments["on_demand"] is None
        result = JobResultLink().get_link(task.operator, ti_key=None)
        assert result.endswith("/results/raw/run/t/scaling/on-2/1/job-1%230")
        assert len(variable["value"]) >= 32
        assert variable["value"] not in f"{arguments}{task.xcoms}{overrides}"
        tokens.add(variable["value"])
    assert len(tokens) == 2


def test_an_array_job_is_submitted_with_its_size_and_its_options():
    task = Task(**ARRAY, document={"prefix": "s3://results/raw/run/t/sharing/of-5/1/"})
    arguments, _ = task.deferral()
    (request,) = task.batch.submissions
    assert request["arrayProperties"] == {"size": 5}
    assert request["containerOverrides"] == ARRAY["container_overrides"]
    assert arguments["on_demand"]["arrayProperties"] == {"size": 5}
    result = JobResultLink().get_link(task.operator, ti_key=None)
    assert result.endswith("/results/raw/run/t/sharing/of-5/1/job-1%3A0")


@pytest.mark.parametrize("in_document", [False, True])
def test_an_own_job_is_submitted_with_its_variables(in_document):
    """An earlier release planned them in its document."""
    variables = {"TOKEN": "hunter2"}
    document = expected().model_dump(mode="json")
    document["own_job"] |= {"environment": variables} if in_document else {}
    task = Task(document=document, environment={} if in_document else variables)
    arguments, _ = task.deferral()
    (request,) = task.batch.submissions
    assert {"name": "TOKEN", "value": "hunter2"} in request["containerOverrides"]["environment"]
    assert ("hunter2" in str(arguments["document"])) == in_document


def test_a_job_that_shares_an_instance_is_left_to_the_trigger_for_a_turn_more(monkeypatch):
    monkeypatch.setattr("time.time", lambda: 1000.0)
    limits = {"longest_seconds": 3600, "execution_timeout": timedelta(seconds=60)}
    task = Task(**ARRAY, **limits, **SHARED)
    arguments, deferred = task.deferral()
    assert task.batch.submissions == []
    assert task.xcoms == {}
    assert (arguments["job_id"], arguments["after"]) == (None, 4)
    assert arguments["ahead"] == [2, 0]
    assert arguments["request"]["arrayProperties"] == {"size": 5}
    assert arguments["on_demand"] == arguments["request"] | {"jobQueue": ON_DEMAND_QUEUE}
    assert arguments["deadline"] == 1000 + 4 * 60
    assert arguments["latest_turn"] == 1000 + 3 * (60 + ENDING_SECONDS)
    assert deferred.timeout == timedelta(seconds=4 * (60 + ENDING_SECONDS))


def test_a_cleared_task_or_a_live_array_is_left_to_the_trigger():
    """Jobs of its run or of another may be there and come first."""
    task = Task(**SHARED | {"after": None}, cleared_after=1)
    arguments, _ = task.deferral()
    assert task.batch.submissions == []
    assert (arguments["job_id"], arguments["after"]) == (None, None)
    task = Task(**ARRAY, **SHARED, try_number=2)
    task.batch.add_array(name(), ["RUNNING"] * 5)
    arguments, _ = task.deferral()
    assert (arguments["job_id"], arguments["request"]["jobName"]) == (None, name())
    assert task.batch.submissions == []


def test_a_retry_follows_a_live_job_that_need_not_be_alone_or_that_took_anothers_place():
    task = Task(**SHARED, alone=False, try_number=2)
    found = task.batch.add(name(), "RUNNING")
    arguments, _ = task.deferral()
    assert (arguments["job_id"], arguments["alone"]) == (found, False)
    assert task.batch.submissions == []
    task = Task(**SHARED, try_number=2)
    spot = task.batch.add(name(), "FAILED", statusReason=RECLAIMED)
    found = task.batch.add(name(), "RUNNING", ON_DEMAND_QUEUE)
    arguments, _ = task.deferral()
    assert (arguments["job_id"], arguments["earlier_job_ids"]) == (found, [spot])


def test_a_retry_of_a_failed_array_fails_at_once_with_its_childrens_reasons():
    task = Task(try_number=2)
    task.batch.add_array(name(), ["RUNNING"] * 2)
    failed = {"status": "FAILED", "statusReason": "boom", "container": {"exitCode": 3}}
    task.batch.change_child("job-1", 1, **failed)
    task.batch.change_child("job-1", 0, status="SUCCEEDED")
    failure = task.failure()
    assert "children failed:\n1: exit code 3 (the command's own error); status" in failure
