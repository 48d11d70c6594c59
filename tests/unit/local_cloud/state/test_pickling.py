"""Values that pickle alone can't handle."""

import threading
from collections import defaultdict

from local_cloud.state.pickling import dumps, loads
from local_cloud.state.store import live

SSM = ("ssm", "111122223333", "us-east-1")


class References:
    """Names one backend, if any."""

    def __init__(self, backend=None):
        self._backend = backend

    def of_backend(self, backend):
        return SSM if backend is self._backend else None

    def backend(self, key):
        return live(key)


def copied(value):
    return loads(dumps({"value": value}, References()), References())["value"]


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


def test_a_backend_is_named_not_copied():
    ssm = live(SSM)
    data = dumps({"of": ssm, "call": ssm.get_parameter}, References(ssm))
    held = loads(data, References())
    assert held["of"] is ssm
    assert held["call"].__self__ is ssm
    assert len(data) < 200
