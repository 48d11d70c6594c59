"""Writes the result document to a local file or an object in S3."""

from __future__ import annotations

import contextlib
import os
import re
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from batchmark_job.errors import InputError, OutputError, one_line
from batchmark_job.result.values import BY_HAND


class Output(Protocol):
    """A destination for one document."""

    def check(self) -> None:
        """Check that the document can be written, without leaving anything behind.

        Raises:
            InputError: the document can't be written there.
        """

    def write(self, text: str, *, hurried: bool = False) -> None:
        """Write the whole document or nothing; `hurried` means the process will soon be killed.

        Raises:
            OutputError: the document was not written.
        """


def parse_output(address: str, job_id: str, job_attempt: int) -> Output:
    """Parse an output address; one that ends in "/" names a folder.

    A job outside Batch has no id, so in a local folder its file gets the first free number.
    """
    if not address.strip():
        raise InputError("--output is empty; specify a file or s3://bucket/key")
    if address.endswith("/"):
        folder, address = address, address + document_name(job_id, job_attempt)
        while job_id == BY_HAND and "://" not in address and Path(address).exists():
            job_attempt += 1
            address = folder + document_name(job_id, job_attempt)
    if "://" not in address:
        return FileOutput(Path(address))
    parts = urlsplit(address)
    key = parts.path.lstrip("/")
    if parts.scheme != "s3" or not parts.netloc or not key:
        raise InputError(
            f"--output {address!r} is neither a file nor an S3 object; specify a file or "
            "s3://bucket/key"
        )
    return S3Output(parts.netloc, key, may_replace=job_id == BY_HAND)


def document_name(job_id: str, job_attempt: int) -> str:
    """Return a document's file name, replacing the ":" or "#" in array and multi-node job ids."""
    return f"{re.sub(r'[^A-Za-z0-9._-]', '_', job_id)}.{job_attempt}.json"


@dataclass(frozen=True)
class FileOutput:
    path: Path

    def __str__(self) -> str:
        return str(self.path)

    def check(self) -> None:
        folder = self.path.absolute().parent
        try:
            if self.path.is_dir():
                raise InputError(
                    f"--output {self.path} is a folder; add a trailing '/' or name a file"
                )
            if _is_written_through(self.path):
                with self.path.open("ab"):
                    return
            while not folder.exists():
                folder = folder.parent
            with tempfile.TemporaryFile(dir=folder):
                pass
        except OSError as error:
            raise InputError(
                f"--output {self.path}: can't write to {folder} ({error.strerror}); choose "
                "another place"
            ) from error

    def write(self, text: str, *, hurried: bool = False) -> None:  # noqa: ARG002
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            write_whole(self.path, text.encode())
        except OSError as error:
            raise OutputError(f"could not write {self.path}: {error}") from error


@dataclass(frozen=True)
class S3Output:
    bucket: str
    key: str
    may_replace: bool = False  # an existing object is kept

    def __str__(self) -> str:
        return f"s3://{self.bucket}/{self.key}"

    def check(self) -> None:
        """Start and abort an upload, which needs write permission but leaves no object.

        A denied request fails at once; one that gets no response is retried several times.
        """
        target = {"Bucket": self.bucket, "Key": self.key}
        try:
            client = s3_client(attempts=8, timeout_seconds=5)
            upload = client.create_multipart_upload(**target)
        except (BotoCoreError, ClientError, ValueError) as error:
            raise InputError(
                f"--output {self}: can't write there ({one_line(error)}); check the bucket's "
                "name, the credentials and AWS_ENDPOINT_URL"
            ) from error
        with contextlib.suppress(BotoCoreError, ClientError):
            client.abort_multipart_upload(**target, UploadId=upload["UploadId"])

    def write(self, text: str, *, hurried: bool = False) -> None:
        try:
            # Batch kills a container 30 s after SIGTERM. Otherwise twelve attempts outlast half a
            # minute of refusals (botocore waits 75 s between them on average).
            client = (
                s3_client(attempts=2, timeout_seconds=5)
                if hurried
                else s3_client(attempts=12, timeout_seconds=30)
            )
            client.put_object(
                Bucket=self.bucket,
                Key=self.key,
                Body=text.encode(),
                ContentType="application/json",
                # The job role may not write without it.
                **({} if self.may_replace else {"IfNoneMatch": "*"}),
            )
        except (BotoCoreError, ClientError, ValueError) as error:
            if not _was_written(error):
                raise OutputError(f"could not write {self}: {one_line(error)}") from error


def _was_written(error: Exception) -> bool:
    """Return whether an earlier attempt wrote the object but its response was lost."""
    if not isinstance(error, ClientError):
        return False
    is_there = error.response["Error"]["Code"] == "PreconditionFailed"
    return is_there and bool(error.response.get("ResponseMetadata", {}).get("RetryAttempts"))


def write_whole(path: Path, content: bytes) -> None:
    """Write a file completely, or leave it unchanged; a device, pipe or link is written through.

    Raises:
        OSError: the file was not written.
    """
    if _is_written_through(path):
        path.write_bytes(content)
        return
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def _is_written_through(path: Path) -> bool:
    """Return whether what is there, such as /dev/null, must not give way to a new file."""
    return path.is_symlink() or (path.exists() and not path.is_file())


def s3_client(*, attempts: int, timeout_seconds: int) -> Any:
    custom_endpoint = any(
        os.environ.get(name) for name in ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3")
    )
    config = Config(
        retries={"mode": "standard", "total_max_attempts": attempts},
        connect_timeout=min(5, timeout_seconds),
        read_timeout=timeout_seconds,
        s3={"addressing_style": "path"} if custom_endpoint else {},
    )
    return boto3.client("s3", config=config)
