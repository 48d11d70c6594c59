"""Whose credentials these are."""

from unittest.mock import Mock

import pytest

from laptop.aws_check.account import Account, find_account, refuse_free_plan
from laptop.errors import LaptopError

ROLE = "arn:aws:iam::123456789012:role/teams/deployer"


def caller(clients, arn):
    answer = {"Account": "123456789012", "Arn": arn, "UserId": "AIDA"}
    clients.answer("sts", "get_caller_identity", answer)


def test_a_session_is_its_role_with_its_path(clients):
    caller(clients, "arn:aws:sts::123456789012:assumed-role/deployer/jane")
    role = {
        "Path": "/teams/",
        "RoleName": "deployer",
        "RoleId": "AROA0123456789012345",
        "Arn": ROLE,
        "CreateDate": "2026-01-01T00:00:00Z",
    }
    clients.answer("iam", "get_role", {"Role": role}, {"RoleName": "deployer"})
    found = find_account(clients, "us-east-1")
    assert found == Account("123456789012", "us-east-1", ROLE, on_aws=True)


def test_a_user_is_its_own_and_the_root_user_is_refused(clients):
    user = "arn:aws:iam::123456789012:user/jane"
    caller(clients, user)
    assert find_account(clients, "us-east-1").principal_arn == user
    caller(clients, "arn:aws:iam::123456789012:root")
    with pytest.raises(LaptopError, match="use the credentials of an IAM user or role"):
        find_account(clients, "us-east-1")


def test_without_credentials_or_with_ones_that_have_ended_it_says_what_to_give(clients):
    clients.refuse("sts", "get_caller_identity", "InvalidClientTokenId", "not valid")
    lacking = r"can't access an AWS account in us-east-1: .* AWS_PROFILE=NAME"
    with pytest.raises(LaptopError, match=lacking):
        find_account(clients, "us-east-1")
    sts = Mock()
    sts.get_caller_identity.side_effect = RuntimeError("they are still expired.")
    with pytest.raises(LaptopError, match=r"still expired.* AWS_PROFILE=NAME"):
        find_account(lambda _: sts, "us-east-1")


def test_a_plan_without_such_hosts_is_refused_and_any_other_passes(clients):
    for kind in ("FREE", "PAID"):
        plan = {"accountId": "123456789012", "accountPlanStatus": "ACTIVE", "accountPlanType": kind}
        clients.answer("freetier", "get_account_plan_state", plan)
    clients.refuse("freetier", "get_account_plan_state", "AccessDeniedException", "no")
    with pytest.raises(LaptopError, match="upgrade it to the Paid plan first"):
        refuse_free_plan(clients)
    refuse_free_plan(clients)
    refuse_free_plan(clients)
