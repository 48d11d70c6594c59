"""The result bucket in moto."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import boto3
import pytest
from moto import mock_aws

from tests.builders.history import REGION, ResultBucket


@contextmanager
def new_bucket() -> Iterator[ResultBucket]:
    with pytest.MonkeyPatch.context() as patch, mock_aws():
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            patch.setenv(name, "test")
        patch.delenv("AWS_ENDPOINT_URL", raising=False)
        yield ResultBucket(boto3.client("s3", region_name=REGION))


@pytest.fixture
def bucket() -> Iterator[ResultBucket]:
    with new_bucket() as made:
        yield made
