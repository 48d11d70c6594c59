"""Checks that the user's credentials stay valid until a check has destroyed what it created."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import boto3
from botocore.credentials import EnvProvider, RefreshableCredentials
from botocore.exceptions import BotoCoreError, ClientError, HTTPClientError
from botocore.exceptions import ConnectionError as BotocoreConnectionError

from batchmark.aws.batch_jobs import EXPIRED_CODES
from batchmark.aws.batch_targets import error_code
from batchmark.aws.boto_clients import Clients
from laptop.aws_check.step import StepError
from laptop.errors import LaptopError

CHECK_HOURS = 3  # duration of a check including destroy; inferred
# What botocore raises besides its own errors when fixed credentials have expired.
ENDED = RuntimeError
RENEWED = (
    "use a profile, whose credentials the AWS libraries renew automatically (set AWS_PROFILE=NAME "
    "and unset AWS_ACCESS_KEY_ID, which takes precedence)"
)


def refuse_ending(say: Callable[[str], None], hours: int = CHECK_HOURS) -> None:
    """Refuse fixed credentials that expire within `hours`; warn if their expiry is unknown.

    Credentials that botocore renews, such as those from a profile with a role or SSO, always pass,
    because botocore does not report when their source expires.

    Raises:
        LaptopError: the credentials expire too soon.
    """
    credentials = (boto3.DEFAULT_SESSION or boto3.Session()).get_credentials()
    if credentials is None or credentials.get_frozen_credentials().token is None:
        return  # a user's access keys, which don't expire
    if not isinstance(credentials, RefreshableCredentials):
        say(
            "warning: nothing says when these temporary credentials expire, and a check may take "
            f"{hours} hours: set {EnvProvider.EXPIRY_TIME} to have that checked or, if they "
            f"might expire sooner, {RENEWED}"
        )
        return
    if credentials.method != EnvProvider.METHOD:
        return
    end = f"the credentials expire at {os.environ.get(EnvProvider.EXPIRY_TIME)}"
    if credentials.refresh_needed(hours * 3600):
        raise LaptopError(
            f"{end}, and a check may take {hours} hours: {RENEWED}, or use a longer session"
        )
    say(end)


@contextmanager
def explain_expiry(clients: Clients, how_to_go_on: str) -> Iterator[None]:
    """Turn an error raised in the context into one about expired credentials if they caused it.

    Raises:
        StepError: the credentials have expired; the message says how to continue.
    """
    try:
        yield
    except Exception as error:
        if not _have_ended(clients):
            raise
        raise StepError(
            f"the credentials have expired: renew them, then run {how_to_go_on}. {error}"
        ) from error


def _have_ended(clients: Clients) -> bool:
    """Return whether the credentials have expired, by making a call that needs no permission."""
    try:
        clients("sts").get_caller_identity()
    except ClientError as error:
        return error_code(error) in EXPIRED_CODES
    except (HTTPClientError, BotocoreConnectionError):
        return False
    except (BotoCoreError, ENDED):  # botocore could not renew them
        return True
    return False
