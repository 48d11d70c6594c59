"""What is kept of moto's backends, and when."""

import logging
import sqlite3
import threading
from collections import defaultdict
from contextlib import contextmanager

import pytest
from moto.core.base_backend import BackendDict
from moto.s3.models import s3_backends
from werkzeug.test import Client

from local_cloud.state import StateError
from local_cloud.state.durable import ALONE, Durable, is_reading, reach_of
from local_cloud.state.pickling import dumps, loads
from local_cloud.state.store import ALL, OF_JOBS, Gate, Store, live

ACCOUNT, REGION = "111122223333", "us-east-1"
SOON_SECONDS = 10
SSM, S3, SQS = ("ssm", ACCOUNT, REGION), ("s3", ACCOUNT, "aws"), ("sqs", ACCOUNT, REGION)
KMS = ("kms", ACCOUNT, REGION)
SIGNED = "AWS4-HMAC-SHA256 Credential=test/20261121/us-east-1/{}/aws4_request, Signature=0"


class NoNames:
    """Only a backend has a name here."""

    def __init__(self, backend=None):
        self._backend = backend

    def of_backend(self, backend):
        return SSM if backend is self._backend else None

    def backend(self, key):
        return live(key)


def copied(value):
    return loads(dumps({"value": value}, NoNames()), NoNames())["value"]


class Counting(defaultdict):
    """Has a constructor of its own, as moto's have."""

    def __init__(self, name):
        super().__init__(list)
        self.name = name


def test_what_pickle_does_not_know_comes_back():
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
    data = dumps({"of": ssm, "call": ssm.get_parameter}, NoNames(ssm))
    held = loads(data, NoNames())
    assert held["of"] is ssm
    assert held["call"].__self__ is ssm
    assert len(data) < 200


@pytest.fixture
def backends():
    """An account of our own."""
    yield
    for key in (SSM, S3, SQS, KMS):
        live(key).reset()


@pytest.fixture
def store(tmp_path, backends):
    made = Store(tmp_path, threading.RLock())
    yield made
    made.close()


def put(name, value="v"):
    live(SSM).put_parameter(
        name=name,
        description="",
        value=value,
        parameter_type="String",
        allowed_pattern="",
        keyid="",
        overwrite=False,
        tags=[],
        data_type="text",
        tier="Standard",
        policies="",
    )


def parameters():
    return sorted(live(SSM)._parameters)


def test_state_comes_back(store):
    put("a")
    s3 = live(S3)
    s3.create_bucket("kept", REGION)
    s3.put_object("kept", "key", b"content")
    store.commit(ALL)
    live(SSM).reset()
    s3.reset()
    assert "kept" not in s3_backends.bucket_accounts
    store.load()
    assert parameters() == ["a"]
    assert live(S3).get_object("kept", "key").value == b"content"
    assert s3_backends.bucket_accounts["kept"] == ("aws", ACCOUNT)
    put("b")
    assert parameters() == ["a", "b"]


def rows(store):
    """Contents of ours: other tests leave objects in other accounts."""
    found = store._database.execute("SELECT data FROM content WHERE length(data) = 1000")
    return sorted(data[:1] for (data,) in found)


def test_an_objects_content_is_written_once(store):
    s3 = live(S3)
    s3.create_bucket("kept", REGION)
    for name in ("a", "b"):
        s3.put_object("kept", name, name.encode() * 1000)
        store.commit(frozenset({"s3"}))
    assert rows(store) == [b"a", b"b"]
    found = store._database.execute("SELECT held FROM backend WHERE service = 's3'").fetchall()
    assert not any(b"aaaa" in held for (held,) in found)
    s3.copy_object(s3.get_object("kept", "a"), "kept", "c")
    s3.delete_object("kept", "b")
    store.commit(frozenset({"s3"}))
    s3.reset()
    store.load()
    contents = {key: live(S3).get_object("kept", key).value for key in ("a", "c")}
    assert contents == {"a": b"a" * 1000, "c": b"a" * 1000}
    assert rows(store) == [b"a", b"a"]  # b is gone
    store.commit(frozenset({"s3"}))
    assert rows(store) == [b"a", b"a"]


def test_a_content_that_could_not_be_written_is_written_next_time(store):
    s3 = live(S3)
    s3.create_bucket("kept", REGION)
    s3.put_object("kept", "a", b"content")
    store._database.execute("ALTER TABLE content RENAME TO elsewhere")
    with pytest.raises(sqlite3.OperationalError, match="no such table"):
        store.commit(frozenset({"s3"}))
    store._database.execute("ALTER TABLE elsewhere RENAME TO content")
    store.commit(frozenset({"s3"}))
    s3.reset()
    store.load()
    assert live(S3).get_object("kept", "a").value == b"content"


def test_a_second_folder_gets_the_contents_too(store, tmp_path):
    s3 = live(S3)
    s3.create_bucket("kept", REGION)
    s3.put_object("kept", "a", b"content")
    store.commit(ALL)
    (tmp_path / "second").mkdir()
    second = Store(tmp_path / "second", threading.RLock())
    second.commit(ALL)
    s3.reset()
    second.load()
    assert live(S3).get_object("kept", "a").value == b"content"
    second.close()


def test_only_what_is_named_is_written(store):
    put("a")
    store.commit(ALL)
    put("b")
    live(SQS).create_queue("q", {})
    store.commit(frozenset({"sqs"}))
    live(SSM).reset()
    live(SQS).reset()
    store.load()
    assert parameters() == ["a"]
    assert list(live(SQS).queues) == ["q"]


def test_what_can_not_be_kept_is_told_once_and_keeps_nothing_else_from_it(store, caplog):
    put("a")
    live(SQS).unkeepable = (each for each in "abc")
    with caplog.at_level(logging.WARNING):
        store.commit(ALL)
        store.commit(ALL)
    (told,) = [each.message for each in caplog.records if "sqs" in each.message]
    assert told.startswith("the state of sqs can't be kept: TypeError")
    live(SSM).reset()
    store.load()
    assert parameters() == ["a"]


def test_what_can_not_be_kept_any_more_comes_back_as_it_was_last_kept(store):
    live(SQS).create_queue("q", {})
    store.commit(ALL)
    live(SQS).unkeepable = (each for each in "abc")
    store.commit(ALL)
    del live(SQS).unkeepable
    live(SQS).reset()
    store.load()
    assert list(live(SQS).queues) == ["q"]


def test_a_backend_that_is_gone_is_forgotten(store):
    gone = ("ssm", ACCOUNT, "eu-west-3")
    live(gone)
    store.commit(ALL)
    services = next(each for each in BackendDict._instances if each.service_name == "ssm")
    del services[ACCOUNT]["eu-west-3"]
    store.commit(ALL)
    found = store._database.execute("SELECT 1 FROM backend WHERE region = 'eu-west-3'")
    assert found.fetchall() == []


def test_jobs_go_on_where_nothing_can_be_written_and_the_next_time_keeps_all(store, caplog):
    live(SQS).create_queue("q", {})
    store._database.execute("ALTER TABLE backend RENAME TO elsewhere")
    store.keep()
    assert caplog.messages[-1] == ("what jobs have come to is not on disk: no such table: backend")
    store._database.execute("ALTER TABLE elsewhere RENAME TO backend")
    store.keep()
    live(SQS).reset()
    store.load()
    assert list(live(SQS).queues) == ["q"]


def test_two_can_not_use_one_folder(store, tmp_path):
    with pytest.raises(StateError, match=r"state.sqlite can't be used \(database is locked\)"):
        Store(tmp_path, threading.RLock())


def test_another_versions_state_is_refused(store, tmp_path):
    store._database.execute("UPDATE format SET version = '0, moto 1.0'")
    store.close()
    with pytest.raises(StateError, match=r"written by version 0, moto 1.0, this is .*: delete it"):
        Store(tmp_path, threading.RLock())


def test_what_can_not_be_read_is_refused(store):
    store._database.execute("REPLACE INTO backend VALUES ('ssm', ?, ?, 'x')", (ACCOUNT, REGION))
    with pytest.raises(StateError, match=r"state.sqlite can't be read \(.*\): delete it"):
        store.load()


def test_after_its_end_nothing_is_written(tmp_path, backends):
    store = Store(tmp_path, threading.RLock())
    store.close()
    store.keep()


def test_who_is_alone_waits_for_the_others_and_they_for_him():
    gate, order = Gate(), []
    alone = threading.Event()

    def be_alone():
        with gate.exclusive():
            order.append("alone")
            alone.set()

    with gate.shared(), gate.shared():
        thread = threading.Thread(target=be_alone)
        thread.start()
        assert not alone.wait(0.1)
        order.append("together")
    assert alone.wait(SOON_SECONDS)
    thread.join(SOON_SECONDS)
    with gate.shared():
        assert order == ["together", "alone"]


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
        ("batch", "SubmitJob", OF_JOBS),
        ("batch", "CreateComputeEnvironment", ALL),
        ("events", "PutEvents", OF_JOBS),
        ("fsx", "CreateFileSystem", ALL),
        (None, None, ALL),
    ],
)
def test_how_far_a_call_reaches(service, operation, reach):
    assert reach_of(service, operation) == reach


def test_all_services_that_change_alone_are_motos():
    for service in ALONE | OF_JOBS:
        key = (service, ACCOUNT, "aws" if service in ("iam", "s3", "budgets") else REGION)
        assert live(key).account_id == ACCOUNT


class Recording:
    """A store that writes down what it was asked."""

    def __init__(self, seen):
        self.seen = seen

    @contextmanager
    def changing(self, services):
        yield
        self.commit(services)

    def commit(self, services):
        self.seen.append(("commit", services))


def test_a_change_is_kept_before_it_is_answered():
    seen = []

    def served(environ, start_response):
        seen.append("served")
        start_response("200 OK", [])
        yield b"answer"

    def transport(environ, start_response):
        answer = Durable(served, Recording(seen))(environ, start_response)
        seen.append("answered")
        return answer

    client = Client(transport)
    client.put("/bucket/key", data=b"x", headers={"Authorization": SIGNED.format("s3")})
    assert seen == ["served", ("commit", {"s3"}), "answered"]
    seen.clear()
    client.get("/bucket/key", headers={"Authorization": SIGNED.format("s3")})
    assert seen == ["answered", "served"]


def test_a_key_comes_back(store):
    kms = live(KMS)
    key = kms.create_key(None, "SIGN_VERIFY", "RSA_2048", "", [])
    signed = kms.sign(key.id, b"message", "RSASSA_PKCS1_V1_5_SHA_256")[1]
    store.commit(ALL)
    kms.reset()
    store.load()
    args = (key.id, b"message", signed, "RSASSA_PKCS1_V1_5_SHA_256")
    assert live(KMS).verify(*args)[1]
