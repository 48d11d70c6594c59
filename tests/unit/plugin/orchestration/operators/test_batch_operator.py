"""The operator on a worker: which job it finds, submits and terminates."""

from contextlib import nullcontext
from datetime import timedelta
from itertools import product
from types import SimpleNamespace

import pytest
from airflow.sdk.exceptions import AirflowException, AirflowFailException, TaskDeferralError
from botocore.exceptions import ClientError, EndpointConnectionError

from batchmark.orchestration.links import JobLogLink, JobResultLink
from batchmark.orchestration.operators import batch_operator
from batchmark.orchestration.operators.batch_operator import KILLED
from batchmark.orchestration.operators.batch_trigger import ENDING_SECONDS
from batchmark.runs.job_outcome import JobOutcome
from batchmark.runs.result_documents import ExpectedDocument, key_of
from tests.builders.runs import build_job, build_row
from tests.builders.watched_jobs import expected
from tests.stand_ins.batch import ON_DEMAND_QUEUE, RECLAIMED, SPOT_QUEUE, client_error
from tests.stand_ins.bucket import MemoryBucket
from tests.stand_ins.failing_calls import failing
from tests.stand_ins.operator_task import RETRIES, Task, name

FOREIGN = {"batchmark:installation": "another"}


def test_the_first_try_submits_under_a_name_that_a_retry_finds():
    task = Task()
    arguments, _ = task.deferral()
    (request,) = task.batch.submissions
    assert request == {
        "jobName": name(),
        "jobQueue": SPOT_QUEUE,
        "jobDefinition": "definition:1",
        "parameters": {"suite": "smoke"},
        "tags": {
            "batchmark:installation": "batchmark",
            "batchmark:generation": "0",
            "batchmark:dag": "benchmark",
        },
    }
    assert arguments["job_id"] == task.xcoms["job_id"] == "job-1"
    assert task.xcoms["job_ids"] == ["job-1"]
    assert arguments["on_demand"] == request | {"jobQueue": ON_DEMAND_QUEUE}
    link = JobLogLink().get_link(task.operator, ti_key=None)
    assert link == "http://127.0.0.1:5000/local-cloud/jobs/job-1/log"


@pytest.mark.parametrize("queue", [None, SPOT_QUEUE])
def test_without_an_on_demand_queue_no_second_job_may_follow(queue):
    arguments, _ = Task(on_demand_queue=queue).deferral()
    assert arguments["on_demand"] is None


@pytest.mark.parametrize("status", ["SUBMITTED", "RUNNABLE", "STARTING", "RUNNING"])
def test_a_retry_takes_over_a_live_job(status):
    task = Task(try_number=2)
    task.batch.add("another task's", "RUNNING")
    found = task.batch.add(name(), status)
    arguments, _ = task.deferral()
    assert task.batch.submissions == []
    assert task.batch.terminated == []
    assert arguments["job_id"] == task.xcoms["job_id"] == found


def test_a_retry_of_a_job_that_succeeded_succeeds_and_in_aws_links_its_stream():
    task = Task(try_number=2)
    task.batch.meta = SimpleNamespace(
        endpoint_url="https://batch.eu-west-1.amazonaws.com", region_name="eu-west-1"
    )
    found = task.batch.add(name(), "SUCCEEDED", container={"logStreamName": "stream"})
    assert task.operator.execute(task.context) == found
    assert task.batch.submissions == []
    assert task.xcoms["timing"]["status"] == "SUCCEEDED"
    stream = "#logsV2:log-groups/log-group/$252Faws$252Fbatch$252Fjob/log-events/stream"
    assert stream in task.operator.job_log_url


def test_a_retry_tells_those_behind_it_that_its_job_failed_by_its_own_error(monkeypatch):
    """As Airflow drops what the try before has told."""
    end = JobOutcome("boom", {}, "exit code 3")
    monkeypatch.setattr(batch_operator, "outcome", lambda *_: end)
    task = Task(try_number=2)
    task.batch.add(name(), "FAILED")
    assert task.failure() == "boom"
    assert task.xcoms["own_error"] == "exit code 3"


def test_a_retry_of_a_failed_job_or_array_fails_at_once_as_does_one_that_batch_refuses():
    """Even with retries left, as it raises AirflowFailException."""
    task = Task(try_number=2)
    task.batch.add(name(), "FAILED", statusReason="boom", container={"exitCode": 3})
    failure = task.failure()
    assert "exit code 3 (the command's own error); status reason: boom" in failure
    assert task.xcoms["failure"] == failure
    assert task.batch.submissions == []
    task = Task()
    task.batch.failures = [client_error("ClientException")]
    assert f"Batch rejected job {name()}: An error occurred (ClientException)" in task.failure()
    task = Task(try_number=2)
    task.batch.add_array(name(), ["RUNNING"] * 2)
    failed = {"status": "FAILED", "statusReason": "boom", "container": {"exitCode": 3}}
    task.batch.change_child("job-1", 1, **failed)
    task.batch.change_child("job-1", 0, status="SUCCEEDED")
    failure = task.failure()
    assert "children failed:\n1: exit code 3 (the command's own error); status" in failure


@pytest.mark.parametrize(("refusals", "waits"), [(4, True), (6, False)])
def test_a_retry_waits_for_an_s3_that_refuses_for_a_while(monkeypatch, refusals, waits):
    """One that refuses for longer is left to the next try."""
    left = build_job("g5.xlarge", [build_row([0.1] * 8)], job_id="job-1")
    expected = ExpectedDocument.of(left.document.run_id, left.planned)
    task = Task(try_number=2, document=expected.model_dump())
    task.batch.add(name(), "SUCCEEDED", attempts=[{}])
    s3 = MemoryBucket(expected.bucket, "us-east-1")
    s3.objects[key_of(expected.uri("job-1", 1))] = left.document.to_json().encode()
    s3.on_call = failing(*[client_error("ExpiredToken")] * refusals, then=lambda *_: None)
    task.operator.clients.clients["s3"] = s3
    slept = []
    monkeypatch.setattr("time.sleep", slept.append)
    with nullcontext() if waits else pytest.raises(ClientError, match="ExpiredToken"):
        assert task.operator.execute(task.context) == "job-1"
    assert sum(slept) > 25
    assert "failure" not in task.xcoms


def test_a_retry_follows_the_newest_of_its_jobs_and_leaves_a_reclaimed_one_to_the_trigger():
    task = Task(try_number=2)
    spot = task.batch.add(name(), "FAILED", statusReason=RECLAIMED)
    arguments, _ = task.deferral()
    assert arguments["job_id"] == spot
    assert task.batch.submissions == []
    on_demand = task.batch.add(name(), "RUNNING", ON_DEMAND_QUEUE)
    arguments, _ = task.deferral()
    assert arguments["job_id"] == on_demand
    assert arguments["earlier_job_ids"] == [spot]
    assert task.xcoms["job_ids"] == [spot, on_demand]
    # There may be two after a submission that ListJobs did not show in time.
    task = Task(try_number=2)
    double, newest = task.batch.add(name(), "RUNNING"), task.batch.add(name(), "RUNNABLE")
    arguments, _ = task.deferral()
    assert arguments["job_id"] == newest
    assert [job_id for job_id, _ in task.batch.terminated] == [double]


def test_a_cleared_task_terminates_its_jobs_but_none_of_a_newer_generation():
    task = Task(try_number=3, cleared_after=2)
    old = task.batch.add(name(0), "RUNNING", ON_DEMAND_QUEUE)
    task.batch.add(name(0), "SUCCEEDED")
    arguments, _ = task.deferral()
    assert task.batch.terminated == [(old, "Another job of its Airflow task took its place")]
    assert [request["jobName"] for request in task.batch.submissions] == [name(2)]
    assert arguments["job_id"] == task.xcoms["job_id"] == "job-3"
    task = Task(try_number=2)
    task.batch.add(name(0), "RUNNING")
    newer = task.batch.add(name(2), "RUNNING")
    task.deferral()
    assert task.batch.jobs[newer]["status"] == "RUNNING"


@pytest.mark.parametrize(
    ("ending", "fields"), [("-debug", {}), ("0", {}), ("", {"tags": {}}), ("", {"tags": FOREIGN})]
)
def test_a_copy_of_its_job_is_neither_ended_nor_taken_for_its_own(ending, fields):
    """Whoever clones a job by hand keeps its name, whole or as the begin of one."""
    task = Task(cleared_after=1)
    for generation, status in product((0, 1), ("RUNNING", "SUCCEEDED")):
        task.batch.add(f"{name(generation)}{ending}", status, **fields)
    task.deferral()
    assert task.batch.terminated == []
    assert [request["jobName"] for request in task.batch.submissions] == [name(1)]


def test_a_killed_worker_terminates_its_job_which_is_submitted_again():
    killed = Task()
    killed.deferral()
    killed.operator.on_kill()
    assert killed.batch.terminated == [("job-1", KILLED)]

    task = Task(try_number=2)
    task.batch.add(name(), "FAILED", statusReason=KILLED)
    arguments, _ = task.deferral()
    assert arguments["job_id"] == "job-2"
    assert task.xcoms["job_ids"] == ["job-2"]
    task = Task()
    submit = task.batch.submit_job
    # From a signal handler, between two steps of the operator.
    task.batch.submit_job = lambda **request: (task.operator.on_kill(), submit(**request))[1]
    with pytest.raises(AirflowException, match="killed on its worker while it was submitting job"):
        task.operator.execute(task.context)
    assert task.batch.terminated == [("job-1", KILLED)]


def test_a_deferral_ends_after_the_execution_timeout_or_the_longest_time_of_both_jobs(monkeypatch):
    monkeypatch.setattr("time.time", lambda: 1000.0)
    task = Task(execution_timeout=timedelta(seconds=60), longest_seconds=7200)
    arguments, deferred = task.deferral()
    assert arguments["deadline"] == 1060.0
    assert deferred.timeout == timedelta(seconds=60 + ENDING_SECONDS)
    _, deferred = Task(longest_seconds=3600).deferral()
    assert deferred.timeout == timedelta(seconds=2 * 3600 + ENDING_SECONDS)
    _, deferred = Task().deferral()
    assert deferred.timeout is None


def test_a_deferral_that_timed_out_ends_a_job_or_reports_the_newest_that_has_ended():
    task = Task(try_number=1)
    job_id = task.batch.add(name(), "RUNNING")
    with pytest.raises(AirflowFailException, match="Check that a triggerer is running"):
        task.operator.resume_execution("__fail__", {"error": "Trigger timeout"}, task.context)
    (ended,) = task.batch.terminated
    assert ended == (job_id, "The task's deferral timed out before any triggerer ended the task")
    task = Task(try_number=1)
    job_id = task.batch.add(name(), "SUCCEEDED")
    resumed = task.operator.resume_execution("__fail__", {"error": "Trigger timeout"}, task.context)
    assert resumed == job_id
    assert task.batch.terminated == []
    task = Task()
    task.batch.add(name(), "FAILED", statusReason=RECLAIMED)
    newest = task.batch.add(name(), "SUCCEEDED", ON_DEMAND_QUEUE)
    assert task.operator.execute_complete(task.context, event="success") == newest


@pytest.mark.parametrize(("try_number", "ended"), [(RETRIES, []), (RETRIES + 1, ["job-1"])])
def test_a_broken_trigger_or_worker_leaves_its_job_to_the_next_try_if_any(try_number, ended):
    task = Task(try_number=try_number)
    task.batch.add(name(), "RUNNING")
    with pytest.raises(TaskDeferralError):
        task.operator.resume_execution("__fail__", {"error": "Trigger failure"}, task.context)
    assert [job_id for job_id, _ in task.batch.terminated] == ended
    task = Task(try_number=try_number)
    no_answer = EndpointConnectionError(endpoint_url="http://api-server.example")
    task.context["ti"].xcom_push = failing(no_answer)
    with pytest.raises(EndpointConnectionError):
        task.operator.execute(task.context)
    assert [job_id for job_id, _ in task.batch.terminated] == ended


def test_a_last_try_that_may_not_terminate_jobs_leaves_that_to_collecting(capsys):
    task = Task(try_number=RETRIES + 2, cleared_after=1)
    task.batch.add(name(0), "RUNNING")
    task.batch.terminate_job = failing(client_error("AccessDeniedException", 403))
    with pytest.raises(ClientError, match="AccessDeniedException"):
        task.operator.execute(task.context)
    assert (
        "Some jobs may keep running until collect_results terminates them"
        in capsys.readouterr().out
    )


SHARED = {"in_turn": True, "after": 4, "ahead": [2, 0], "turn": 3}
OPTIONS = {"environment": [{"name": "BATCHMARK_OPTIONS", "value": "--form jobs"}]}
ARRAY = {"array_properties": {"size": 5}, "container_overrides": OPTIONS}


def test_jobs_of_several_parts_are_submitted_with_nodes_or_size_and_have_the_first_ones_result():
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
