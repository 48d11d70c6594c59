"""The result bucket in moto."""

from __future__ import annotations

from typing import TYPE_CHECKING

import boto3
import pytest
from moto import mock_aws

from tests.unit.history.builders import REGION, ResultBucket

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[ResultBucket]:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    monkeypatch.delenv("AWS_ENDPOINT_URL", raising=False)
    with mock_aws():
        yield ResultBucket(boto3.client("s3", region_name=REGION))
