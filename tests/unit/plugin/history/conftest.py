"""The result bucket, in memory; test_store has moto's."""

import boto3
import pytest

from tests.builders.history import BUCKET, REGION, ResultBucket
from tests.stand_ins.bucket import MemoryBucket


@pytest.fixture
def bucket(monkeypatch):
    s3 = MemoryBucket(BUCKET, REGION)
    monkeypatch.setattr(boto3, "client", lambda *_, **__: s3)
    return ResultBucket(s3, s3.calls)
