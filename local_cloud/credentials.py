"""Reads or creates the file with the secret that AWS clients use to sign their requests."""

from __future__ import annotations

import configparser
import os
import secrets
from pathlib import Path

PROFILE = "default"
SECRET = "aws_secret_access_key"  # noqa: S105 - the name of a field


class CredentialsError(Exception):
    """Raised when the credentials file can't be used."""


def read_or_make(path: Path) -> str:
    """Return the secret in an AWS credentials file; if the file is missing, create a private one.

    Raises:
        CredentialsError: the file can't be read or written, or its profile `default` has no secret.
    """
    try:
        return _made(path)
    except FileExistsError:
        return _secret_in(path)
    except OSError as error:
        raise CredentialsError(f"{path} can't be written: {error.strerror}") from error


def _made(path: Path) -> str:
    secret = secrets.token_urlsafe(30)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with open(descriptor, "w", encoding="utf-8") as file:
        file.write(f"[{PROFILE}]\naws_access_key_id = local\n{SECRET} = {secret}\n")
    return secret


def _secret_in(path: Path) -> str:
    parser = configparser.RawConfigParser()
    try:
        parser.read_string(path.read_text(encoding="utf-8"))
        secret = parser.get(PROFILE, SECRET)
    except OSError as error:
        raise CredentialsError(f"{path} can't be read: {error.strerror}") from error
    except (configparser.Error, UnicodeDecodeError):
        secret = ""
    if not secret:
        raise CredentialsError(
            f"{path} has no {SECRET} in its {PROFILE} profile: delete the file or choose another"
        )
    return secret
