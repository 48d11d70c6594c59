"""S3 as a file system's data repository: the objects below a prefix, as files of a folder."""

from __future__ import annotations

import os
import shutil
from collections.abc import Collection, Iterator
from pathlib import Path, PurePosixPath
from urllib.parse import urlsplit

from moto.s3.models import FakeKey, s3_backends

SCHEME = "s3"
FILE_MODE = 0o755  # FSx's, for objects that name no other
EVENTS = ("NEW", "CHANGED", "DELETED")


class RepositoryError(Exception):
    """The objects can't be imported."""


def parts_of(path: str) -> tuple[str, str]:
    """The bucket and prefix of `s3://bucket/prefix/`; an empty bucket where it is no such path."""
    parts = urlsplit(path)
    prefix = parts.path.strip("/")
    if parts.scheme != SCHEME or parts.query or parts.fragment:
        return "", ""
    return parts.netloc, f"{prefix}/" if prefix else ""


def bucket_exists(account: str, path: str) -> bool:
    bucket, _ = parts_of(path)
    return bucket in s3_backends[account]["aws"].buckets


def objects(account: str, path: str) -> dict[str, FakeKey]:
    """The objects of a repository, by their names below its prefix.

    Raises:
        RepositoryError: the bucket is gone.
    """
    name, prefix = parts_of(path)
    bucket = s3_backends[account]["aws"].buckets.get(name)
    if bucket is None:
        raise RepositoryError(f"The bucket {name} does not exist, or FSx may not access it")
    return {
        key.name.removeprefix(prefix): key
        for key in list(bucket.keys.values())
        if isinstance(key, FakeKey) and key.name.startswith(prefix) and key.name != prefix
    }


def versions(found: dict[str, FakeKey]) -> dict[str, str]:
    """What tells an object from its next version, by name."""
    return {name: str(key.etag) for name, key in found.items()}


def import_changes(
    found: dict[str, FakeKey], known: dict[str, str], folder: Path, events: Collection[str]
) -> None:
    """Bring a folder up to date with the objects, as far as these events are to be imported.

    Raises:
        RepositoryError: a file can't be written, as where the file system is full.
    """
    now = versions(found)
    for event, names in (
        ("NEW", now.keys() - known.keys()),
        ("CHANGED", {name for name in now.keys() & known.keys() if now[name] != known[name]}),
        ("DELETED", known.keys() - now.keys()),
    ):
        for name in sorted(names) if event in events else ():
            for path in as_path(folder, name):
                if event == "DELETED":
                    remove(path)
                else:
                    write(path, found[name], is_folder=name.endswith("/"))


def as_path(folder: Path, name: str) -> Iterator[Path]:
    """The file of an object; none for a name that no file system has."""
    steps = name.removesuffix("/").split("/")
    if not {"", ".", ".."} & set(steps):
        yield folder / PurePosixPath(*steps)


def write(path: Path, key: FakeKey, *, is_folder: bool) -> None:
    """Write an object's content; nobody sees half of it."""
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


def remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)
