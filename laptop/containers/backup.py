"""`make containers-backup` and `make containers-restore`: Airflow's database and the bucket."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from botocore.exceptions import BotoCoreError, ClientError
from pydantic import BaseModel, ConfigDict, ValidationError

from laptop import objects, secret_files
from laptop.cloud_state import VOLUME, CloudState, read_saved
from laptop.compose import (
    AIRFLOW,
    LOCAL_CLOUD,
    Compose,
    Deployment,
    as_published,
    version,
)
from laptop.containers import at_work, prepared, wait_until_healthy
from laptop.errors import LaptopError
from laptop.secret_files import FERNET_KEY
from laptop.session import Clock

DUMP = "airflow.dump"
RECORD = "backup.json"
OBJECTS = "objects"
DATABASE = "airflow"
BESIDE = "airflow_restored"


class Backup(BaseModel):
    """What a backup holds; written last, so that half a backup has none."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    format: Literal[1] = 1
    version: str
    made_at: datetime
    dump_sha256: str
    fernet_key_sha256: str
    has_objects: bool


def backup(deployment: Deployment, folder: Path) -> None:
    """Write Airflow's database, and with the local cloud its bucket, to a new folder.

    Raises:
        LaptopError: the folder holds something, or what is to be saved does not run or answer.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise LaptopError(f"{folder} is there and not empty: name a new folder")
    with at_work(deployment):
        clock = Clock()
        compose = Compose(as_published(deployment))
        _require_database(compose)
        has_objects = compose.is_running(LOCAL_CLOUD)
        if not has_objects and deployment.profile == "local" and compose.has_volume(VOLUME):
            raise LaptopError(
                "the local cloud has the bucket and does not run: `make containers-up` first, or "
                "save the database alone by PROFILE=aws"
            )
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o700)
        with (folder / DUMP).open("wb") as dump:
            compose.output(
                *_in_postgres("pg_dump", "--format=custom", f"--dbname={DATABASE}"), into=dump
            )
        clock.say(f"database: {(folder / DUMP).stat().st_size / 2**20:.1f} MiB")
        if has_objects:
            with _told("saving the bucket broke off, take another folder for the next try"):
                count = CloudState(compose).copy_objects(folder / OBJECTS)
            clock.say(f"bucket: {count} objects")
        record = Backup(
            version=version(),
            made_at=datetime.now(UTC),
            dump_sha256=objects.sha256(folder / DUMP),
            fernet_key_sha256=_fernet_fingerprint(deployment),
            has_objects=has_objects,
        )
        (folder / RECORD).write_text(record.model_dump_json(indent=1))
    print(f"backup: {folder}; keep {deployment.secrets / FERNET_KEY} too, and apart from it")


def restore(deployment: Deployment, folder: Path) -> None:
    """Replace Airflow's database, and with the local cloud its bucket, by what a backup holds.

    Raises:
        LaptopError: the backup is damaged or of other keys, or the services do not run: nothing
            was changed. Or the local cloud failed: the message says what was.
    """
    record = read_backup(folder, deployment)
    with at_work(deployment):
        clock = Clock()
        compose = prepared(as_published(deployment))
        _require_database(compose)
        if record.has_objects and not compose.is_running(LOCAL_CLOUD):
            raise LaptopError(
                "the backup has a local cloud's bucket, and none runs: `make containers-up` first"
            )
        _restore_beside(compose, folder / DUMP)  # a dump that is no good stops here
        compose("stop", *AIRFLOW)
        try:
            _sql(
                compose,
                f"drop database if exists {DATABASE} with (force)",
                f"alter database {BESIDE} rename to {DATABASE}",
            )
            clock.say("database: restored")
            if record.has_objects:
                with _told("the database is restored, restoring the bucket broke off: do it again"):
                    count = CloudState(compose).replace_objects(folder / OBJECTS)
                clock.say(f"bucket: {count} objects restored")
        except BaseException:
            with suppress(LaptopError):  # what broke off first is what is told
                wait_until_healthy(compose)
            raise
        wait_until_healthy(compose)  # migrates what an older version had backed up
        clock.say(f"Airflow: healthy again on {compose.deployment.url}")


def read_backup(folder: Path, deployment: Deployment) -> Backup:
    """A backup's record, once everything that it names is there and whole.

    Raises:
        LaptopError: it isn't.
    """
    try:
        record = Backup.model_validate_json((folder / RECORD).read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        raise LaptopError(f"{folder} is no backup: it has no {RECORD}") from None
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise LaptopError(f"{folder / RECORD} can't be read: {where}: {first['msg']}") from None
    dump = folder / DUMP
    if not dump.is_file() or objects.sha256(dump) != record.dump_sha256:
        raise LaptopError(f"{dump} is missing, or was changed since it was saved")
    if record.has_objects:
        objects.check(read_saved(folder / OBJECTS).objects, folder / OBJECTS)
    if record.fernet_key_sha256 != _fernet_fingerprint(deployment):
        raise LaptopError(
            f"the backup's connections are encrypted with another key than "
            f"{deployment.secrets / FERNET_KEY}: put that one there, then `make containers-up`"
        )
    return record


def _restore_beside(compose: Compose, dump: Path) -> None:
    """Restore into a database beside the present one, which is still in use."""
    _sql(compose, f"drop database if exists {BESIDE} with (force)", f"create database {BESIDE}")
    try:
        with dump.open("rb") as source:
            compose.feed(
                source,
                *_in_postgres("pg_restore", "--no-owner", "--exit-on-error", f"--dbname={BESIDE}"),
            )
    except LaptopError:
        _sql(compose, f"drop database if exists {BESIDE} with (force)")
        raise


def _sql(compose: Compose, *statements: str) -> None:
    commands = [part for statement in statements for part in ("--command", statement)]
    compose.output(
        *_in_postgres("psql", "--quiet", "--set=ON_ERROR_STOP=1", "--dbname=postgres", *commands)
    )


def _in_postgres(program: str, *arguments: str) -> list[str]:
    return ["exec", "-T", "postgres", program, "--username=airflow", *arguments]


@contextmanager
def _told(what: str) -> Iterator[None]:
    """Raise LaptopError where the local cloud fails."""
    try:
        yield
    except (BotoCoreError, ClientError) as error:
        raise LaptopError(f"{what}; see `docker compose logs {LOCAL_CLOUD}`: {error}") from error


def _require_database(compose: Compose) -> None:
    address = compose.deployment.secrets / secret_files.DATABASE
    if address.exists() and urlsplit(address.read_text().strip()).hostname != "postgres":
        raise LaptopError(
            f"{address} names a database of your own: save and restore that with its own tools"
        )
    if not compose.is_running("postgres"):
        raise LaptopError("the database does not run: `make containers-up` first")


def _fernet_fingerprint(deployment: Deployment) -> str:
    try:
        key = (deployment.secrets / FERNET_KEY).read_bytes()
    except FileNotFoundError:
        raise LaptopError(
            f"{deployment.secrets / FERNET_KEY} is missing: `make containers-up` first"
        ) from None
    return hashlib.sha256(key).hexdigest()
