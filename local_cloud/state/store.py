"""Stores the state of all moto backends in a SQLite database."""

from __future__ import annotations

import logging
import os
import sqlite3
import sys
import threading
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import moto
from moto.core.base_backend import BackendDict, BaseBackend
from moto.s3.models import s3_backends

from local_cloud.gaps import log_events
from local_cloud.state import StateError
from local_cloud.state.contents import TABLE as CONTENT_TABLE
from local_cloud.state.contents import Contents
from local_cloud.state.pickling import Key, dumps, live, loads

FORMAT = f"1, moto {moto.__version__}, Python {sys.version_info.major}.{sys.version_info.minor}"
TABLES = (
    CONTENT_TABLE,
    "CREATE TABLE IF NOT EXISTS format (version TEXT)",
    "CREATE TABLE IF NOT EXISTS backend (service TEXT, account TEXT, region TEXT, held BLOB, "
    "PRIMARY KEY (service, account, region))",
)
# Regions of IAM's backends for other partitions, which hold only moto's managed policies.
OTHER_PARTITIONS = "aws-"
ATTEMPTS = 20
OTHERS_WRITE = 0o022

Services = frozenset[str]
ALL: Services | None = None
# The services that a job changes: through its state, its log, and the targets of its events.
JOB_SERVICES: Services = frozenset({"batch", "ecs", "events", "logs", "sns", "sqs"})

log = logging.getLogger(__name__)


class Store:
    """The backends' state on disk. `job_lock` guards every job's state.

    Raises:
        StateError: the folder can't be used, e.g. because another local cloud is using it, another
            version wrote it, or other users can write to it.
    """

    def __init__(self, folder: Path, job_lock: threading.RLock) -> None:
        self._path = private_file(folder, "state.sqlite")
        self._job_lock = job_lock
        self._gate = Gate()
        self._committing = threading.Lock()
        self._not_saved: set[str] = set()
        self._is_closed = False
        try:
            # No sync: what was handed to the operating system survives a SIGKILL of this process.
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
            raise StateError(
                f"{self._path} can't be used ({error}): stop the program that is using it or "
                "choose another folder"
            ) from error
        self._contents = Contents(self._database)
        if found is not None and found[0] != FORMAT:
            raise StateError(
                f"{self._path} was written by version {found[0]}, but this is version "
                f"{FORMAT}: delete it"
            )

    def load(self) -> None:
        rows = self._database.execute("SELECT service, account, region, held FROM backend")
        try:
            for service, account, region, data in rows.fetchall():
                held = loads(data, self._contents)
                vars(live((service, account, region))).update(held)
            with self._transaction():
                self._contents.delete_unused()
        except Exception as error:
            raise StateError(
                f"{self._path} can't be read ({error!r}): delete it and start again"
            ) from error
        for account, partitions in s3_backends.items():
            for partition, backend in partitions.items():
                s3_backends.bucket_accounts |= dict.fromkeys(backend.buckets, (partition, account))

    @contextmanager
    def changing(self, services: Services | None) -> Iterator[None]:
        """Run a block that can change these services, then commit their state."""
        with self._gate.shared():
            yield
        self.commit(services)

    def commit(self, services: Services | None) -> None:
        with self._committing, self._gate.exclusive():
            if self._is_closed:
                return
            used = backends()
            names = {id(backend): key for key, backend in used.items()}
            rows = [
                (*key, data)
                for key, backend in used.items()
                if (services is None or key[0] in services)
                and (data := self._pickled(key, backend, names)) is not None
            ]
            with self._transaction():
                if services is ALL:
                    self._delete_unused(used)
                self._database.executemany("REPLACE INTO backend VALUES (?, ?, ?, ?)", rows)
                self._contents.write()
            self._contents.written()

    def save_jobs(self) -> None:
        """Write all jobs' state. Database errors are only logged, and the next save tries again."""
        try:
            self.commit(JOB_SERVICES)
        except sqlite3.Error as error:
            log.warning("could not save the jobs' state: %s", error)

    def close(self) -> None:
        """Save the state one last time and close the database.

        Raises:
            StateError: the state can't be written. The last saved state remains.
        """
        try:
            self.commit(ALL)
        except sqlite3.Error as error:
            raise StateError(
                f"the last changes could not be saved in {self._path}: {error}"
            ) from error
        finally:
            with self._committing:
                self._is_closed = True
                self._database.close()

    def _delete_unused(self, used: Collection[Key]) -> None:
        """Delete the rows of backends that no longer exist."""
        stored = self._database.execute("SELECT service, account, region FROM backend")
        gone = set(stored.fetchall()) - set(used)
        self._database.executemany(
            "DELETE FROM backend WHERE service = ? AND account = ? AND region = ?", gone
        )

    def _pickled(self, key: Key, backend: BaseBackend, names: Mapping[int, Key]) -> bytes | None:
        for _ in range(ATTEMPTS):
            try:
                with self._job_lock:
                    return dumps(vars(backend), names, self._contents)
            except RuntimeError as error:
                # Changed while being pickled: log streams and events take no lock.
                problem: Exception = error
            except Exception as error:
                problem = error
                break
        if key[0] not in self._not_saved:
            log.warning("can't save the state of %s: %r", key[0], problem)
            self._not_saved.add(key[0])
        return None

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._database.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            if self._database.in_transaction:  # a full disk has already ended the transaction
                self._database.execute("ROLLBACK")
            raise
        self._database.execute("COMMIT")


class Gate:
    """A lock that many threads can share or one can hold exclusively; the latter has priority."""

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._shared = 0
        self._exclusive = 0

    @contextmanager
    def shared(self) -> Iterator[None]:
        with self._condition:
            self._condition.wait_for(lambda: not self._exclusive)
            self._shared += 1
        try:
            yield
        finally:
            with self._condition:
                self._shared -= 1
                self._condition.notify_all()

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """Hold the lock exclusively. Callers must ensure that only one thread at a time does so."""
        with self._condition:
            self._exclusive += 1
            self._condition.wait_for(lambda: not self._shared)
        try:
            yield
        finally:
            with self._condition:
                self._exclusive -= 1
                self._condition.notify_all()


def backends() -> dict[Key, BaseBackend]:
    """Return all backends used so far, except those in other AWS partitions."""
    instances: list[Any] = list(BackendDict._instances)  # type: ignore[misc]
    return {
        (services.service_name, account, region): backend
        for services in instances
        for account, regions in list(services.items())
        for region, backend in list(regions.items())
        if not region.startswith(OTHER_PARTITIONS)
    }


def keep_logs(folder: Path) -> None:
    """Store all log events in this folder from now on, and make those already in it available.

    Raises:
        StateError: the folder can't be used (see `Store`), or its log file is not a database.
    """
    path = private_file(folder, "logs.sqlite")
    try:
        log_events.keep_in(path)
    except sqlite3.Error as error:
        raise StateError(
            f"{path} can't be used ({error}): delete it (all logs will be lost) or choose "
            "another folder"
        ) from error


def private_file(folder: Path, name: str) -> Path:
    """Return a file in this folder, creating it if necessary, and make both private to their owner.

    Raises:
        StateError: the folder or file can't be used or belongs to another user, or other users can
            write to the folder.
    """
    try:
        _require_ours(folder)
        mode = folder.stat().st_mode
        if mode & OTHERS_WRITE:
            raise StateError(
                f"other users can write to {folder} (mode {mode & 0o777:o}), and loading saved "
                "state from it can run code: if everything in it is yours, run `chmod 700 "
                f"{folder}`; otherwise choose another folder"
            )
        folder.chmod(0o700)
        path = folder / name
        path.touch(mode=0o600)
        _require_ours(path)
        path.chmod(0o600)
    except OSError as error:
        raise StateError(f"{folder} can't be used: {error.strerror}") from error
    return path


def _require_ours(path: Path) -> None:
    owner, us = path.stat().st_uid, os.geteuid()
    if owner != us:
        raise StateError(
            f"{path} belongs to user {owner}, not to you ({us}), and loading saved state can run "
            f"code: choose a folder of your own, or run `chown -R {us}` on it if you trust its "
            "content"
        )
