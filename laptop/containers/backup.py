"""Implements `make containers-backup` and `make containers-restore`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from botocore.exceptions import BotoCoreError, ClientError
from pydantic import BaseModel, ConfigDict, ValidationError

from batchmark.core import formatting
from laptop.aws import AwsClients
from laptop.containers import bucket
from laptop.containers.cloud import VOLUME
from laptop.containers.compose import (
    AIRFLOW,
    LOCAL_CLOUD,
    Compose,
    Deployment,
    version,
    with_published_ports,
)
from laptop.containers.lifecycle import compose_for, locked, wait_until_healthy
from laptop.containers.secret_files import DATABASE_URL, FERNET_KEY
from laptop.errors import LaptopError
from laptop.session import Clock

DUMP = "airflow.dump"
RECORD = "backup.json"
OBJECTS = "objects"
DATABASE = "airflow"
RESTORED_DATABASE = "airflow_restored"


class Backup(BaseModel):
    """A backup's record. It is written last, so an incomplete backup has none."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    format: Literal[1] = 1
    version: str
    made_at: datetime
    dump_sha256: str
    fernet_key_sha256: str
    has_objects: bool


def backup(deployment: Deployment, folder: Path) -> None:
    """Back up Airflow's database, and a running local cloud's bucket, to a new or empty folder.

    Raises:
        LaptopError: the folder is not empty, or a service is not running or fails.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise LaptopError(f"{folder} already exists and is not empty: choose a new folder")
    with locked(deployment):
        clock = Clock()
        deployment = with_published_ports(deployment)
        compose = Compose(deployment)
        _require_database(compose)
        has_objects = compose.is_running(LOCAL_CLOUD)
        if not has_objects and deployment.profile == "local" and compose.has_volume(VOLUME):
            raise LaptopError(
                "the local cloud, which holds the bucket, is not running: run `make "
                "containers-up` first, or back up only the database with PROFILE=aws"
            )
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o700)
        with (folder / DUMP).open("wb") as dump:
            command = _in_postgres("pg_dump", "--format=custom", f"--dbname={DATABASE}")
            compose.output(*command, stdout=dump)
        clock.say(f"database: {(folder / DUMP).stat().st_size / 2**20:.1f} MiB saved")
        if has_objects:
            failed = "backing up the bucket failed: try again with a new folder"
            with _clients(deployment, failed) as aws:
                count = bucket.save(aws.client("s3"), aws.config().bucket, folder / OBJECTS)
            clock.say(f"bucket: {formatting.count(count, 'object')} saved")
        record = Backup(
            version=version(),
            made_at=datetime.now(UTC),
            dump_sha256=bucket.sha256(folder / DUMP),
            fernet_key_sha256=_fernet_key_sha256(deployment),
            has_objects=has_objects,
        )
        (folder / RECORD).write_text(record.model_dump_json(indent=1))
    print(
        f"backed up to {folder}; also keep a copy of {deployment.secrets / FERNET_KEY} in a "
        "separate place"
    )


def restore(deployment: Deployment, folder: Path) -> None:
    """Restore Airflow's database, and the local cloud's bucket if there is one, from a backup.

    Raises:
        LaptopError: the backup is damaged or was made with another key, or a service is not
            running (nothing was changed); or a later step failed, such as restoring the bucket.
    """
    record = read_backup(folder, deployment)
    with locked(deployment):
        clock = Clock()
        deployment = with_published_ports(deployment)
        compose = compose_for(deployment)
        _require_database(compose)
        if record.has_objects and not compose.is_running(LOCAL_CLOUD):
            raise LaptopError(
                "the backup includes a local cloud's bucket, but no local cloud is running: run "
                "`make containers-up` first"
            )
        _restore_beside(compose, folder / DUMP)  # a bad dump fails here, before anything is changed
        compose("stop", *AIRFLOW)
        try:
            _sql(
                compose,
                f"drop database if exists {DATABASE} with (force)",
                f"alter database {RESTORED_DATABASE} rename to {DATABASE}",
            )
            clock.say("database: restored")
            if record.has_objects:
                failed = "the database is restored, but restoring the bucket failed: try again"
                with _clients(deployment, failed) as aws:
                    count = bucket.put_back(aws.client("s3"), aws.config().bucket, folder / OBJECTS)
                clock.say(f"bucket: {formatting.count(count, 'object')} restored")
        except BaseException:
            with suppress(LaptopError):  # report the first error
                wait_until_healthy(compose)
            raise
        wait_until_healthy(compose)  # upgrades the schema of an older Airflow
        clock.say(f"Airflow: healthy again at {deployment.url}")


def read_backup(folder: Path, deployment: Deployment) -> Backup:
    """Return a backup's record; check that its files are unchanged and the Fernet key is the same.

    Raises:
        LaptopError: a file is missing, invalid or changed, or the Fernet key differs.
    """
    try:
        record = Backup.model_validate_json((folder / RECORD).read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        raise LaptopError(f"{folder} is not a backup: it contains no {RECORD}") from None
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise LaptopError(f"{folder / RECORD} can't be read: {where}: {first['msg']}") from None
    dump = folder / DUMP
    if not dump.is_file() or bucket.sha256(dump) != record.dump_sha256:
        raise LaptopError(f"{dump} is missing, or has changed since it was saved")
    if record.has_objects:
        bucket.check(folder / OBJECTS)
    if record.fernet_key_sha256 != _fernet_key_sha256(deployment):
        raise LaptopError(
            "the backup's connections are encrypted with a different key from the one in "
            f"{deployment.secrets / FERNET_KEY}: put the backup's key there, then run `make "
            "containers-up`"
        )
    return record


def _restore_beside(compose: Compose, dump: Path) -> None:
    """Restore the dump into a second database while the first one stays in use."""
    remove = f"drop database if exists {RESTORED_DATABASE} with (force)"
    _sql(compose, remove, f"create database {RESTORED_DATABASE}")
    command = ("pg_restore", "--no-owner", "--exit-on-error", f"--dbname={RESTORED_DATABASE}")
    try:
        with dump.open("rb") as source:
            compose.output(*_in_postgres(*command), stdin=source)
    except LaptopError:
        _sql(compose, remove)
        raise


def _sql(compose: Compose, *statements: str) -> None:
    commands = [part for statement in statements for part in ("--command", statement)]
    compose.output(
        *_in_postgres("psql", "--quiet", "--set=ON_ERROR_STOP=1", "--dbname=postgres", *commands)
    )


def _in_postgres(program: str, *arguments: str) -> list[str]:
    return ["exec", "-T", "postgres", program, "--username=airflow", *arguments]


@contextmanager
def _clients(deployment: Deployment, failed: str) -> Iterator[AwsClients]:
    """Yield clients for the local cloud; turn errors into a LaptopError prefixed with `failed`."""
    try:
        with closing(AwsClients(deployment.aws)) as aws:
            yield aws
    except (BotoCoreError, ClientError) as error:
        raise LaptopError(f"{failed}; see `docker compose logs {LOCAL_CLOUD}`: {error}") from error


def _require_database(compose: Compose) -> None:
    url = compose.deployment.secrets / DATABASE_URL
    if url.exists() and urlsplit(url.read_text().strip()).hostname != "postgres":
        raise LaptopError(
            f"{url} points to your own database: use its own tools to back it up or restore it"
        )
    if not compose.is_running("postgres"):
        raise LaptopError("the database is not running: run `make containers-up` first")


def _fernet_key_sha256(deployment: Deployment) -> str:
    path = deployment.secrets / FERNET_KEY
    if not path.exists():
        raise LaptopError(f"{path} is missing: run `make containers-up` first")
    return bucket.sha256(path)
