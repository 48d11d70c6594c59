"""moto's backends on disk, and back, and whose folder they are read from."""

import gzip
import logging
import os
import sqlite3
import threading
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import pytest
from moto.batch.models import batch_backends
from moto.core.base_backend import BackendDict
from moto.s3.models import s3_backends

from local_cloud.batch.api.models import JobsBatchBackend
from local_cloud.batch.jobs.job import Job
from local_cloud.batch.jobs.resources import Requirements
from local_cloud.state import StateError
from local_cloud.state.pickling import live
from local_cloud.state.store import ALL, FORMAT, Gate, Store, keep_logs, private_file
from tests.paths import DATA
from tests.stand_ins.failing_calls import failing
from tests.waiting import PATIENCE_SECONDS

ACCOUNT, REGION = "111122223333", "us-east-1"
SSM, S3, SQS = ("ssm", ACCOUNT, REGION), ("s3", ACCOUNT, "aws"), ("sqs", ACCOUNT, REGION)
KMS = ("kms", ACCOUNT, REGION)
OLD_BATCH = ("batch", "123456789012", REGION)


@pytest.fixture
def backends():
    """Resets the backends of the account that is used here."""
    yield
    for key in (SSM, S3, SQS, KMS):
        live(key).reset()


@pytest.fixture
def s3(backends):
    """With one bucket."""
    made = live(S3)
    made.create_bucket("kept", REGION)
    return made


def kept(key):
    return live(S3).get_object("kept", key).value


@pytest.fixture
def store(tmp_path, backends):
    made = Store(tmp_path, threading.RLock())
    yield made
    made.close()


def read_again(folder):
    """As the next server reads it."""
    live(SSM).reset()
    again = Store(folder, threading.RLock())
    again.load()
    again.close()


def put(name):
    empty = dict.fromkeys(("description", "allowed_pattern", "keyid", "policies"), "")
    kind = {"parameter_type": "String", "data_type": "text", "tier": "Standard"}
    live(SSM).put_parameter(name=name, value="v", overwrite=False, tags=[], **kind, **empty)


def parameters():
    return sorted(live(SSM)._parameters)


def test_state_comes_back(store, s3):
    put("a")
    s3.put_object("kept", "key", b"content")
    key, algorithm = (
        live(KMS).create_key(None, "SIGN_VERIFY", "RSA_2048", "", []),
        "RSASSA_PSS_SHA_256",
    )
    signature = live(KMS).sign(key.id, b"message", algorithm)[1]
    store.commit(ALL)
    live(SSM).reset()
    live(KMS).reset()
    s3.reset()
    assert "kept" not in s3_backends.bucket_accounts
    store.load()
    assert parameters() == ["a"]
    assert kept("key") == b"content"
    assert live(KMS).verify(key.id, b"message", signature, algorithm)[1]
    assert s3_backends.bucket_accounts["kept"] == ("aws", ACCOUNT)
    put("b")
    assert parameters() == ["a", "b"]


def rows(store):
    """The contents that these tests write: other tests leave objects in other accounts."""
    found = store._database.execute("SELECT data FROM content WHERE length(data) = 1000")
    return sorted(data[:1] for (data,) in found)


def test_an_objects_content_is_written_once(store, s3):
    for name in ("a", "b"):
        s3.put_object("kept", name, name.encode() * 1000)
        store.commit(frozenset({"s3"}))
    assert rows(store) == [b"a", b"b"]
    found = store._database.execute("SELECT held FROM backend WHERE service = 's3'").fetchall()
    assert not any(b"a" * 1000 in held for (held,) in found)
    s3.copy_object(s3.get_object("kept", "a"), "kept", "c")
    s3.delete_object("kept", "b")
    store.commit(frozenset({"s3"}))
    s3.reset()
    store.load()
    assert kept("a") == kept("c") == b"a" * 1000
    assert rows(store) == [b"a", b"a"]  # b is gone
    store.commit(frozenset({"s3"}))
    assert rows(store) == [b"a", b"a"]


def test_a_content_that_could_not_be_written_is_written_by_the_next_commit(store, s3):
    s3.put_object("kept", "a", b"content")
    store._database.execute("ALTER TABLE content RENAME TO elsewhere")
    with pytest.raises(sqlite3.OperationalError, match="no such table"):
        store.commit(frozenset({"s3"}))
    store._database.execute("ALTER TABLE elsewhere RENAME TO content")
    store.commit(frozenset({"s3"}))
    s3.reset()
    store.load()
    assert kept("a") == b"content"


def test_a_second_folder_gets_the_contents_too(store, s3, tmp_path):
    s3.put_object("kept", "a", b"content")
    store.commit(ALL)
    (tmp_path / "second").mkdir()
    second = Store(tmp_path / "second", threading.RLock())
    second.commit(ALL)
    s3.reset()
    second.load()
    assert kept("a") == b"content"
    second.close()


def test_only_the_given_services_are_written(store):
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


def test_a_backend_that_cannot_be_pickled_is_logged_once_and_keeps_its_last_state(store, caplog):
    live(SQS).create_queue("q", {})
    store.commit(ALL)
    put("a")
    live(SQS).unkeepable = (each for each in "abc")
    with caplog.at_level(logging.WARNING):
        store.commit(ALL)
        store.commit(ALL)
    (logged,) = [each.message for each in caplog.records if "sqs" in each.message]
    assert logged.startswith("can't save the state of sqs: TypeError")
    del live(SQS).unkeepable
    live(SSM).reset()
    live(SQS).reset()
    store.load()
    assert parameters() == ["a"]
    assert list(live(SQS).queues) == ["q"]


def test_the_row_of_a_deleted_backend_is_deleted(store):
    gone = ("ssm", ACCOUNT, "eu-west-3")
    live(gone)
    store.commit(ALL)
    services = next(each for each in BackendDict._instances if each.service_name == "ssm")
    del services[ACCOUNT]["eu-west-3"]
    store.commit(ALL)
    found = store._database.execute("SELECT 1 FROM backend WHERE region = 'eu-west-3'")
    assert found.fetchall() == []


def test_an_error_while_saving_jobs_is_logged_and_the_next_save_writes_all(store, caplog):
    live(SQS).create_queue("q", {})
    store._database.execute("ALTER TABLE backend RENAME TO elsewhere")
    store.save_jobs()
    assert caplog.messages[-1] == ("could not save the jobs' state: no such table: backend")
    store._database.execute("ALTER TABLE elsewhere RENAME TO backend")
    store.save_jobs()
    live(SQS).reset()
    store.load()
    assert list(live(SQS).queues) == ["q"]


def test_a_folder_serves_one_store_at_a_time(store, tmp_path):
    with pytest.raises(StateError, match=r"state.sqlite can't be used \(database is locked\)"):
        Store(tmp_path, threading.RLock())


def test_an_unreadable_state_and_another_versions_are_refused(store, tmp_path):
    store._database.execute("REPLACE INTO backend VALUES ('ssm', ?, ?, 'x')", (ACCOUNT, REGION))
    with pytest.raises(StateError, match=r"state.sqlite can't be read \(.*\): delete it"):
        store.load()
    store._database.execute("UPDATE format SET version = '0, moto 1.0'")
    store.close()
    with pytest.raises(
        StateError, match=r"written by version 0, moto 1.0, but this is .*: delete it"
    ):
        Store(tmp_path, threading.RLock())


def test_a_closed_store_ignores_commits(store, tmp_path, caplog):
    put("a")
    store.close()
    put("b")
    store.commit(ALL)
    store.save_jobs()
    assert caplog.messages == []
    read_again(tmp_path)
    assert parameters() == ["a"]


def test_exclusive_and_shared_holders_wait_for_each_other():
    gate, order = Gate(), []
    exclusive = threading.Event()

    def hold_exclusively():
        with gate.exclusive():
            order.append("exclusive")
            exclusive.set()

    with gate.shared(), gate.shared():
        thread = threading.Thread(target=hold_exclusively)
        thread.start()
        assert not exclusive.wait(0.1)
        order.append("shared")
    assert exclusive.wait(PATIENCE_SECONDS)
    thread.join(PATIENCE_SECONDS)
    with gate.shared():
        assert order == ["shared", "exclusive"]


@pytest.fixture
def old_state(tmp_path, backends, monkeypatch):
    """A store of a folder from before Batch's modules had rooms; it holds a Batch backend."""
    data = gzip.decompress((DATA / "local_cloud_state/before-rooms.sqlite.gz").read_bytes())
    (tmp_path / "state.sqlite").write_bytes(data)
    with closing(sqlite3.connect(tmp_path / "state.sqlite")) as database, database:
        database.execute("UPDATE format SET version = ?", (FORMAT,))
    monkeypatch.setattr(batch_backends, "backend", JobsBatchBackend)
    # An empty entry, so that the one made of it is deleted at the end.
    monkeypatch.setitem(batch_backends, OLD_BATCH[1], None)
    del batch_backends[OLD_BATCH[1]]
    made = Store(tmp_path, threading.RLock())
    yield made
    made.close()


def test_a_state_from_before_the_rooms_is_read(old_state):
    old_state.load()
    backend = live(OLD_BATCH)
    jobs = {job.submission.name: job for job in backend._jobs.values() if job.index is None}
    assert {name: job.status for name, job in jobs.items()} == {
        "ended": "SUCCEEDED",
        "array": "FAILED",
        "running": "RUNNING",
        "waiting": "RUNNABLE",
        "dependent": "PENDING",
        "nodes": "PENDING",
    }
    assert all(type(job) is Job for job in jobs.values())
    assert [child.attempts[0].nodes[0].exit_code for child in jobs["array"].children] == [3, 3]
    assert jobs["dependent"].unmet == {jobs["waiting"].id}
    assert jobs["waiting"].submission.requirements == Requirements(2, 16, 0)
    assert jobs["running"].on_change.__self__ is backend


@pytest.fixture
def state(tmp_path):
    made = tmp_path / "state"
    made.mkdir(mode=0o755)
    return made


def mode_of(path):
    return path.stat().st_mode & 0o777


def test_the_folder_and_all_its_files_are_the_owners_alone(state):
    (state / "state.sqlite").touch()
    (state / "state.sqlite").chmod(0o664)  # as an earlier version left it
    before = os.umask(0)
    try:
        made = Store(state, threading.RLock())
        made.commit(ALL)
        assert {mode_of(path) for path in state.iterdir()} == {0o600}
        assert mode_of(state) == 0o700
        made.close()
    finally:
        os.umask(before)


@pytest.mark.parametrize("mode", [0o770, 0o707, 0o777, 0o720, 0o1777])
def test_a_folder_that_others_write_to_is_refused(state, mode):
    state.chmod(mode)
    with pytest.raises(StateError, match=rf"write to {state} .*`chmod 700 {state}`"):
        private_file(state, "state.sqlite")
    assert list(state.iterdir()) == []


@pytest.mark.parametrize("foreign", ["folder", "file"])
def test_what_belongs_to_another_user_is_refused(state, monkeypatch, foreign):
    path = state if foreign == "folder" else state / "state.sqlite"
    (state / "state.sqlite").touch()
    stat = type(state).stat

    def of_another(self, **options):
        real = stat(self, **options)
        owner = 4321 if self == path else real.st_uid
        return SimpleNamespace(st_uid=owner, st_mode=real.st_mode)

    monkeypatch.setattr(type(state), "stat", of_another)
    with pytest.raises(StateError, match=f"{path} belongs to user 4321, not to you .*chown"):
        private_file(state, "state.sqlite")


def test_a_folder_that_cant_be_used_is_named(state, monkeypatch):
    monkeypatch.setattr(Path, "touch", failing(PermissionError(13, "Permission denied")))
    with pytest.raises(StateError, match=f"{state} can't be used: Permission denied"):
        private_file(state, "state.sqlite")


def test_a_file_of_logs_that_is_none_is_named(state, logs_on_disk):
    (state / "logs.sqlite").write_bytes(b"no database" * 100)
    with pytest.raises(StateError, match=r"logs.sqlite can't be used \(file is not a database\)"):
        keep_logs(state)


def test_a_full_disk_costs_the_last_changes_and_is_told(tmp_path, backends):
    store = Store(tmp_path, threading.RLock())
    put("a")
    store.commit(ALL)
    store._database.execute("PRAGMA max_page_count = 1")  # as many as there are
    for n in range(500):
        put(f"of {n}")
    with pytest.raises(sqlite3.OperationalError, match="full"):
        store.commit(ALL)
    with pytest.raises(
        StateError, match=r"the last changes could not be saved in .*state.sqlite: .* full"
    ):
        store.close()
    read_again(tmp_path)
    assert parameters() == ["a"]
