"""The result bucket, in memory; test_store and test_earlier_release have moto's."""

from __future__ import annotations

from contextlib import contextmanager

import boto3
import pytest

from tests.builders.history import BUCKET, REGION, ResultBucket
from tests.stand_ins.bucket import MemoryBucket
from tests.stand_ins.moto_account import moto_account


@contextmanager
def moto_bucket():
    calls: list[tuple[str, str]] = []

    def record(params, model, **_):
        calls.append((model.name, params.get("Key") or params.get("Prefix", "")))

    with moto_account():
        s3 = boto3.client("s3", region_name=REGION)
        s3.create_bucket(Bucket=BUCKET)
        s3.meta.events.register("provide-client-params.s3", record)
        yield ResultBucket(s3, calls)


@pytest.fixture
def bucket(monkeypatch):
    s3 = MemoryBucket(BUCKET, REGION)
    monkeypatch.setattr(boto3, "client", lambda *_, **__: s3)
    return ResultBucket(s3, s3.calls)
