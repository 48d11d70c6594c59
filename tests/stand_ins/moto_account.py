"""An empty AWS account by moto, and no other within reach."""

from contextlib import contextmanager
from functools import cache, partial

import boto3
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from moto import mock_aws
from moto.sns.models import Subscription

# moto answers clients that were made before it, too, and making one takes 40 ms. They have
# credentials of their own: whoever makes the first may have none in the environment.
ACCESS = {"aws_access_key_id": "test", "aws_secret_access_key": "test"}
moto_client = cache(partial(boto3.client, **ACCESS))


@cache
def _signing_key():
    """Of all subscriptions' messages: moto makes each a key of its own, which takes 200 ms."""
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


@contextmanager
def moto_account():
    with pytest.MonkeyPatch.context() as patch:
        # 1,301 images, which nobody asks for, and which an account that begins makes, too.
        patch.setenv("MOTO_EC2_LOAD_DEFAULT_AMIS", "false")
        patch.delenv("AWS_ENDPOINT_URL", raising=False)
        patch.setattr(Subscription, "private_key", lambda _: _signing_key())
        with mock_aws(), pytest.MonkeyPatch.context() as access:
            for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
                access.setenv(name, "test")
            yield
