"""Saves the result bucket's objects as files in a backup, and restores them."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from laptop.errors import LaptopError

LIST = "objects.json"


class SavedObject(BaseModel):
    """A saved object; `file` names the file with its content, next to `objects.json`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    key: str
    file: str
    sha256: str
    content_type: str


class SavedBucket(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    bucket: str
    objects: tuple[SavedObject, ...]


def save(s3: Any, bucket: str, folder: Path) -> int:
    """Write the newest version of every object to `folder`; return the number of objects."""
    folder.mkdir(parents=True, exist_ok=True)
    saved = []
    for number, key in enumerate(keys(s3, bucket)):
        answer = s3.get_object(Bucket=bucket, Key=key)
        path = folder / str(number)  # a key may not be a valid file name
        path.write_bytes(answer["Body"].read())
        saved.append(
            SavedObject(
                key=key,
                file=path.name,
                sha256=sha256(path),
                content_type=answer["ContentType"],
            )
        )
    record = SavedBucket(bucket=bucket, objects=tuple(saved))
    (folder / LIST).write_text(record.model_dump_json(indent=1))
    return len(saved)


def check(folder: Path) -> None:
    """Raise LaptopError unless `folder` holds the list and every object on it, unchanged."""
    for entry in _read_list(folder).objects:
        path = folder / entry.file
        if path.name != entry.file or not path.is_file():
            raise LaptopError(f"{path}, the content of {entry.key}, is missing")
        if sha256(path) != entry.sha256:
            raise LaptopError(f"{path}, the content of {entry.key}, has changed since it was saved")


def put_back(s3: Any, bucket: str, folder: Path) -> int:
    """Make the bucket's contents match the folder's; return the number of objects."""
    saved = {entry.key: entry for entry in _read_list(folder).objects}
    for entry in saved.values():
        s3.put_object(
            Bucket=bucket,
            Key=entry.key,
            Body=(folder / entry.file).read_bytes(),
            ContentType=entry.content_type,
        )
    for key in keys(s3, bucket):
        if key not in saved:
            s3.delete_object(Bucket=bucket, Key=key)
    return len(saved)


def keys(s3: Any, bucket: str) -> list[str]:
    pages = s3.get_paginator("list_objects_v2").paginate(Bucket=bucket)
    return [found["Key"] for page in pages for found in page.get("Contents", ())]


def sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _read_list(folder: Path) -> SavedBucket:
    path = folder / LIST
    try:
        return SavedBucket.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        raise LaptopError(f"{path} is missing") from None
    except ValidationError as error:
        raise LaptopError(
            f"{path} is not a valid list of objects: {error.errors()[0]['msg']}"
        ) from None
