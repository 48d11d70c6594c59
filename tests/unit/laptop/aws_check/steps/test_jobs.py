"""What a job by hand left, against what was asked for."""

import json
import time
from types import SimpleNamespace
from unittest.mock import Mock

import pytest
from botocore.exceptions import ClientError

from batchmark.aws.job_hosts import JobHost
from laptop.aws_check.check import Check
from laptop.aws_check.step import NotCheckedError, StepError
from laptop.aws_check.steps import inbox, jobs
from tests.unit.laptop.aws_check.conftest import told_by

SECOND = 1000


def ended(status="SUCCEEDED", code=0):
    times = {"startedAt": 100 * SECOND, "stoppedAt": 1900 * SECOND}
    return {
        "jobId": "0a1b",
        "jobName": "batchmark-check-cuda-spot",
        "jobQueue": "arn:queue-cuda",
        "status": status,
        "createdAt": 40 * SECOND,
        **times,
        "container": {"exitCode": code},
        "attempts": [{**times, "container": {"exitCode": code}}],
    }


@pytest.fixture
def job(check_of, monkeypatch):
    """The step of a job that ended so, on such a host."""

    def taken(
        described, *, device="cuda", actual="cuda", bought="spot", document=True, on_aws=True
    ):
        found = {"actual_device": actual, "status": "complete", "measurements": [1, 2]}
        host = JobHost(purchase_option=bought)
        monkeypatch.setattr(jobs, "_run", lambda *_, **__: (described, host))
        monkeypatch.setattr(jobs, "_document", lambda *_: found if document else None)
        monkeypatch.setattr(jobs, "_last_lines", lambda *_: ["2 rows", "wrote the document"])
        return jobs.job(check_of(on_aws=on_aws), device, "spot")

    return taken


def test_what_it_left_is_told_with_its_dollars(job, check_of):
    seen = job(ended())
    assert seen.text == (
        "SUCCEEDED, exit code 0, started after 60.0 s, ran 1800 s, its document says cuda, "
        "complete, 2 rows, on Spot, log: 'wrote the document'"
    )
    assert seen.usd == 0  # of a type "any", which has no price
    assert check_of().usd("g4dn.xlarge", 1800) == pytest.approx(0.263)
    assert check_of(on_aws=False).usd("g4dn.xlarge", 1800) == 0
    local = job(ended(), actual="cpu", on_aws=False)
    assert "says cpu, complete, as a local cloud has no GPU" in local.text


@pytest.mark.parametrize(
    ("described", "asked", "told"),
    [
        (ended("FAILED", 1), {}, "FAILED, exit code 1, .* wrote the document"),
        (ended(), {"document": False}, "there is no result document in raw/manual/g5.xlarge/"),
        (ended(), {"actual": "cpu"}, "it ran on cpu, not cuda"),
        (ended(), {"bought": "on_demand"}, "on On-Demand, .*: Spot was requested"),
    ],
)
def test_anything_else_fails(job, described, asked, told):
    with pytest.raises(StepError, match=told):
        job(described, **asked)


@pytest.mark.parametrize(
    ("described", "last", "ok"),
    [
        (ended("FAILED", 2), "unknown suite 'none'; known: smoke, blog", True),
        (ended("FAILED", 2), "no module named batchmark_job", False),
        (ended("FAILED", 137), "unknown suite 'none'; known: smoke, blog", False),
        (ended(), "unknown suite 'none'; known: smoke, blog", False),
    ],
)
def test_a_failing_job_fails_as_it_should_however_late_its_log_comes(
    check_of, monkeypatch, described, last, ok
):
    logs = Mock(side_effect=[[], [last]])
    monkeypatch.setattr(jobs, "_run", lambda *_, **__: (described, JobHost()))
    monkeypatch.setattr(jobs, "log_location", lambda _: "a log")
    monkeypatch.setattr(jobs, "newest_lines", logs)
    monkeypatch.setattr(time, "sleep", lambda _: None)
    went_well, told = told_by(jobs.failing_job, check_of())
    assert (went_well, repr(last) in told) == (ok, True)


def child(index, host="host-1", began=100, status="SUCCEEDED"):
    times = {"startedAt": began * SECOND, "stoppedAt": (began + 50) * SECOND}
    where = {"containerInstanceArn": f"arn:aws:ecs:us-east-1:1:container-instance/{host}"}
    return {"jobId": f"0a1b:{index}", "status": status, "container": where, **times}


@pytest.mark.parametrize(
    ("children", "told", "ok"),
    [
        ([child(0), child(1)], "2 jobs on 1 host, at the same time", True),
        ([child(0), child(1, "host-2")], "2 jobs on 2 hosts, at the same time", False),
        ([child(0), child(1, began=200)], "2 jobs on 1 host, one after the other", False),
        ([], "0 jobs on 0 hosts, one after the other", False),
    ],
)
def test_jobs_that_share_run_at_once_on_one_host(check_of, monkeypatch, children, told, ok):
    whole = ended() | {"children": children}
    monkeypatch.setattr(jobs, "_run", lambda *_, **__: (whole, JobHost()))
    monkeypatch.setattr(jobs, "_last_lines", lambda *_: [])
    check = check_of()
    shared = check.config.targets["g5.xlarge"]
    check.__dict__["config"] = check.config.with_targets({jobs.SHARED: shared})
    went_well, said = told_by(jobs.sharing, check)
    assert (went_well, told in said) == (ok, True)


@pytest.fixture
def submitted(check_of, clients, monkeypatch):
    """The step of a job that is RUNNING and can't be diagnosed; what terminates it."""
    terminate = Mock()
    why = SimpleNamespace(message=lambda: "Nothing is known.")
    monkeypatch.setattr(jobs, "list_jobs", lambda *_: [])
    monkeypatch.setattr(jobs, "host_of", lambda *_: JobHost(purchase_option="on_demand"))
    monkeypatch.setattr(jobs, "diagnose", lambda *_, **__: why)
    monkeypatch.setattr(jobs, "terminate_job", terminate)
    monkeypatch.setattr(Check, "wait", lambda _, ask, __, ___: ask())
    clients.answer("batch", "submit_job", {"jobName": "a", "jobId": "0a1b"})
    return lambda: jobs.job(check_of(), "cpu", "on_demand"), terminate


REFUSED = ClientError({"Error": {"Code": "ServerException", "Message": "try again"}}, "Describe")


@pytest.mark.parametrize(
    ("what", "error", "told"),
    [
        ("describe_jobs", REFUSED, "try again"),
        ("describe_jobs", KeyboardInterrupt("Ctrl-C"), "Ctrl-C"),
        ("host_of", REFUSED, "try again"),
        ("wait", StepError("RUNNING after 900 s"), r"RUNNING after 900 s\. Nothing is known"),
    ],
)
@pytest.mark.parametrize("ending", [None, REFUSED])
def test_however_its_wait_ends_no_job_is_left(submitted, monkeypatch, what, error, told, ending):
    step, terminate = submitted
    running = {"0a1b": ended("RUNNING")}
    monkeypatch.setattr(jobs, "describe_jobs", lambda *_: running)
    monkeypatch.setattr(Check if what == "wait" else jobs, what, Mock(side_effect=error))
    terminate.side_effect = ending
    with pytest.raises(type(error), match=told):
        step()
    ((_, job_id, _), _) = terminate.call_args
    assert job_id == "0a1b"


def test_a_job_that_ended_is_not_terminated(submitted, monkeypatch):
    step, terminate = submitted
    monkeypatch.setattr(jobs, "describe_jobs", lambda *_: {"0a1b": ended("FAILED", 1)})
    monkeypatch.setattr(jobs, "_last_lines", lambda *_: ["no"])
    with pytest.raises(StepError, match="FAILED"):
        step()
    terminate.assert_not_called()


def received(clients, *texts):
    url = "https://sqs.us-east-1.amazonaws.com/1/batchmark-check-inbox"
    clients.answer("sqs", "get_queue_url", {"QueueUrl": url})
    told = [{"Body": json.dumps({"Message": text}), "ReceiptHandle": text} for text in texts]
    clients.answer("sqs", "receive_message", {"Messages": told})
    for _ in texts:
        clients.answer("sqs", "delete_message", {})


def test_a_message_names_the_failing_job_or_what_came_is_told(check_of, clients, monkeypatch):
    monkeypatch.setattr(jobs, "list_jobs", lambda *_: [{"jobId": "0a1b"}])
    received(clients, "an alarm", "job 0a1b failed")
    assert jobs.message(check_of()).text == "it names the job; 2 messages in all"
    monkeypatch.setattr(jobs, "MESSAGE_SECONDS", -1)
    received(clients, "an alarm")
    with pytest.raises(StepError, match="1 message, but none about the job"):
        jobs.message(check_of())


def test_an_inbox_takes_messages_of_the_topic_alone(check_of, clients):
    url = "https://sqs.us-east-1.amazonaws.com/1/batchmark-check-inbox"
    arn = "arn:aws:sqs:us-east-1:123456789012:batchmark-check-inbox"
    tagged = {"QueueName": inbox.QUEUE, "tags": {"Project": "batchmark-check"}}
    clients.answer("sqs", "create_queue", {"QueueUrl": url}, tagged)
    clients.answer("sqs", "get_queue_attributes", {"Attributes": {"QueueArn": arn}})
    clients.answer("sqs", "set_queue_attributes", {})
    subscription = {"TopicArn": "arn:topic", "Protocol": "sqs", "Endpoint": arn}
    clients.answer("sns", "subscribe", {"SubscriptionArn": "arn:subscription"}, subscription)
    inbox.open_inbox(check_of())
    clients.assert_all_was_asked()


def test_hosts_that_stay_are_named_but_a_local_cloud_has_none_to_wait_for(check_of, monkeypatch):
    monkeypatch.setattr(jobs, "hosts", lambda _: ["instance i-1"])
    monkeypatch.setattr(jobs, "EMPTY_SECONDS", -1)
    with pytest.raises(StepError, match="instance i-1 are still there"):
        jobs.down_to_zero(check_of())
    with pytest.raises(NotCheckedError):
        jobs.down_to_zero(check_of(on_aws=False))


def test_neither_events_nor_an_earlier_check_count_as_telemetry(check_of, clients):
    metrics = [{"MetricName": name} for name in ("JobStateChanges", "MemoryUsed")]
    asked = {"Namespace": "Batchmark/batchmark-check", "RecentlyActive": "PT3H"}
    clients.answer("cloudwatch", "list_metrics", {"Metrics": metrics}, asked)
    assert jobs.telemetry(check_of()).text == "1 metric in Batchmark/batchmark-check: MemoryUsed"
