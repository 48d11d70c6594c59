"""The report that is sent: nothing in it names an account, a person or a machine."""

import getpass
import socket
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace

import pytest

from laptop.aws_check.account import Account
from laptop.aws_check.report import Report, page_of, report_of, write_report
from laptop.aws_check.scrub import scrubbed
from laptop.aws_check.state import State
from laptop.aws_check.step import Outcome
from laptop.stack import ROOT

SECRETS = {
    "account": ("arn:aws:batch:us-east-1:111122223333:job-queue/a", "111122223333"),
    "bucket": ("s3://batchmark-check-results-111122223333-us-east-1/raw", "111122223333"),
    "registry": ("111122223333.dkr.ecr.us-east-1.amazonaws.com/job@sha256:ab", "111122223333"),
    "user": ("arn:aws:iam::111122223333:user/jane.doe is not authorized", "jane.doe"),
    "session": ("arn:aws:sts::111122223333:assumed-role/Admin/jane@corp.example,", "jane"),
    "e-mail": ("confirm jane.doe@mail.example.org first", "jane.doe"),
    "address": ("can't reach 10.42.0.17 or 52.1.2.3:443", "10.42.0.17"),
    "address6": ("can't reach 2600:1f18:4ab:0:1::7", "2600:1f18"),
    "host": ("on ip-10-42-0-17.ec2.internal", "10-42-0-17"),
    "key": ("the key AKIAIOSFODNN7EXAMPLE is not active", "AKIAIOSFODNN7EXAMPLE"),
    "home": (f"see {Path.home()}/.aws/config", f"{Path.home()}/"),
    "clone": (f"see {ROOT}/aws-check", f"{ROOT}/"),
}


@pytest.mark.parametrize(("text", "secret"), SECRETS.values(), ids=SECRETS)
def test_what_names_somebody_is_taken_out(text, secret):
    assert secret in text
    assert secret not in scrubbed(text)


@pytest.mark.parametrize(
    "text",
    [
        "SUCCEEDED, exit code 0, ran 16.8 s, 19 rows, on Spot",
        "Running On-Demand G and VT instances (L-DB2E81BA): 1,000,000 vCPUs.",
        "batchmark-check-c5-2xlarge-20261128123351713500000010 is ENABLED and VALID.",
        "i-0123456789abcdef0 at 12:31:05 UTC",
        "provider 5.100.0, Terraform 1.11.4",
    ],
)
def test_what_names_nobody_stays(text):
    assert scrubbed(text, ["root", "me"]) == text
    assert scrubbed("jane on dev-box: janet", ["jane", "dev-box"]) == "<name> on <name>: janet"


@pytest.fixture
def report(tmp_path, monkeypatch):
    monkeypatch.setattr(getpass, "getuser", lambda: "jdoe")
    monkeypatch.setattr(socket, "gethostname", lambda: "janes-laptop")
    monkeypatch.setenv("AWS_PROFILE", "corp-prod")
    state = State.begin_in(tmp_path / "111122223333-eu-west-1")
    seen = " ".join(text for text, _ in SECRETS.values())
    for name, status, cost in (("apply", "failed", 0.0), ("CPU job", "ok", 0.25)):
        state.end(
            Outcome(
                step=name,
                expected="no error",
                status=status,
                seen=f"{seen} jdoe on janes-laptop with corp-prod as DeployerOfJane",
                seconds=61.4,
                usd=cost,
                passes=status == "ok",
            )
        )
    arn = "arn:aws:iam::111122223333:role/teams/DeployerOfJane"
    check = SimpleNamespace(account=Account("111122223333", "eu-west-1", arn, on_aws=True))
    return report_of(check, state)


def test_both_files_hold_what_was_seen_and_nothing_that_names_somebody(report, tmp_path):
    files = write_report(report, tmp_path)
    page, told = files.page.read_text(), files.json.read_text()
    assert Report.model_validate_json(told) == report
    for text in (page, told, *map(str, files)):
        name = text.removeprefix(str(tmp_path))
        for secret in (*(secret for _, secret in SECRETS.values()), "jdoe", "janes-laptop"):
            assert secret not in name
        assert "corp-prod" not in name
        assert "DeployerOfJane" not in name
    for shown in ("CPU job", "no error", "failed", "$0.25", ">61<", "AWS, eu-west-1"):
        assert shown in page
    assert report.summary == "2 steps: 1 failed, 1 ok. $0.25; some resources were not destroyed."
    over = report.model_copy(update={"over": True, "began_at": datetime(2026, 12, 1, tzinfo=UTC)})
    assert "no resources are left" in page_of(over).answer
