"""A check that asks scripted clients, never waits long, and needs no folder."""

from functools import partial
from types import SimpleNamespace

import pytest

from batchmark.core.prices import load_prices
from laptop.aws_check.account import Account
from laptop.aws_check.check import Check
from laptop.aws_check.step import StepError
from tests.builders.installations import configured
from tests.stand_ins.stubbed_clients import StubbedClients

REGION = "us-east-1"
ROLE = "arn:aws:iam::123456789012:role/me"


def told_by(step, *arguments):
    """Whether a step is ok, and what it says of that."""
    try:
        return True, step(*arguments).text
    except StepError as error:
        return False, str(error)


@pytest.fixture
def clients():
    return StubbedClients(REGION)


@pytest.fixture
def check_of(clients, tmp_path):
    """A check of an account, or of a local cloud, that waits for nothing."""

    def made(*, on_aws=True, parts=()):
        check = Check(
            account=Account("123456789012", REGION, ROLE, on_aws=on_aws),
            folder=tmp_path,
            clients=clients,
            prices=load_prices(),
            say=lambda _: None,
            parts=tuple(parts),
        )
        wait = partial(Check.wait, check)
        check.__dict__.update(config=configured(), terraform=SimpleNamespace(), wait=wait)
        return check

    return made
