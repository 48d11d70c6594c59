"""Values that pickle alone can't handle, and which calls change what."""

import pickle
import threading
from collections import defaultdict
from contextlib import contextmanager
from types import SimpleNamespace

import pytest
from moto.logs.models import LogEvent, LogGroup, LogStream
from werkzeug.test import Client

from local_cloud.state.pickling import dumps, live, loads, restore_events
from local_cloud.state.store import ALL, JOB_SERVICES
from local_cloud.state.write_through import SELF_CONTAINED, WriteThrough, is_reading, reach_of
from tests.stand_ins.local_batch import signed

SSM = ("ssm", "111122223333", "us-east-1")


def copied(value):
    return loads(dumps({"value": value}, names={}, contents=None), contents=None)["value"]


class Counting(defaultdict):
    """Has a constructor with other arguments, as some of moto's have."""

    def __init__(self, name):
        super().__init__(list)
        self.name = name


def test_locks_and_default_dictionaries_come_back():
    for make in (threading.Lock, threading.RLock):
        with copied(make()):
            pass
    nested = defaultdict(lambda: defaultdict(dict))
    nested["a"]["b"]["c"] = 1
    back = copied(nested)
    assert back == nested
    assert back["new"]["new"] == {}
    counting = Counting("name")
    counting["a"].append(1)
    back = copied(counting)
    assert (type(back), back.name, back["a"], back["b"]) == (Counting, "name", [1], [])


LINES = [{"timestamp": 1000 + n, "message": f"line {n}"} for n in range(3)]


@pytest.fixture
def group(logs_on_disk):
    made = LogGroup("111122223333", "us-east-1", "group")
    made.create_log_stream("job")
    made.streams["job"].put_log_events(LINES)
    return made


def test_a_log_comes_back_event_by_event_and_is_no_part_of_the_state(group):
    back = copied(group).streams["job"]
    assert list(map(vars, back.events)) == list(map(vars, group.streams["job"].events))
    assert (back.log_stream_name, back.log_group.name) == ("job", "group")
    back.put_log_events(LINES)
    assert len(back.events) == 6
    assert b"line" not in dumps({"value": group}, names={}, contents=None)


def empty_stream():
    return LogStream.__new__(LogStream)


class OfBefore:
    """A log stream as earlier versions pickled it: its events in it, at first as a plain list."""

    def __init__(self, stream, events, restore=None):
        self._parts = empty_stream, (), {**vars(stream), "events": events}
        self._parts += (None, None, restore) if restore else ()

    def __reduce__(self):
        return self._parts


def test_a_log_of_an_earlier_version_is_read(group):
    stream = group.streams["job"]
    listed = [LogEvent(5, line) for line in LINES]
    values = [(5, each.timestamp, each.message, each.event_id) for each in listed]
    for old in (
        OfBefore(stream, listed),
        OfBefore(stream, pickle.dumps(values), restore_events),
    ):
        found = [(each.timestamp, each.message) for each in copied(old).events]
        assert found == [(1000, "line 0"), (1001, "line 1"), (1002, "line 2")]


def test_a_backend_is_named_not_copied():
    ssm = live(SSM)
    data = dumps({"of": ssm, "call": ssm.get_parameter}, {id(ssm): SSM}, contents=None)
    held = loads(data, contents=None)
    assert held["of"] is ssm
    assert held["call"].__self__ is ssm
    assert len(data) < 200


ACCOUNT, REGION = "111122223333", "us-east-1"


@pytest.mark.parametrize(
    ("service", "operation", "method", "reads"),
    [
        ("batch", "DescribeJobs", "POST", True),
        ("batch", "SubmitJob", "POST", False),
        ("ecr", "BatchGetImage", "POST", True),
        ("ecr", "BatchDeleteImage", "POST", False),
        ("sqs", "ReceiveMessage", "POST", False),
        ("s3", "GetObject", "GET", True),
        ("s3", None, "HEAD", True),
        ("s3", "PutObject", "PUT", False),
        (None, None, "GET", True),
        (None, None, "POST", False),
        ("new", None, "GET", False),
    ],
)
def test_which_calls_only_read(service, operation, method, reads):
    assert is_reading(service, operation, method) is reads


@pytest.mark.parametrize(
    ("service", "operation", "reach"),
    [
        ("s3", "PutObject", {"s3"}),
        ("batch", "SubmitJob", JOB_SERVICES),
        ("batch", "CreateComputeEnvironment", ALL),
        ("events", "PutEvents", JOB_SERVICES),
        ("fsx", "CreateFileSystem", ALL),
        (None, None, ALL),
    ],
)
def test_which_services_a_call_may_change(service, operation, reach):
    assert reach_of(service, operation) == reach


def test_all_listed_services_are_motos():
    for service in SELF_CONTAINED | JOB_SERVICES:
        key = (service, ACCOUNT, "aws" if service in ("iam", "s3", "budgets") else REGION)
        assert live(key).account_id == ACCOUNT


def test_a_change_is_committed_before_its_answer():
    seen = []

    def served(environ, start_response):
        seen.append("served")
        start_response("200 OK", [])
        yield b"answer"

    @contextmanager
    def changing(services):
        yield
        seen.append(("commit", services))

    def transport(environ, start_response):
        store = SimpleNamespace(changing=changing)
        answer = WriteThrough(served, store)(environ, start_response)
        seen.append("answered")
        return answer

    client = Client(transport)
    client.put("/bucket/key", data=b"x", headers=signed("s3"))
    assert seen == ["served", ("commit", {"s3"}), "answered"]
    seen.clear()
    client.get("/bucket/key", headers=signed("s3"))
    assert seen == ["answered", "served"]
