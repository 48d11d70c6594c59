"""The account to check, or a local cloud standing in for one."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from datetime import UTC, datetime
from typing import NamedTuple

from batchmark.aws.batch_targets import NO_ANSWER
from batchmark.aws.boto_clients import Clients
from batchmark.aws.price_list import fetch_prices, price_clients
from batchmark.aws.result_bucket import is_aws
from batchmark.core.errors import PriceError
from batchmark.core.prices import PriceTable, committed_prices
from laptop.aws_check.credentials import ENDED
from laptop.errors import LaptopError

FREE_TIER_REGION = "us-east-1"  # the only region of the Free Tier API


class Account(NamedTuple):
    id: str
    region: str
    principal_arn: str  # IAM user or role of these credentials
    on_aws: bool


def find_account(clients: Clients, region: str) -> Account:
    """Identify the account and the caller.

    Raises:
        LaptopError: the account can't be accessed, or the credentials belong to its root user.
    """
    try:
        sts = clients("sts")
        caller = sts.get_caller_identity()
        principal = _principal(clients, str(caller["Arn"]))
    except (*NO_ANSWER, ENDED) as error:
        raise LaptopError(
            f"can't access an AWS account in {region}: {error}. Set credentials, for example with "
            "AWS_PROFILE=NAME"
        ) from error
    return Account(str(caller["Account"]), region, principal, is_aws(sts))


def _principal(clients: Clients, arn: str) -> str:
    """Return the ARN of the user or of the session's role, including the role's path."""
    if arn.endswith(":root"):
        raise LaptopError(
            "these credentials belong to the account's root user, which can't assume Airflow's "
            "role: use the credentials of an IAM user or role"
        )
    if ":assumed-role/" in arn:
        return str(clients("iam").get_role(RoleName=arn.split("/")[1])["Role"]["Arn"])
    return arn.replace(":sts:", ":iam:")  # a local cloud's user


def refuse_free_plan(clients: Clients) -> None:
    """Refuse an account on AWS's Free plan, on which EC2 starts only a few small instance types.

    If AWS does not report the plan, the account passes.

    Args:
        clients: clients for FREE_TIER_REGION.

    Raises:
        LaptopError: the account is on the Free plan.
    """
    with suppress(*NO_ANSWER):
        plan = clients("freetier").get_account_plan_state()
        if plan["accountPlanType"] == "FREE":
            raise LaptopError(
                "the account is on the AWS Free plan, on which EC2 does not start GPU or large "
                "instances: upgrade it to the Paid plan first (in the AWS console, under Billing "
                "and Cost Management)"
            )


def prices_of(region: str, instance_types: Iterable[str]) -> PriceTable:
    """Return these instance types' current prices or, if unavailable, those in this repository."""
    now = datetime.now(UTC)
    try:
        return fetch_prices(
            *price_clients(region),
            region=region,
            instance_types=tuple(instance_types),
            now=now,
        )
    except (PriceError, *NO_ANSWER) as error:
        return committed_prices(region, str(error), now)
