"""Places where an image set can be stored: a folder, or a prefix in an S3 bucket."""

from __future__ import annotations

import errno
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit

from botocore.exceptions import BotoCoreError, ClientError

from batchmark_job.errors import InputError, OutputError, one_line
from batchmark_job.output import s3_client, write_whole

ATTEMPTS, TIMEOUT_SECONDS = 8, 60


class Place(Protocol):
    def names(self) -> set[str]:
        """Return the names of all files in this place.

        Raises:
            InputError: the files can't be listed.
        """

    def read(self, name: str) -> bytes:
        """Return the content of a file.

        Raises:
            OutputError: the file can't be read.
        """

    def write(self, name: str, content: bytes) -> None:
        """Write a file completely, or leave it unchanged.

        Raises:
            OutputError: the file was not written.
        """


def parse_place(address: str) -> Place:
    if not address.strip():
        raise InputError("--to is empty; specify a folder or s3://bucket/prefix/")
    if "://" not in address:
        return Folder(Path(address))
    parts = urlsplit(address)
    if parts.scheme != "s3" or not parts.netloc or parts.query or parts.fragment:
        raise InputError(
            f"--to {address!r} is neither a folder nor an S3 prefix; specify a folder or "
            "s3://bucket/prefix/"
        )
    prefix = parts.path.strip("/")
    return Prefix(parts.netloc, f"{prefix}/" if prefix else "")


@dataclass(frozen=True)
class Folder:
    path: Path

    def __str__(self) -> str:
        return str(self.path)

    def names(self) -> set[str]:
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            names = {path.name for path in self.path.iterdir()}
        except OSError as error:
            raise InputError(
                f"--to {self.path}: can't use this folder ({error.strerror}); choose another place"
            ) from error
        # skip what a killed write left behind
        return {name for name in names if not name.startswith(".")}

    def read(self, name: str) -> bytes:
        try:
            return (self.path / name).read_bytes()
        except OSError as error:
            raise OutputError(f"could not read {self.path / name}: {error.strerror}") from error

    def write(self, name: str, content: bytes) -> None:
        try:
            write_whole(self.path / name, content)
        except OSError as error:
            fix = (
                "; free some space and run this again to make the missing shards"
                if error.errno == errno.ENOSPC
                else ""
            )
            raise OutputError(
                f"could not write {self.path / name}: {error.strerror}{fix}"
            ) from error


@dataclass(frozen=True)
class Prefix:
    bucket: str
    prefix: str

    def __str__(self) -> str:
        return f"s3://{self.bucket}/{self.prefix}"

    def names(self) -> set[str]:
        try:
            pages = (
                self._client()
                .get_paginator("list_objects_v2")
                .paginate(Bucket=self.bucket, Prefix=self.prefix)
            )
            keys = [each["Key"] for page in pages for each in page.get("Contents", ())]
        except (BotoCoreError, ClientError, ValueError) as error:
            raise InputError(
                f"--to {self}: can't list its files ({one_line(error)}); check the bucket name, "
                "the credentials and AWS_ENDPOINT_URL"
            ) from error
        return {key.removeprefix(self.prefix) for key in keys} - {""}

    def read(self, name: str) -> bytes:
        try:
            found = self._client().get_object(Bucket=self.bucket, Key=self.prefix + name)
            content: bytes = found["Body"].read()
        except (BotoCoreError, ClientError, ValueError) as error:
            raise OutputError(f"could not read {self}{name}: {one_line(error)}") from error
        return content

    def write(self, name: str, content: bytes) -> None:
        try:
            self._client().put_object(Bucket=self.bucket, Key=self.prefix + name, Body=content)
        except (BotoCoreError, ClientError, ValueError) as error:
            raise OutputError(f"could not write {self}{name}: {one_line(error)}") from error

    def _client(self) -> Any:
        return s3_client(attempts=ATTEMPTS, timeout_seconds=TIMEOUT_SECONDS)
