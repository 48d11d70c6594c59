"""The result bucket's objects as files, and back."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from laptop.errors import LaptopError


class StoredObject(BaseModel):
    """One object of the bucket; its content lies in the file `<number>` of the folder."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    key: str
    file: str
    sha256: str
    content_type: str


def save(s3: Any, bucket: str, folder: Path) -> list[StoredObject]:
    """Write every object's newest version below `folder`, which must be empty or not there."""
    folder.mkdir(parents=True, exist_ok=True)
    saved = []
    for number, key in enumerate(keys(s3, bucket)):
        answer = s3.get_object(Bucket=bucket, Key=key)
        content = answer["Body"].read()
        name = str(number)
        (folder / name).write_bytes(content)
        saved.append(
            StoredObject(
                key=key,
                file=name,
                sha256=hashlib.sha256(content).hexdigest(),
                content_type=answer["ContentType"],
            )
        )
    return saved


def check(objects: Iterable[StoredObject], folder: Path) -> None:
    """Raise LaptopError unless each object's file is there, and is what was saved."""
    for one in objects:
        path = folder / one.file
        if Path(one.file).name != one.file or not path.is_file():
            raise LaptopError(f"{path}, the content of {one.key}, is missing")
        if sha256(path) != one.sha256:
            raise LaptopError(f"{path}, the content of {one.key}, was changed since it was saved")


def put_back(s3: Any, bucket: str, objects: Iterable[StoredObject], folder: Path) -> None:
    """Make the bucket hold these objects and no others."""
    wanted: Mapping[str, StoredObject] = {one.key: one for one in objects}
    for one in wanted.values():
        s3.put_object(
            Bucket=bucket,
            Key=one.key,
            Body=(folder / one.file).read_bytes(),
            ContentType=one.content_type,
        )
    for key in keys(s3, bucket):
        if key not in wanted:
            s3.delete_object(Bucket=bucket, Key=key)


def keys(s3: Any, bucket: str) -> list[str]:
    pages = s3.get_paginator("list_objects_v2").paginate(Bucket=bucket)
    return [found["Key"] for page in pages for found in page.get("Contents", ())]


def sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
