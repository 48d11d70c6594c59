"""How much of a log is read, and what Batch's events tell, given to a real client by stubs."""

import json
from datetime import timedelta
from types import SimpleNamespace

import pytest
from botocore.exceptions import EndpointConnectionError

from batchmark.aws.job_description import LogLocation
from batchmark.aws.job_log import EVENT_BYTES, last_lines, log_end, marked_lines
from batchmark.aws.state_times import state_times
from tests.builders.leaks import NOW, REGION
from tests.stand_ins.batch import client_error
from tests.stand_ins.collected_jobs import event
from tests.stand_ins.failing_calls import failing
from tests.stand_ins.stubbed_clients import StubbedClients

WHERE = LogLocation("g", "s")
LEFT_OUT = "(earlier lines are omitted; see log stream s in log group g)\n"


def end_of(*pages, **limit):
    """The end of a log of these pages, the last one first; all of them are asked for."""
    clients = StubbedClients("us-east-1")
    asked = {"logGroupName": "g", "logStreamName": "s", "startFromHead": False}
    for number, lines in enumerate(pages):
        following = f"b{min(number + 1, len(pages) - 1)}"
        page = {"events": [{"message": line} for line in lines], "nextBackwardToken": following}
        clients.answer("logs", "get_log_events", page, dict(asked))
        asked["nextToken"] = following
    text = log_end(clients("logs"), WHERE, **limit)
    clients.assert_all_was_asked()
    return text


def test_a_log_is_read_backwards_until_cloudwatch_repeats_its_token_or_has_none():
    assert end_of(["d", "e"], ["c"], ["a", "b"], []) == "a\nb\nc\nd\ne\n"
    assert end_of(["b"], [], ["a"], []) == "a\nb\n", "an empty page is not the beginning"
    assert end_of(["a\ud800", "µ"], []) == "a?\nµ\n", "what is no text keeps no line back"
    clients = StubbedClients("us-east-1")
    clients.refuse("logs", "get_log_events", "ResourceNotFoundException")
    assert log_end(clients("logs"), WHERE) == ""


FOUR_LINES = 4 * (2 + EVENT_BYTES)


@pytest.mark.parametrize(
    ("pages", "most_bytes", "kept"),
    [
        ([["ee", "ff"], ["bb", "cc", "dd"]], FOUR_LINES, f"{LEFT_OUT}cc\ndd\nee\nff\n"),
        ([["ee", "ff"], ["cc", "dd"], []], FOUR_LINES, "cc\ndd\nee\nff\n"),
        ([["a", "x" * 20, "b"]], 20 + EVENT_BYTES, f"{LEFT_OUT}b\n"),
    ],
)
def test_of_a_long_log_the_end_is_kept_and_no_more_is_read(pages, most_bytes, kept):
    assert end_of(*pages, most_bytes=most_bytes) == kept


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        *(("", []), ("\n", []), ("a\n", ["a"]), ("a\n\nb\n \n", ["a", "b"])),
        ("a\nb\nBATCHMARK_METRIC x\n", ["b", "BATCHMARK_METRIC x"]),
    ],
)
def test_the_last_lines_of_a_text(text, lines):
    assert last_lines(text, 2) == lines
    by_the_wrapper = "BATCHMARK_METRIC_FILE {}\n" * 10_000 + "BATCHMARK_JOB end 3 1\n"
    assert last_lines(text + by_the_wrapper, 2) == lines


OF_STREAM = {"logGroupName": "g", "logStreamNames": ["s"]}
MARKED_LINES = OF_STREAM | {"filterPattern": "%BATCHMARK_METRIC|BATCHMARK_JOB%"}
END, METRIC, FILE = "BATCHMARK_JOB end 0", "BATCHMARK_METRIC {}", "BATCHMARK_METRIC_FILE x"
ELSEWHERE = [f"\x1b[32m{METRIC}", "BATCHMARK_METRIC", f"a {FILE}"]


def marked_of(*pages):
    """The marked lines of a log that CloudWatch finds in these pages; all are asked for."""
    clients = StubbedClients("us-east-1")
    events = [{"events": [{"timestamp": 7, "message": line} for line in page]} for page in pages]
    clients.answer_pages("logs", "filter_log_events", events, MARKED_LINES, "nextToken")
    found = [line.text for line in marked_lines(clients("logs"), WHERE)]
    clients.assert_all_was_asked()
    return found


@pytest.mark.parametrize(
    ("pages", "found"),
    [
        # On some pages of several.
        ([[], [END], [], [METRIC], []], [END, METRIC]),
        # Facts stand only at the begin of a line.
        ([[f"see {END}", "BATCHMARK_METRICS=/m", FILE]], [FILE]),
        ([["BATCHMARK_JOBS", "BATCHMARK_JOB cpu \ud800"]], ["BATCHMARK_JOB cpu ?"]),
        # An event of several lines.
        ([[f"a\n{END}\r\n BATCHMARK_JOB no\n{METRIC}\n"]], [END, METRIC]),
        # Behind a progress bar, and elsewhere in a line.
        ([[f"10 %|#\r{METRIC}\r20 %|##", f"[rank0]:{METRIC}"]], [METRIC, f"[rank0]:{METRIC}"]),
        ([ELSEWHERE], ELSEWHERE),
    ],
)
def test_marked_lines_are_found(pages, found):
    assert marked_of(*pages) == found


def test_marked_lines_may_have_their_numbers_in_the_log_and_end_if_it_is_endless(caplog):
    clients = StubbedClients("us-east-1")
    texts = ["hello", "one\ntwo\nBATCHMARK_METRIC {}\n", "1 %\r2 %", "BATCHMARK_METRIC no"]
    page = {"events": [{"timestamp": 1, "message": text} for text in texts]}
    clients.answer("logs", "filter_log_events", page, OF_STREAM)
    found = marked_lines(clients("logs"), WHERE, numbered=True)
    numbered = [(line.number, line.text) for line in found]
    assert numbered == [(4, "BATCHMARK_METRIC {}"), (6, "BATCHMARK_METRIC no")]
    clients = StubbedClients("us-east-1")
    for _ in range(3):
        clients.answer("logs", "filter_log_events", {"events": [], "nextToken": "t"})
    assert list(marked_lines(clients("logs"), WHERE, most_pages=3)) == []
    assert "Stopped reading after 3 pages of log stream s" in caplog.text


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
