"""When jobs changed their states, as Batch's events tell."""

import json
from datetime import timedelta
from types import SimpleNamespace

import pytest
from botocore.exceptions import EndpointConnectionError

from batchmark.aws.state_times import state_times
from tests.builders.leaks import NOW, REGION
from tests.stand_ins.batch import client_error
from tests.stand_ins.collected_jobs import event
from tests.stand_ins.failing_calls import failing
from tests.stand_ins.stubbed_clients import StubbedClients

GROUP = "/aws/events/batch/lab"
CREATED, STOPPED = NOW - timedelta(minutes=5), NOW
ASKED = {
    "logGroupName": GROUP,
    "filterPattern": '"Batch Job State Change"',
    "startTime": int(CREATED.timestamp() * 1000) - 1000,
    "endTime": int(STOPPED.timestamp() * 1000) + 60_000,
}


def times(logs):
    (found,) = state_times(logs, GROUP, {"job"}, created_at=CREATED, stopped_at=STOPPED).values()
    return [moment and f"{moment:%X}" for moment in found.values()]


def of_events(*pages):
    """What these pages of a log group tell; all of them are asked for."""
    clients = StubbedClients(REGION)
    found = [{"events": [{"message": message} for message in page]} for page in pages]
    clients.answer_pages("logs", "filter_log_events", found, ASKED, "nextToken")
    told = times(clients("logs"))
    clients.assert_all_was_asked()
    return told


STARTING = event("STARTING", "2026-11-20T00:59:30Z", "job")


def test_they_come_from_all_pages_of_the_jobs_own_events():
    first = [
        event("SUBMITTED", "2026-11-20T00:58:20Z", "job"),
        event("RUNNABLE", "2026-11-20T00:58:21Z", "job"),
        event("RUNNABLE", "2026-11-20T00:59:00Z", "job:0"),
        event("RUNNABLE", "2026-11-20T00:59:01Z", "job", kind="Batch Job Queue Blocked"),
    ]
    second = [STARTING, event("RUNNING", "2026-11-20T01:00:00Z", "job")]
    assert of_events(first, second) == ["00:58:21", "00:59:30"]
    # Of a retried job the last attempt's count.
    events = [event("RUNNABLE", f"2026-11-20T00:{at}Z", "job") for at in ("59:10", "58:21")]
    assert of_events(events) == ["00:59:10", None]


@pytest.mark.parametrize(
    "message",
    [
        "no JSON",
        "[]",
        json.dumps({"detail-type": "Batch Job State Change"}),
        event("RUNNABLE", "noon", "job"),
    ],
)
def test_an_event_of_another_shape_is_left_out_alone(caplog, message):
    assert of_events([message, STARTING]) == [None, "00:59:30"]
    assert "Skipping an unreadable Batch event (" in caplog.text


@pytest.mark.parametrize(
    "error",
    [
        client_error("AccessDeniedException"),
        EndpointConnectionError(endpoint_url="https://logs.example"),
    ],
    ids=str,
)
def test_events_that_can_not_be_had_harm_nothing(caplog, error):
    assert times(SimpleNamespace(get_paginator=failing(error))) == [None, None]
    assert f"STARTING times are missing because {GROUP} can't be read: {error}" in caplog.text
