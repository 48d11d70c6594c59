"""The operator on a worker: which job it finds, submits and terminates."""

from datetime import timedelta
from io import BytesIO
from types import SimpleNamespace

import pytest
from airflow.sdk.exceptions import (
    AirflowException,
    AirflowFailException,
    TaskDeferralError,
    TaskDeferred,
)
from botocore.exceptions import ClientError, EndpointConnectionError

from batchmark.core.names import full_name
from batchmark.orchestration.links import JobLogLink, JobResultLink
from batchmark.orchestration.operators.batch_operator import KILLED, BenchmarkJobOperator
from batchmark.orchestration.operators.batch_trigger import ENDING_SECONDS
from batchmark.runs.result_documents import ExpectedDocument
from tests.builders.runs import build_job, build_row
from tests.stand_ins.batch import (
    ON_DEMAND_QUEUE,
    RECLAIMED,
    SPOT_QUEUE,
    FakeBatch,
    FakeClients,
    FakeLogs,
    client_error,
)

RUN_ID = "manual__2026-11-21T01:00:00+00:00"
JOB_NAME = "batchmark-g5-xlarge-smoke-1"
RETRIES = 3
FOREIGN = {"batchmark:installation": "another"}


def name(generation=0):
    return full_name(JOB_NAME, RUN_ID, generation)


class Task:
    """A task instance on a worker, with a fake Batch behind it."""

    def __init__(self, *, try_number=1, cleared_after=0, **arguments):
        self.batch = FakeBatch()
        self.operator = BenchmarkJobOperator(
            task_id="run_benchmark",
            job_name=JOB_NAME,
            job_queue=SPOT_QUEUE,
            job_definition="definition:1",
            parameters={"suite": "smoke"},
            tags={"batchmark:installation": "batchmark"},
            aws_conn_id=None,
            retries=RETRIES,
            **{"on_demand_queue": ON_DEMAND_QUEUE} | arguments,
        )
        self.operator.clients = FakeClients(batch=self.batch, logs=FakeLogs())
        self.xcoms = {}
        ti = SimpleNamespace(
            dag_id="benchmark",
            task_id="run_benchmark",
            run_id=RUN_ID,
            try_number=try_number,
            max_tries=RETRIES + cleared_after,
            xcom_push=lambda key, value: self.xcoms.update({key: value}),
        )
        self.context = {"ti": ti, "task": self.operator, "run_id": RUN_ID}

    def deferral(self):
        with pytest.raises(TaskDeferred) as deferred:
            self.operator.execute(self.context)
        _, arguments = deferred.value.trigger.serialize()
        return arguments, deferred.value

    def failure(self):
        with pytest.raises(AirflowFailException) as failed:
            self.operator.execute(self.context)
        return str(failed.value)


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


def test_a_retry_of_a_job_that_succeeded_succeeds():
    task = Task(try_number=2)
    found = task.batch.add(name(), "SUCCEEDED")
    assert task.operator.execute(task.context) == found
    assert task.batch.submissions == []
    assert task.xcoms["timing"]["status"] == "SUCCEEDED"


def test_a_retry_of_a_failed_job_fails_at_once_with_its_reason():
    """Even with retries left, as it raises AirflowFailException."""
    task = Task(try_number=2)
    task.batch.add(name(), "FAILED", statusReason="boom", container={"exitCode": 3})
    failure = task.failure()
    assert "exit code 3; status reason: boom" in failure
    assert task.xcoms["failure"] == failure
    assert task.batch.submissions == []


def s3_that_refuses(times, text):
    """An S3 client that holds one document, and refuses to hand it out so many times."""
    refusals = [client_error("ExpiredToken", 400)] * times

    def get_object(**_):
        if refusals:
            raise refusals.pop()
        return {"Body": BytesIO(text), "ContentLength": len(text)}

    return SimpleNamespace(get_object=get_object)


def retry_of_a_job_with_a_document(monkeypatch, refusals):
    """A retry whose job has succeeded; the seconds that it slept."""
    left = build_job("g5.xlarge", [build_row([0.1] * 8)], job_id="job-1")
    fields = ExpectedDocument.of(left.document.run_id, left.planned).model_dump()
    task = Task(try_number=2, document=fields)
    task.batch.add(name(), "SUCCEEDED", attempts=[{}])
    s3 = s3_that_refuses(refusals, left.document.to_json().encode())
    task.operator.clients = FakeClients(batch=task.batch, logs=FakeLogs(), s3=s3)
    slept = []
    monkeypatch.setattr("time.sleep", slept.append)
    return task, slept


def test_a_retry_waits_for_an_s3_that_refuses_for_a_while(monkeypatch):
    task, slept = retry_of_a_job_with_a_document(monkeypatch, refusals=4)
    assert task.operator.execute(task.context) == "job-1"
    assert sum(slept) > 25


def test_an_s3_that_refuses_for_longer_is_left_to_the_next_try(monkeypatch):
    task, _ = retry_of_a_job_with_a_document(monkeypatch, refusals=6)
    with pytest.raises(ClientError, match="ExpiredToken"):
        task.operator.execute(task.context)
    assert "failure" not in task.xcoms


def test_a_retry_follows_the_newest_of_its_jobs():
    task = Task(try_number=2)
    spot = task.batch.add(name(), "FAILED", statusReason=RECLAIMED)
    on_demand = task.batch.add(name(), "RUNNING", ON_DEMAND_QUEUE)
    arguments, _ = task.deferral()
    assert arguments["job_id"] == on_demand
    assert arguments["earlier_job_ids"] == [spot]
    assert task.xcoms["job_ids"] == [spot, on_demand]


def test_a_retry_leaves_a_reclaimed_spot_job_to_the_trigger():
    task = Task(try_number=2)
    spot = task.batch.add(name(), "FAILED", statusReason=RECLAIMED)
    arguments, _ = task.deferral()
    assert arguments["job_id"] == spot
    assert task.batch.submissions == []


def test_a_reclaimed_job_without_a_successor_fails_the_task():
    task = Task(try_number=2, on_demand_queue=None)
    task.batch.add(name(), "FAILED", statusReason=RECLAIMED)
    assert RECLAIMED in task.failure()


def test_a_cleared_task_terminates_its_jobs_and_submits_a_new_one():
    task = Task(try_number=3, cleared_after=2)
    old = task.batch.add(name(0), "RUNNING", ON_DEMAND_QUEUE)
    task.batch.add(name(0), "SUCCEEDED")
    arguments, _ = task.deferral()
    assert task.batch.terminated == [(old, "Another job of its Airflow task took its place")]
    assert [request["jobName"] for request in task.batch.submissions] == [name(2)]
    assert arguments["job_id"] == task.xcoms["job_id"] == "job-3"


def test_a_late_worker_leaves_jobs_of_a_newer_generation_alone():
    task = Task(try_number=2)
    task.batch.add(name(0), "RUNNING")
    newer = task.batch.add(name(2), "RUNNING")
    task.deferral()
    assert task.batch.jobs[newer]["status"] == "RUNNING"


COPIES = [("-debug", {}), ("0", {}), ("", {"tags": {}}), ("", {"tags": FOREIGN})]


@pytest.mark.parametrize(("ending", "fields"), COPIES)
@pytest.mark.parametrize("status", ["RUNNING", "SUCCEEDED"])
def test_a_copy_of_its_job_is_neither_ended_nor_taken_for_its_own(ending, fields, status):
    """Whoever clones a job by hand keeps its name, whole or as the begin of one."""
    task = Task(cleared_after=1)
    for generation in (0, 1):
        task.batch.add(f"{name(generation)}{ending}", status, **fields)
    task.deferral()
    assert task.batch.terminated == []
    assert [request["jobName"] for request in task.batch.submissions] == [name(1)]


def test_the_older_of_two_live_jobs_is_terminated():
    """There may be two after a submission that ListJobs did not show in time."""
    task = Task(try_number=2)
    double, newest = task.batch.add(name(), "RUNNING"), task.batch.add(name(), "RUNNABLE")
    arguments, _ = task.deferral()
    assert arguments["job_id"] == newest
    assert [job_id for job_id, _ in task.batch.terminated] == [double]


def test_a_job_whose_worker_was_killed_is_submitted_again():
    killed = Task()
    killed.deferral()
    killed.operator.on_kill()
    assert killed.batch.terminated == [("job-1", KILLED)]

    task = Task(try_number=2)
    task.batch.add(name(), "FAILED", statusReason=KILLED)
    arguments, _ = task.deferral()
    assert arguments["job_id"] == "job-2"
    assert task.xcoms["job_ids"] == ["job-2"]


def test_a_job_that_batch_refuses_fails_the_task_at_once():
    task = Task()
    task.batch.failures = [client_error("ClientException")]
    assert f"Batch refuses job {name()}: An error occurred (ClientException)" in task.failure()


def test_a_worker_killed_during_a_submission_terminates_the_job():
    task = Task()
    submit = task.batch.submit_job

    def submit_job(**request):
        task.operator.on_kill()  # from a signal handler, between two steps of the operator
        return submit(**request)

    task.batch.submit_job = submit_job
    with pytest.raises(AirflowException, match="killed on its worker while it submitted job job-1"):
        task.operator.execute(task.context)
    assert task.batch.terminated == [("job-1", KILLED)]


def test_an_execution_timeout_is_the_triggers_deadline_and_the_deferral_ends_later(monkeypatch):
    monkeypatch.setattr("time.time", lambda: 1000.0)
    task = Task(execution_timeout=timedelta(seconds=60), longest_seconds=7200)
    arguments, deferred = task.deferral()
    assert arguments["deadline"] == 1060.0
    assert deferred.timeout == timedelta(seconds=60 + ENDING_SECONDS)


def test_without_an_execution_timeout_the_longest_time_of_both_jobs_bounds_the_deferral():
    _, deferred = Task(longest_seconds=3600).deferral()
    assert deferred.timeout == timedelta(seconds=2 * 3600 + ENDING_SECONDS)
    _, deferred = Task().deferral()
    assert deferred.timeout is None


SHARED = {"in_turn": True, "after": 4, "ahead": [2, 0], "turn": 3}
ARRAY = {
    "array_properties": {"size": 5},
    "container_overrides": {"environment": [{"name": "BATCHMARK_OPTIONS", "value": "--form jobs"}]},
}


def test_an_array_job_is_submitted_with_its_size_and_its_options():
    task = Task(**ARRAY, document={"prefix": "s3://results/raw/run/t/sharing/of-5/1/"})
    arguments, _ = task.deferral()
    (request,) = task.batch.submissions
    assert request["arrayProperties"] == {"size": 5}
    assert request["containerOverrides"] == ARRAY["container_overrides"]
    assert arguments["on_demand"]["arrayProperties"] == {"size": 5}
    result = JobResultLink().get_link(task.operator, ti_key=None)
    assert result.endswith("/results/raw/run/t/sharing/of-5/1/job-1%3A0")


def test_a_multi_node_job_is_submitted_with_its_nodes_and_its_result_is_the_main_nodes():
    overrides = {"numNodes": 2, "nodePropertyOverrides": [{"targetNodes": "0:"}]}
    document = {"prefix": "s3://results/raw/run/t/scaling/on-2/1/"}
    task = Task(node_overrides=overrides, document=document, on_demand_queue=None)
    arguments, _ = task.deferral()
    (request,) = task.batch.submissions
    assert request["nodeOverrides"] == overrides
    assert not {"containerOverrides", "arrayProperties"} & request.keys()
    assert arguments["on_demand"] is None
    result = JobResultLink().get_link(task.operator, ti_key=None)
    assert result.endswith("/results/raw/run/t/scaling/on-2/1/job-1%230")


def test_a_job_that_shares_an_instance_is_left_to_the_trigger_which_may_wait_a_turn_more(
    monkeypatch,
):
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


def test_a_cleared_task_that_waits_for_no_other_is_left_to_the_trigger_too():
    """Jobs of its run or of another may be there."""
    task = Task(**SHARED | {"after": None}, cleared_after=1)
    arguments, _ = task.deferral()
    assert task.batch.submissions == []
    assert (arguments["job_id"], arguments["after"]) == (None, None)


def test_a_retry_leaves_its_live_array_to_the_trigger_which_looks_whether_another_comes_first():
    task = Task(**ARRAY, **SHARED, try_number=2)
    task.batch.add_array(name(), ["RUNNING"] * 5)
    arguments, _ = task.deferral()
    assert (arguments["job_id"], arguments["request"]["jobName"]) == (None, name())
    assert task.batch.submissions == []


def test_a_retry_follows_the_live_job_that_need_not_be_alone():
    task = Task(**SHARED, alone=False, try_number=2)
    found = task.batch.add(name(), "RUNNING")
    arguments, _ = task.deferral()
    assert (arguments["job_id"], arguments["alone"]) == (found, False)
    assert task.batch.submissions == []


def test_a_retry_follows_the_on_demand_job_that_took_the_place_of_one_that_shares_an_instance():
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
    assert "Of 2 children 1 failed:\n1: exit code 3; status reason: boom" in failure


def test_an_array_whose_worker_was_killed_is_submitted_again():
    task = Task(try_number=2)
    task.batch.add_array(name(), ["RUNNING"] * 2)
    task.batch.terminate_job("job-1", KILLED)
    task.batch.change("job-1", statusReason="Array Child Job failed")
    arguments, _ = task.deferral()
    assert arguments["job_id"] == task.xcoms["job_id"] != "job-1"


def test_a_deferral_that_timed_out_ends_the_job():
    task = Task(try_number=1)
    job_id = task.batch.add(name(), "RUNNING")
    with pytest.raises(AirflowFailException, match="Is a triggerer running"):
        task.operator.resume_execution("__fail__", {"error": "Trigger timeout"}, task.context)
    (ended,) = task.batch.terminated
    assert ended == (job_id, "The task's deferral timed out, and no triggerer ended it")


def test_a_deferral_that_timed_out_reports_a_job_that_has_ended():
    task = Task(try_number=1)
    job_id = task.batch.add(name(), "SUCCEEDED")
    resumed = task.operator.resume_execution("__fail__", {"error": "Trigger timeout"}, task.context)
    assert resumed == job_id
    assert task.batch.terminated == []


@pytest.mark.parametrize(("try_number", "ended"), [(RETRIES, []), (RETRIES + 1, ["job-1"])])
def test_a_broken_trigger_leaves_its_job_to_the_next_try_if_any(try_number, ended):
    task = Task(try_number=try_number)
    task.batch.add(name(), "RUNNING")
    with pytest.raises(TaskDeferralError):
        task.operator.resume_execution("__fail__", {"error": "Trigger failure"}, task.context)
    assert [job_id for job_id, _ in task.batch.terminated] == ended


@pytest.mark.parametrize(("try_number", "ended"), [(RETRIES, []), (RETRIES + 1, ["job-1"])])
def test_so_does_a_worker_that_fails_after_the_submission(try_number, ended):
    task = Task(try_number=try_number)

    def xcom_push(key, value):
        raise EndpointConnectionError(endpoint_url="http://api-server.example")

    task.context["ti"].xcom_push = xcom_push
    with pytest.raises(EndpointConnectionError):
        task.operator.execute(task.context)
    assert [job_id for job_id, _ in task.batch.terminated] == ended


def test_a_last_try_that_may_not_terminate_jobs_leaves_that_to_collecting(capsys):
    task = Task(try_number=RETRIES + 2, cleared_after=1)
    task.batch.add(name(0), "RUNNING")

    def refuse(**_):
        raise client_error("AccessDeniedException", 403)

    task.batch.terminate_job = refuse
    with pytest.raises(ClientError, match="AccessDeniedException"):
        task.operator.execute(task.context)
    assert "Collecting the run must end what may be running" in capsys.readouterr().out


def test_dag_test_resumes_the_task_with_its_newest_job():
    task = Task()
    task.batch.add(name(), "FAILED", statusReason=RECLAIMED)
    newest = task.batch.add(name(), "SUCCEEDED", ON_DEMAND_QUEUE)
    assert task.operator.execute_complete(task.context, event="success") == newest


def test_in_aws_the_link_leads_to_the_console_and_then_to_the_stream():
    aws = SimpleNamespace(
        endpoint_url="https://batch.eu-west-1.amazonaws.com", region_name="eu-west-1"
    )
    task = Task(try_number=2)
    task.batch.meta = aws
    task.batch.add(name(), "SUCCEEDED", container={"logStreamName": "stream"})
    task.operator.execute(task.context)
    assert "#logsV2:log-groups/log-group/$252Faws$252Fbatch$252Fjob/log-events/stream" in (
        task.operator.job_log_url
    )
    task = Task()
    task.batch.meta = aws
    task.deferral()
    assert task.operator.job_log_url == (
        "https://eu-west-1.console.aws.amazon.com/batch/home?region=eu-west-1#jobs/detail/job-1"
    )
