"""What the local cloud's EventBridge adds to moto's."""

import pytest
from moto.events.models import EventPattern

from local_cloud.gaps.events import as_sent, fill_text, flatten
from tests.builders.event_patterns import event_pattern


@pytest.mark.parametrize(
    ("event", "flat"),
    [
        ({"a": {"b": 1}}, {"a.b": 1}),
        ({"a": {}}, {"a": {}}),
        ({"a": ["x", "y"]}, {"a": ["x", "y"]}),
        ({"a": [{"b": 1}, {"b": 2, "c": 3}]}, {"a.b": [1, 2], "a.c": [3]}),
        ({"a": [{"b": [1, 2]}, {"b": [3]}]}, {"a.b": [1, 2, 3]}),
        ({"a": [{"b": [{"c": 1}, {"c": 2}]}]}, {"a.b.c": [1, 2]}),
        ({"a": ["x", {"b": 1}]}, {"a.b": [1]}),
    ],
)
def test_objects_in_arrays_are_matched_by_any_of_them(event, flat):
    got = flatten(event)
    assert {name: got[name] for name in flat} == flat


def test_a_template_is_filled_in():
    event = {"detail": {"name": "a <b>", "count": 2, "tags": ["x"]}}
    paths = {"n": "$.detail.name", "c": "$.detail.count", "t": "$.detail.tags", "m": "$.detail.no"}
    assert fill_text('"<n>: <c> <t> <m>."', paths, event) == '"a <b>: 2 ["x"] ."'


def test_an_event_is_sent_without_motos_own_fields():
    event = {"id": "1", "time": 1_700_000_000.5, "ingestion-time": 1.0}
    assert as_sent(event) == {"id": "1", "time": "2023-11-14T22:13:20Z"}
    assert as_sent({"time": "2023-11-14T22:13:20Z"}) == {"time": "2023-11-14T22:13:20Z"}


@pytest.fixture
def finds(monkeypatch):
    """Whether the module's pattern finds an event, as the local cloud's EventBridge looks."""
    monkeypatch.setattr(EventPattern, "_flatten_dict", staticmethod(flatten))

    def check(name, of, detail, source="aws.batch", kind="Batch Job State Change"):
        event = {"source": source, "detail-type": kind, "detail": detail}
        return EventPattern.load(event_pattern(name, of)).matches_event(event)

    return check


@pytest.mark.parametrize(
    ("reasons", "status", "reported"),
    [
        (["Host EC2 (instance i-0123456789abcdef0) terminated."], "RUNNABLE", True),
        (["Task failed to start", "Host EC2 (instance i-01) terminated."], "RUNNABLE", True),
        (["Essential container in task exited"], "RUNNABLE", False),
        ([], "RUNNABLE", False),
        (["Host EC2 (instance i-01) terminated."], "SUCCEEDED", False),
    ],
)
def test_a_lost_host_is_found(finds, reasons, status, reported):
    attempts = [{"statusReason": reason, "container": {}} for reason in reasons]
    detail = {"jobId": "job", "jobQueue": "queue", "status": status, "attempts": attempts}
    assert finds("spot_interruption", "queue", detail) is reported


@pytest.mark.parametrize(
    ("detail", "reported"),
    [
        ({}, True),
        ({"arrayProperties": {"size": 3}}, True),
        ({"arrayProperties": {"index": 0}}, True),
        ({"arrayProperties": {"index": 1}}, False),
        ({"nodeProperties": {"numNodes": 20}}, True),
        ({"nodeDetails": {"nodeIndex": 0, "isMainNode": True}}, True),
        ({"nodeDetails": {"nodeIndex": 1, "isMainNode": False}}, False),
    ],
)
def test_of_children_and_nodes_that_failed_the_first_alone_is_found(finds, detail, reported):
    detail |= {"jobId": "job", "jobQueue": "queue", "status": "FAILED"}
    assert finds("job_failed", "queue", detail) is reported


@pytest.mark.parametrize(
    ("group", "counted"),
    [
        ("AWSBatch-lab-g5-xlarge-spot-2026-asg-0f", True),
        ("lab-g5-xlarge-spot-2026-asg-0f", True),
        ("lab-g5-xlarge-on-demand-2026-asg-0f", False),
        ("lab-g5-xlarge-spot", False),
    ],
)
def test_an_environments_launches_are_found(finds, group, counted):
    detail = {"AutoScalingGroupName": group, "EC2InstanceId": "i-01"}
    launched = "aws.autoscaling", "EC2 Instance Launch Successful"
    assert finds("launches", "lab-g5-xlarge-spot-", detail, *launched) is counted
