"""Whether the user's credentials last until a check has destroyed what it made."""

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

CHECK_HOURS = 3  # that a check may take, with destroying; inferred
# What botocore raises beside its own errors where fixed credentials have ended.
ENDED = RuntimeError
RENEWED = (
    "give a profile, which AWS's libraries renew by themselves (AWS_PROFILE=NAME; unset "
    "AWS_ACCESS_KEY_ID, which comes before it)"
)


def refuse_ending(say: Callable[[str], None], hours: int = CHECK_HOURS) -> None:
    """Refuse fixed credentials that end within these hours; warn where their end is not known.

    Those that botocore gets anew, such as of a profile with a role or of SSO, last as long as what
    it gets them by, which it does not tell.

    Raises:
        LaptopError: they end too soon.
    """
    credentials = (boto3.DEFAULT_SESSION or boto3.Session()).get_credentials()
    if credentials is None or credentials.get_frozen_credentials().token is None:
        return  # a user's keys, which have no end
    if not isinstance(credentials, RefreshableCredentials):
        say(
            "warning: nothing tells when these temporary credentials end, and a check may take "
            f"{hours} hours: if that is sooner, {RENEWED}, or set {EnvProvider.EXPIRY_TIME}"
        )
        return
    if credentials.method != EnvProvider.METHOD:
        return
    end = f"the credentials end at {os.environ.get(EnvProvider.EXPIRY_TIME)}"
    if credentials.refresh_needed(hours * 3600):
        raise LaptopError(
            f"{end}, and a check may take {hours} hours: {RENEWED}, or those of a longer session"
        )
    say(end)


@contextmanager
def told_if_ended(clients: Clients, how_to_go_on: str) -> Iterator[None]:
    """Say of an error that the credentials have ended, where that is so.

    Raises:
        StepError: it is; the message says how to go on.
    """
    try:
        yield
    except Exception as error:
        if not _have_ended(clients):
            raise
        raise StepError(
            f"the credentials have ended: renew them, then {how_to_go_on}. {error}"
        ) from error


def _have_ended(clients: Clients) -> bool:
    """Ask what needs no permission."""
    try:
        clients("sts").get_caller_identity()
    except ClientError as error:
        return error_code(error) in EXPIRED_CODES
    except (HTTPClientError, BotocoreConnectionError):
        return False
    except (BotoCoreError, ENDED):  # botocore could get no others
        return True
    return False
