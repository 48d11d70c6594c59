"""An empty AWS account by moto, and no other within reach."""

from contextlib import contextmanager
from functools import cache

import boto3
import pytest
from moto import mock_aws

# moto answers clients that were made before it, too, and making one takes 40 ms.
moto_client = cache(boto3.client)


@contextmanager
def moto_account():
    with pytest.MonkeyPatch.context() as patch, mock_aws():
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            patch.setenv(name, "test")
        patch.delenv("AWS_ENDPOINT_URL", raising=False)
        yield
