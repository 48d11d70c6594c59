"""Whose credentials these are, and what is done where they end before a check does."""

from datetime import UTC, datetime, timedelta
from unittest.mock import Mock

import boto3
import pytest
from botocore.credentials import Credentials, EnvProvider, RefreshableCredentials
from botocore.exceptions import ClientError, EndpointConnectionError, UnauthorizedSSOTokenError

from laptop.aws_check import command
from laptop.aws_check.account import Account, find_account, refuse_free_plan
from laptop.aws_check.credentials import explain_expiry, refuse_ending
from laptop.aws_check.step import StepError
from laptop.errors import LaptopError
from laptop.stack import REGION

ROLE = "arn:aws:iam::123456789012:role/teams/deployer"


def caller(clients, arn):
    answer = {"Account": "123456789012", "Arn": arn, "UserId": "AIDA"}
    clients.answer("sts", "get_caller_identity", answer)


def test_a_session_is_its_role_with_its_path_a_user_its_own_and_root_is_refused(clients):
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


def test_of_fixed_credentials_the_end_counts_as_far_as_it_is_known(monkeypatch, tmp_path):
    """They are found in the environment as AWS clients find them."""
    for name in ("AWS_PROFILE", *EnvProvider.TOKENS, EnvProvider.EXPIRY_TIME):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))

    def said(**variables):
        for name, value in variables.items():
            monkeypatch.setenv(f"AWS_{name}", value)
        monkeypatch.setattr(boto3, "DEFAULT_SESSION", boto3.Session(region_name=REGION))
        lines = []
        refuse_ending(lines.append)
        return lines

    assert said(ACCESS_KEY_ID="ASIATEST", SECRET_ACCESS_KEY="secret") == [], "a user's"
    (warning,) = said(SESSION_TOKEN="token")
    assert "warning: nothing says when these temporary credentials expire" in warning
    assert "a check may take 3 hours" in warning
    assert "set AWS_CREDENTIAL_EXPIRATION to have that checked" in warning
    assert "set AWS_PROFILE=NAME and unset AWS_ACCESS_KEY_ID" in warning
    lasting, ending = ((datetime.now(UTC) + timedelta(hours=h)).isoformat() for h in (3.5, 2.5))
    assert said(CREDENTIAL_EXPIRATION=lasting) == [f"the credentials expire at {lasting}"]
    with pytest.raises(
        LaptopError, match=r"expire at 2.*, and a check may take 3 hours: use a profile"
    ):
        said(CREDENTIAL_EXPIRATION=ending)


@pytest.mark.parametrize("method", ["assume-role", "sso", "custom-process", "iam-role"])
def test_those_that_botocore_gets_anew_are_not_refused_nor_warned_of_as_a_files(
    monkeypatch, method
):
    soon = datetime.now(UTC) + timedelta(hours=0.5)
    renewed = RefreshableCredentials("ASIATEST", "secret", "token", soon, dict, method)
    fixed = Credentials("ASIATEST", "secret", "token", "shared-credentials-file")
    session, said = Mock(), Mock()
    session.get_credentials.side_effect = [renewed, fixed]
    monkeypatch.setattr(boto3, "DEFAULT_SESSION", session)
    refuse_ending(said)
    said.assert_not_called()
    refuse_ending(said)
    said.assert_called_once()


def client_error(code):
    return ClientError({"Error": {"Code": code, "Message": "no"}}, "GetCallerIdentity")


@pytest.mark.parametrize(
    ("error", "ended"),
    [
        (client_error("ExpiredToken"), True),
        (client_error("ExpiredTokenException"), True),
        (UnauthorizedSSOTokenError(), True),
        (RuntimeError("the refreshed credentials are still expired."), True),
        (client_error("Throttling"), False),
        (EndpointConnectionError(endpoint_url="https://sts"), False),
        (None, False),
    ],
)
@pytest.mark.parametrize("step", [0, 1])
def test_what_ends_a_check_tells_that_credentials_have_ended(monkeypatch, error, ended, step):
    for step_name in ("destroy", "nothing_left"):
        monkeypatch.setattr(command, step_name, Mock(side_effect=StepError("left: s3 a")))
    clients = Mock()  # STS as it answers while something else fails
    clients.return_value.get_caller_identity.side_effect = error
    steps = command.end_steps(Mock(clients=clients))
    go_on = (
        r"have expired: renew them, then run `make aws-check DESTROY=yes`\. left"
        if ended
        else "^left"
    )
    for _ in range(2):  # as of a second start in the same process
        with pytest.raises(StepError, match=go_on):
            steps[step].look()
    with explain_expiry(pytest.fail, "what went well asks nobody"):
        pass
