"""Imports the S3 objects in a file system's data repository as files."""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import urlsplit

from moto.s3.models import FakeKey, s3_backends

FILE_MODE = 0o755  # FSx's default, for objects that specify none


class RepositoryError(Exception):
    """Raised when the objects can't be imported."""


def parts_of(path: str) -> tuple[str, str]:
    """Return the bucket and prefix in a path of the form `s3://bucket/prefix/`."""
    parts = urlsplit(path)
    prefix = parts.path.strip("/")
    return parts.netloc, f"{prefix}/" if prefix else ""


def bucket_exists(account: str, path: str) -> bool:
    bucket, _ = parts_of(path)
    return bucket in s3_backends[account]["aws"].buckets


def missing_bucket(path: str) -> str:
    """Return FSx's message for a bucket that does not exist."""
    return f"the bucket {parts_of(path)[0]} does not exist, or FSx is not allowed to access it"


def import_objects(account: str, path: str, folder: Path) -> None:
    """Copy a repository's objects to a folder, using their keys without the prefix as paths.

    Raises:
        RepositoryError: the bucket no longer exists, or a file can't be written, for example
            because the file system is full.
    """
    name, prefix = parts_of(path)
    bucket = s3_backends[account]["aws"].buckets.get(name)
    if bucket is None:
        raise RepositoryError(missing_bucket(path))
    for key in list(bucket.keys.values()):
        if isinstance(key, FakeKey) and key.name.startswith(prefix) and key.name != prefix:
            below = key.name.removeprefix(prefix)
            steps = below.removesuffix("/").split("/")
            if not {"", ".", ".."} & set(steps):  # names that no file system allows
                write(folder.joinpath(*steps), key, is_folder=below.endswith("/"))


def write(path: Path, key: FakeKey, *, is_folder: bool) -> None:
    """Write an object atomically, as a file or a folder."""
    part = path.with_name(f".{path.name}.part")
    try:
        if is_folder:
            path.mkdir(parents=True, exist_ok=True)
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        part.write_bytes(key.value)
        part.chmod(FILE_MODE)
        os.replace(part, path)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise RepositoryError(f"{path.name} can't be imported: {error.strerror}") from error
