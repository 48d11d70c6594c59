"""The database of all backends, and when it is written."""

from __future__ import annotations

import logging
import sqlite3
import sys
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import moto
from moto.backends import get_backend
from moto.core.base_backend import BackendDict
from moto.s3.models import s3_backends

from local_cloud.state import StateError
from local_cloud.state.contents import TABLE as CONTENT_TABLE
from local_cloud.state.contents import Contents
from local_cloud.state.pickling import Key, dumps, loads

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
    from pathlib import Path

    from moto.core.base_backend import BaseBackend
    from moto.s3.models import FakeKey

FORMAT = f"1, moto {moto.__version__}, Python {sys.version_info.major}.{sys.version_info.minor}"
TABLES = (
    CONTENT_TABLE,
    "CREATE TABLE IF NOT EXISTS format (version TEXT)",
    "CREATE TABLE IF NOT EXISTS backend (service TEXT, account TEXT, region TEXT, held BLOB, "
    "PRIMARY KEY (service, account, region))",
)
# IAM's managed policies, once for each of AWS's partitions: they come with moto.
OTHER_PARTITIONS = "aws-"
ATTEMPTS = 20

Services = frozenset[str]
ALL: Services | None = None
# What a job's change of state reaches: its log, and the rules that hear of it.
OF_JOBS: Services = frozenset({"batch", "ecs", "events", "logs", "sns", "sqs"})

log = logging.getLogger(__name__)


class Store:
    """The backends' state on disk. `jobs` is the lock that guards every job's state.

    Raises:
        StateError: another local cloud uses the folder, or it holds another version's state.
    """

    def __init__(self, folder: Path, jobs: threading.RLock) -> None:
        self._path = folder / "state.sqlite"
        self._jobs = jobs
        self._gate = Gate()
        self._committing = threading.Lock()
        self._unkept: set[str] = set()
        self._names: dict[int, Key] = {}
        self._is_closed = False
        try:
            # A SIGKILL leaves what the system was given; only a crash of its own would need a sync.
            self._database = sqlite3.connect(
                self._path, timeout=1, isolation_level=None, check_same_thread=False
            )
            for statement in ("PRAGMA locking_mode = EXCLUSIVE", "PRAGMA synchronous = OFF"):
                self._database.execute(statement)
            with self._transaction():
                for statement in TABLES:
                    self._database.execute(statement)
                found = self._database.execute("SELECT version FROM format").fetchone()
                if found is None:
                    self._database.execute("INSERT INTO format VALUES (?)", (FORMAT,))
        except sqlite3.Error as error:
            msg = f"{self._path} can't be used ({error}): end what uses it, or name another folder"
            raise StateError(msg) from error
        self._contents = Contents(self._database)
        if found is not None and found[0] != FORMAT:
            msg = f"{self._path} was written by version {found[0]}, this is {FORMAT}: delete it"
            raise StateError(msg)

    def load(self) -> None:
        """Give moto's backends what they held."""
        rows = self._database.execute("SELECT service, account, region, held FROM backend")
        try:
            for service, account, region, data in rows.fetchall():
                held = loads(data, self)
                vars(live((service, account, region))).update(held)
            with self._transaction():
                self._contents.forget_others()
        except Exception as error:
            msg = f"{self._path} can't be read ({error!r}): delete it, and start anew"
            raise StateError(msg) from error
        for account, partitions in s3_backends.items():
            for partition, backend in partitions.items():
                s3_backends.bucket_accounts |= dict.fromkeys(backend.buckets, (partition, account))

    @contextmanager
    def changing(self, services: Services | None) -> Iterator[None]:
        """A call that may change these services; they are committed at its end."""
        with self._gate.shared():
            yield
        self.commit(services)

    def commit(self, services: Services | None) -> None:
        """Write these services, ALL for every one; returns once that is done."""
        with self._committing, self._gate.exclusive():
            if self._is_closed:
                return
            used = backends()
            self._names = {id(backend): key for key, backend in used.items()}
            rows = [
                (*key, data)
                for key, backend in used.items()
                if (services is None or key[0] in services)
                and (data := self._dumped(key, backend)) is not None
            ]
            with self._transaction():
                if services is ALL:
                    self._forget_others(used)
                self._database.executemany("REPLACE INTO backend VALUES (?, ?, ?, ?)", rows)
                self._contents.write()
            self._contents.written()

    def keep(self) -> None:
        """Write what jobs have come to; where that fails they go on, and the next time may do."""
        try:
            self.commit(OF_JOBS)
        except sqlite3.Error as error:
            log.warning("what jobs have come to is not on disk: %s", error)

    def close(self) -> None:
        """Write everything for the last time."""
        self.commit(ALL)
        with self._committing:
            self._is_closed = True
            self._database.close()

    def of_backend(self, backend: BaseBackend) -> Key | None:
        """See Names."""
        return self._names.get(id(backend))

    def of_content(self, key: FakeKey) -> str:
        """See Names."""
        return self._contents.name(key)

    def backend(self, key: Key) -> BaseBackend:
        """See Names."""
        return live(key)

    def give_back(self, key: FakeKey, name: str, state: dict[str, Any]) -> None:
        """See Names."""
        self._contents.give_back(key, name, state)

    def _forget_others(self, used: Collection[Key]) -> None:
        """Delete the rows of backends that are gone; one that can't be kept now has its last."""
        stored = self._database.execute("SELECT service, account, region FROM backend")
        gone = set(stored.fetchall()) - set(used)
        self._database.executemany(
            "DELETE FROM backend WHERE service = ? AND account = ? AND region = ?", gone
        )

    def _dumped(self, key: Key, backend: BaseBackend) -> bytes | None:
        for _ in range(ATTEMPTS):
            try:
                with self._jobs:
                    return dumps(vars(backend), self)
            except RuntimeError as error:
                # A line of a job's log or an event came meanwhile: those take no lock.
                problem: Exception = error
            except Exception as error:
                problem = error
                break
        if key[0] not in self._unkept:
            log.warning("the state of %s can't be kept: %r", key[0], problem)
            self._unkept.add(key[0])
        return None

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._database.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self._database.execute("ROLLBACK")
            raise
        self._database.execute("COMMIT")


class Gate:
    """Lets many in together, or one alone; whoever wants to be alone goes first."""

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._inside = 0
        self._alone = 0

    @contextmanager
    def shared(self) -> Iterator[None]:
        with self._condition:
            self._condition.wait_for(lambda: not self._alone)
            self._inside += 1
        try:
            yield
        finally:
            with self._condition:
                self._inside -= 1
                self._condition.notify_all()

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """One at a time: the caller sees to that."""
        with self._condition:
            self._alone += 1
            self._condition.wait_for(lambda: not self._inside)
        try:
            yield
        finally:
            with self._condition:
                self._alone -= 1
                self._condition.notify_all()


def backends() -> dict[Key, BaseBackend]:
    """Every backend that was ever used."""
    instances: list[Any] = list(BackendDict._instances)  # type: ignore[misc]
    return {
        (services.service_name, account, region): backend
        for services in instances
        for account, regions in list(services.items())
        for region, backend in list(regions.items())
        if not region.startswith(OTHER_PARTITIONS)
    }


def live(key: Key) -> BaseBackend:
    """The backend of this name, made where there was none."""
    service, account, region = key
    backend: BaseBackend = get_backend(service)[account][region]  # type: ignore[call-overload]
    return backend
