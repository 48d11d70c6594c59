"""Generates a deployment's random passwords and keys once, in files that git ignores."""

from __future__ import annotations

import base64
import configparser
import json
import os
import secrets
from collections.abc import Callable, Mapping
from pathlib import Path

from laptop.airflow import USER
from laptop.errors import LaptopError
from laptop.private_files import make_private, write_private
from laptop.stack import credentials_file

FERNET_KEY = "fernet_key"
PASSWORDS = "airflow_passwords"
POSTGRES_PASSWORD = "postgres_password"  # noqa: S105 - the name of a file
DATABASE_URL = "sql_alchemy_conn"
AWS_FILES = "aws"
CLOUD_CREDENTIALS = "local_cloud_credentials"
# Readable by all, as containers run as other users; the folder keeps other users out.
READABLE = 0o644
# Every container has this group, whatever its user, to write Airflow's logs.
GROUP = 10001


def make_missing(folder: Path, *, database_is_there: bool) -> None:
    """Create any secrets that are missing from `folder`; leave the others as they are.

    Containers read these files as another user, so everyone may read the files, but only the
    owner may open the folder.

    Raises:
        LaptopError: there is a database, but its password is missing.
    """
    if database_is_there and not (folder / POSTGRES_PASSWORD).exists():
        raise LaptopError(
            "there is a database, but its password is missing: restore the file "
            f"{folder / POSTGRES_PASSWORD}, or delete the database and all of Airflow's runs "
            "with `make containers-down VOLUMES=delete`"
        )
    makers: Mapping[str, Callable[[], str]] = {
        POSTGRES_PASSWORD: lambda: secrets.token_urlsafe(24),
        # It contains the password, which exists by then.
        DATABASE_URL: lambda: (
            "postgresql+psycopg2://airflow:"
            f"{(folder / POSTGRES_PASSWORD).read_text().strip()}@postgres/airflow"
        ),
        FERNET_KEY: lambda: base64.urlsafe_b64encode(secrets.token_bytes(32)).decode(),
        "jwt_secret": lambda: secrets.token_urlsafe(48),
        "api_secret_key": lambda: secrets.token_urlsafe(24),
        PASSWORDS: lambda: json.dumps({USER: secrets.token_urlsafe(12)}),
        CLOUD_CREDENTIALS: lambda: credentials_file("airflow", secrets.token_urlsafe(30)),
    }
    make_private(folder)
    for name, make in makers.items():
        path = folder / name
        if not path.exists():
            write_private(path, make(), READABLE)


def cloud_secret(folder: Path) -> str:
    """Return the secret used to sign requests to the local cloud.

    Raises:
        LaptopError: the secret is missing.
    """
    path = folder / CLOUD_CREDENTIALS
    parser = configparser.RawConfigParser()
    try:
        parser.read_string(path.read_text())
        return parser.get("default", "aws_secret_access_key")
    except (OSError, configparser.Error) as error:
        raise LaptopError(
            f"{path} can't be read ({error}); `make containers-up` creates it if it is missing"
        ) from error


def aws_folder(folder: Path, env: Mapping[str, str]) -> tuple[Path, str]:
    """Return the folder with the caller's AWS credentials, and the `uid:gid` that can read it.

    Keys in the environment are written to a file, because anyone with access to the engine can read
    a container's environment.

    Raises:
        LaptopError: credentials are missing or incomplete, or only root can read them.
    """
    copy = folder / AWS_FILES
    if env.get("AWS_ACCESS_KEY_ID"):
        if not env.get("AWS_SECRET_ACCESS_KEY"):
            raise LaptopError("AWS_ACCESS_KEY_ID is set without AWS_SECRET_ACCESS_KEY: set both")
        names = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")
        lines = [f"{name.lower()} = {env[name]}" for name in names if env.get(name)]
        make_private(folder)
        copy.mkdir(exist_ok=True)
        copy.chmod(0o755)
        write_private(copy / "credentials", "\n".join(["[default]", *lines, ""]), READABLE)
        return copy, f"10001:{GROUP}"
    own = Path(env.get("HOME", "~")).expanduser() / ".aws"
    if not own.is_dir():
        raise LaptopError(
            "no AWS credentials found: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or create "
            f"{own}"
        )
    if os.getuid() == 0:
        raise LaptopError(
            f"only root can read {own}, but none of the containers runs as root: set "
            "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or run this as another user"
        )
    return own, f"{os.getuid()}:{GROUP}"
