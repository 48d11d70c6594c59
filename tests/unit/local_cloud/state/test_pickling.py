"""Values that pickle alone can't handle."""

import threading
from collections import defaultdict

from moto.logs.models import LogGroup, LogStream

from local_cloud.state import pickling
from local_cloud.state.pickling import dumps, live, loads

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


def test_a_log_comes_back_event_by_event():
    group = LogGroup("111122223333", "us-east-1", "group")
    group.create_log_stream("job")
    lines = [{"timestamp": 1000 + n, "message": f"line {n}"} for n in range(3)]
    group.streams["job"].put_log_events(lines)
    back = copied(group).streams["job"]
    assert list(map(vars, back.events)) == list(map(vars, group.streams["job"].events))
    assert (back.log_stream_name, back.log_group.name) == ("job", "group")
    back.put_log_events(lines)
    assert len(back.events) == 6


def test_a_log_that_did_not_grow_is_pickled_once():
    stream = LogStream(LogGroup("111122223333", "us-east-1", "group"), "job")
    stream.put_log_events([{"timestamp": 1000, "message": "one"}])
    first = pickling.pickled_events(stream)
    assert pickling.pickled_events(stream) is first
    stream.put_log_events([{"timestamp": 1001, "message": "two"}])
    assert len(copied(stream).events) == 2


def test_a_backend_is_named_not_copied():
    ssm = live(SSM)
    data = dumps({"of": ssm, "call": ssm.get_parameter}, {id(ssm): SSM}, contents=None)
    held = loads(data, contents=None)
    assert held["of"] is ssm
    assert held["call"].__self__ is ssm
    assert len(data) < 200
