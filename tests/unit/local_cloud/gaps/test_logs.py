"""Logs: pages of events and of a job's log, patterns that filter them, a database that stays."""

from types import SimpleNamespace

import pytest
from moto.logs.exceptions import InvalidParameterException, ResourceNotFoundException
from moto.logs.models import LogGroup, logs_backends
from werkzeug.test import Client
from werkzeug.wrappers import Response

from local_cloud.batch.running.log_stream import MAX_EVENT_BYTES, LogStream
from local_cloud.gaps import logs
from local_cloud.gaps.log_events import BLOCKS, Events, delete_all_but, keep_in
from local_cloud.gaps.logs import EVENT_BYTES, PAGE_BYTES, matcher
from local_cloud.log_pages import LogPages, page

ACCOUNT, REGION = "123456789012", "us-east-1"
LONG = PAGE_BYTES // 4 - EVENT_BYTES  # characters of a line of which a page holds four


@pytest.fixture
def group(logs_on_disk):
    made = LogGroup(ACCOUNT, REGION, "group")
    made.create_log_stream("job")
    return made


def write(group, *messages, stream="job", at=1000):
    events = [{"timestamp": at + n, "message": text} for n, text in enumerate(messages)]
    group.streams[stream].put_log_events(events)


def read(group, *, token=None, limit=None, from_head=True, start=None, end=None):
    events, back, forward = group.streams["job"].get_log_events(start, end, limit, token, from_head)
    return [event["message"] for event in events], back, forward


def find(group, pattern, *, streams=(), limit=None, start=None, end=None):
    """All pages, each as its messages."""
    pages, token = [], None
    while True:
        events, token, _ = group.filter_log_events(
            "group", list(streams), start, end, limit, token, pattern, False
        )
        pages.append([event["message"] for event in events])
        if token is None:
            return pages


def test_pages_end_backward_at_the_head_and_forward_with_the_token_that_they_were_asked_with(group):
    write(group, "a", "b", "c")
    last, token, _ = read(group, limit=2, from_head=False)
    first, head, _ = read(group, token=token, limit=2)
    assert (last, first) == (["b", "c"], ["a"])
    nothing, again, _ = read(group, token=head)
    assert (nothing, again) == ([], head)
    first, _, token = read(group, limit=2)
    second, _, end = read(group, token=token, limit=2)
    assert (first, second) == (["a", "b"], ["c"])
    assert read(group, token=end) == ([], end.replace("f", "b"), end)
    write(group, "d", at=2000)
    assert read(group, token=end)[0] == ["d"]


def test_a_page_read_or_found_holds_a_megabyte_and_one_event_at_least(group):
    write(group, *("x" * LONG for _ in range(6)))
    first, _, token = read(group)
    assert (len(first), len(read(group, token=token)[0])) == (4, 2)
    last, token, _ = read(group, from_head=False)
    assert (len(last), len(read(group, token=token)[0])) == (4, 2)
    assert list(map(len, find(group, ""))) == [4, 2]
    write(group, "y" * 2 * PAGE_BYTES, at=5000)
    assert len(read(group, from_head=False)[0]) == 1


def test_times_limit_what_is_read_and_found_and_only_what_is_found_includes_the_last(group):
    write(group, "x 0", "x 1", "x 2", "x 3")
    assert read(group, start=1001, end=1003)[0] == ["x 1", "x 2"]
    assert find(group, "?x", start=1001, end=1002) == [["x 1", "x 2"]]


@pytest.mark.parametrize("token", ["x/1", "f/a", "1", "f/1", f"x/{0:056d}"])
def test_a_token_of_nobody(group, token):
    with pytest.raises(InvalidParameterException):
        read(group, token=token)


def test_a_log_that_is_empty_yet_is_followed_from_its_beginning(group):
    nothing, _, token = read(group, from_head=False)
    assert nothing == []
    write(group, "a", "b")
    assert read(group, token=token)[0] == ["a", "b"]


def test_events_come_by_their_times_whenever_they_were_written(group):
    write(group, "c", at=3000)
    write(group, "a", "b", at=1000)
    write(group, "d\nof two lines", at=3000)
    every = ["a", "b", "c", "d\nof two lines"]
    assert read(group)[0] == read(group, from_head=False)[0] == every
    first, back, forward = read(group, limit=3)
    assert (first, read(group, token=forward)[0]) == (every[:3], every[3:])
    assert read(group, token=back)[0] == []
    assert [event.message for event in group.streams["job"].events] == every
    described = group.streams["job"].to_describe_dict()
    assert (described["firstEventTimestamp"], described["lastEventTimestamp"]) == (1000, 3000)


def test_pages_go_through_more_blocks_than_are_in_memory_in_both_directions(group):
    lines = [f"line {n}" for n in range(5 * BLOCKS)]
    for n in range(0, len(lines), 2):
        logs.put(group.streams["job"], 1000 + n // 8, lines[n : n + 2])
    for from_head in (True, False):
        pages, token = [], None
        while True:
            page, back, forward = read(group, token=token, limit=7, from_head=from_head)
            if not page:
                break
            pages = [*pages, *page] if from_head else [*page, *pages]
            token = forward if from_head else back
        assert pages == lines
    assert [line for page in find(group, "", limit=7) for line in page] == lines


def test_only_the_named_streams_are_searched_by_time(group):
    for stream in ("other", "third"):
        group.create_log_stream(stream)
    write(group, "x of job", at=3000)
    write(group, "x of other", "nothing", stream="other", at=2000)
    write(group, "x of third", stream="third", at=1000)
    assert find(group, "?x", streams=["job", "other"]) == [["x of other", "x of job"]]
    assert find(group, "?x") == [["x of third", "x of other", "x of job"]]
    with pytest.raises(ResourceNotFoundException):
        find(group, "?x", streams=["job", "nobody"])


def test_found_events_come_in_pages(group, monkeypatch):
    write(group, *(f"{'x' if n % 2 else 'y'} {n}" for n in range(8)))
    assert find(group, "?x", limit=3) == [["x 1", "x 3", "x 5"], ["x 7"]]
    monkeypatch.setattr(logs, "SEARCHED_EVENTS", 3)
    assert find(group, "?y") == [["y 0", "y 2"], ["y 4"], ["y 6"]]
    assert find(group, "?z") == [[], [], []]


@pytest.mark.parametrize(
    ("pattern", "message", "matches"),
    [
        ("", "anything", True),
        ("?ERROR", "an ERROR here", True),
        ("?ERROR", "an error here", False),
        ("?ERROR", "many ERRORS here", False),
        ("?ERROR ?WARN", "WARN of something", True),
        ("?ERROR ?WARN", "nothing of both", False),
        ("?BATCHMARK_METRIC ?BATCHMARK_JOB", 'BATCHMARK_METRIC {"metric": 1}', True),
        ("?BATCHMARK_METRIC ?BATCHMARK_JOB", "BATCHMARK_METRIC_FILE {}", False),
        ("%BATCHMARK_METRIC|BATCHMARK_JOB%", "\x1b[32mBATCHMARK_METRIC {}", True),
        ("%BATCHMARK_METRIC|BATCHMARK_JOB%", "BATCHMARK_WORKLOADS", False),
        ('"Batch Job"', "a Batch Jobs Queue", True),
        ('"Batch Job"', "a Batch of Jobs", False),
        (r'"says \"no\""', 'it says "no"', True),
    ],
)
def test_what_a_pattern_matches(pattern, message, matches):
    assert matcher(pattern)(message) is matches


@pytest.mark.parametrize(
    "pattern",
    ["word", "a -b", "a-b", "?a-b", '"open', '"a" "b"', "?", "?a b", "{ $.a = 1 }", "[a]", "%a.b%"],
)
def test_patterns_that_are_refused(pattern):
    with pytest.raises(
        InvalidParameterException, match="The local cloud supports only filter patterns like"
    ):
        matcher(pattern)


@pytest.fixture
def path(tmp_path, logs_on_disk):
    found = tmp_path / "logs.sqlite"
    keep_in(found)
    return found


def told(events):
    return [event.message for event in events]


def test_events_are_there_after_a_restart(path):
    events = Events()
    events.add(1000, 1001, ["one", "two"])
    keep_in(path)
    again = Events(events.number)
    assert told(again) == ["one", "two"]
    again.add(1000, 1002, ["three"])
    assert told(again) == ["one", "two", "three"]
    assert len({event.event_id for event in again}) == len(again) == 3


def test_streams_that_are_gone_leave_nothing(path):
    kept, gone = Events(), Events()
    for each in (kept, gone):
        each.add(1000, 1001, ["one"])
    delete_all_but([kept])
    assert (told(kept), told(gone), bool(gone)) == (["one"], [], False)


ACCOUNT, REGION = "123456789012", "us-east-1"


def test_a_log_is_sent_in_parts_however_long_its_lines_are(logs_on_disk):
    stream = LogStream(logs_backends[ACCOUNT][REGION], "pages", "name")
    stream.create()
    line = b"x" * MAX_EVENT_BYTES
    for _ in range(20):
        stream.write(line, b"end\n", written_at=1000)
    job = SimpleNamespace(
        id="job-1",
        status="RUNNING",
        arn=f"arn:aws:batch:{REGION}:{ACCOUNT}:job/job-1",
        submission=SimpleNamespace(main_node=None, containers=[SimpleNamespace(log_group="pages")]),
        attempts=[SimpleNamespace(nodes=[SimpleNamespace(log_stream_name="name")])],
    )
    sent = page(job)
    first, part = next(sent), next(sent)
    stream.write(b"of a later time\n", written_at=2**41)
    parts = [part, *sent]
    stream.backend.delete_log_group("pages")
    assert first == "Job job-1 is RUNNING, attempt 1\n"
    assert "".join(parts) == f"{line.decode()}\nend\n" * 20
    assert max(map(len, parts)) < 4 * 2**20


def test_a_job_without_a_log_has_a_page_and_no_job_none(batch, queue):
    pages = Client(LogPages(Response("served")))
    waits = batch.submit(dependsOn=[{"jobId": batch.submit()}])
    found = pages.get(f"/local-cloud/jobs/{waits}/log")
    assert found.text == f"Job {waits} is PENDING and has no log yet.\n"
    missing = pages.get("/local-cloud/jobs/none/log")
    assert (missing.status_code, missing.text) == (404, "The local cloud has no job none\n")
