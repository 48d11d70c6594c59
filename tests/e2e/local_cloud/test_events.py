"""Job events through EventBridge: the Terraform module's patterns, topics and log groups."""

import json

import pytest

from tests.builders.event_patterns import PATTERNS, event_pattern
from tests.inbox import subscribe, take
from tests.waiting import wait_for

TESTED = ("job_failed", "queue_blocked", "spot_interruption", "job_states", "launches")
TEMPLATE = '"Job <job_name> FAILED. Reason: <reason> <container_reason> <job_id> in <queue>."'
PATHS = {
    "job_name": "$.detail.jobName",
    "job_id": "$.detail.jobId",
    "queue": "$.detail.jobQueue",
    "reason": "$.detail.statusReason",
    "container_reason": "$.detail.container.reason",
}


class Inbox:
    """A topic with an SQS queue subscribed to it."""

    def __init__(self, cloud):
        self._sqs, sns, name = cloud.client("sqs"), cloud.client("sns"), cloud.name("inbox")
        self.topic = sns.create_topic(Name=name)["TopicArn"]
        self.arn = self.topic.replace(":sns:", ":sqs:")
        self._queue = subscribe(sns, self._sqs, self.topic, name)

    def until(self, marker):
        """All messages up to the one with the marker: events come in order, so it is the last."""
        messages = []

        def arrived():
            found = take(self._sqs, self._queue)
            messages.extend(one.get("Message", str(one)) for one in found)
            return any(marker in message for message in messages)

        wait_for(arrived, f"message with {marker!r}")
        return messages


@pytest.fixture
def rule(cloud):
    """Makes rules with one target; deletes them after the test."""
    events = cloud.client("events")
    made = []

    def make(pattern, target):
        name = cloud.name("rule")
        events.put_rule(Name=name, EventPattern=pattern)
        made.append(name)
        events.put_targets(Rule=name, Targets=[{"Id": "1", **target}])
        return name

    yield make
    for name in made:
        events.remove_targets(Rule=name, Ids=["1"])
        events.delete_rule(Name=name)


def test_only_a_failed_job_leads_to_a_message(cloud, rule):
    queue, inbox = cloud.create_queue(), Inbox(cloud)
    as_text = {"InputPathsMap": PATHS, "InputTemplate": TEMPLATE}
    rule(event_pattern("job_failed", queue), {"Arn": inbox.topic, "InputTransformer": as_text})
    cloud.finish(cloud.shell("exit 0", queue=queue, jobName="good"))
    elsewhere = cloud.finish(cloud.shell("exit 5", jobName="elsewhere"))
    failed = cloud.finish(cloud.shell("exit 5", queue=queue, jobName="bad"))
    last = cloud.finish(cloud.shell("exit 5", queue=queue, jobName="last"))

    messages = inbox.until(last["jobId"])

    assert sorted(messages) == sorted(
        f'"Job {job["jobName"]} FAILED. Reason: Essential container in task exited  '
        f'{job["jobId"]} in {queue}."'
        for job in (failed, last)
    )
    assert elsewhere["status"] == "FAILED"


def test_each_state_is_logged_as_aws_sends_it(cloud, rule):
    queue = cloud.create_queue()
    logs, group = cloud.client("logs"), f"/aws/events/batch/{cloud.name('states')}"
    logs.create_log_group(logGroupName=group)
    arn = f"arn:aws:logs:us-east-1:123456789012:log-group:{group}"
    rule(event_pattern("job_states", queue), {"Arn": arn})
    definition = cloud.define(["true"])
    job = cloud.finish(cloud.submit(definition, queue=queue, tags={"team": "lab"}))

    def logged():
        found = logs.filter_log_events(logGroupName=group)["events"]
        events = [json.loads(event["message"]) for event in found]
        return len(events) == 4 and events

    events = wait_for(logged, "four events")

    by_status = {event["detail"]["status"]: event for event in events}
    assert set(by_status) == {"RUNNABLE", "STARTING", "RUNNING", "SUCCEEDED"}
    last = by_status["SUCCEEDED"]
    assert last["source"] == "aws.batch"
    assert last["detail-type"] == "Batch Job State Change"
    assert last["account"] == "123456789012"
    assert last["region"] == "us-east-1"
    assert last["resources"] == [job["jobArn"]]
    assert last["time"].endswith("Z")
    assert "ingestion-time" not in last
    assert last["detail"] == job


def test_a_blocked_queue_leads_to_a_message(cloud, rule):
    queue, inbox = cloud.create_queue(), Inbox(cloud)
    rule(event_pattern("queue_blocked", queue), {"Arn": inbox.topic})
    stuck = cloud.submit(cloud.define(["true"], gpus=9), queue=queue)
    event = json.loads(inbox.until(stuck)[0])
    cloud.batch.terminate_job(jobId=stuck, reason="seen")

    assert event["detail-type"] == "Batch Job Queue Blocked"
    assert event["resources"] == [event["detail"]["jobArn"], queue]
    assert event["detail"]["statusReason"].startswith("MISCONFIGURATION:JOB_RESOURCE_REQUIREMENT")


def test_a_disabled_rule_and_a_broken_target_do_not_affect_others(cloud, rule):
    """The last target's type is left to moto."""
    queue, inbox = cloud.create_queue(), Inbox(cloud)
    pattern = event_pattern("job_failed", queue)
    disabled = rule(pattern, {"Arn": inbox.topic, "Input": "of the disabled rule"})
    cloud.client("events").disable_rule(Name=disabled)
    rule(pattern, {"Arn": f"{inbox.topic}-that-is-not-there"})
    rule(pattern, {"Arn": inbox.topic, "Input": "of the good rule"})
    rule(pattern, {"Arn": inbox.arn})

    job_id = cloud.shell("exit 1", queue=queue)
    cloud.finish(job_id)

    good, _whole = inbox.until(job_id)
    assert good == "of the good rule"


def test_the_tested_patterns_are_the_modules():
    assert {path.name for path in PATTERNS.iterdir()} == {f"{name}.json.tftpl" for name in TESTED}
