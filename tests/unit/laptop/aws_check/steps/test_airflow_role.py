"""Airflow's role in files: its credentials do not end while a check runs."""

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace

import botocore.session
import pytest

from laptop.aws_check.steps import airflow_role
from laptop.aws_check.steps.airflow_role import RENEWED_AFTER_SECONDS, AirflowRole

ARN = "arn:aws:iam::123456789012:role/batchmark-check-airflow"
HOUR = timedelta(hours=1)


@pytest.fixture
def role(check_of, clients, monkeypatch, tmp_path):
    """Airflow's role in a folder with a space, and a clock."""
    check = check_of()
    object.__setattr__(check, "folder", tmp_path / "a folder")
    check.__dict__["terraform"] = SimpleNamespace(outputs=lambda: {"airflow_role_arn": ARN})
    clock = SimpleNamespace(now=0.0, monotonic=lambda: clock.now)
    monkeypatch.setattr(airflow_role, "time", clock)
    return AirflowRole(check), clock


def assumed(clients, key, *, lasting=HOUR):
    credentials = {
        "AccessKeyId": f"ASIA000000000000{key}",
        "SecretAccessKey": "secret",
        "SessionToken": "token",
        "Expiration": datetime.now(UTC) + lasting,
    }
    asked = {"RoleArn": ARN, "RoleSessionName": "batchmark-check"}
    clients.answer("sts", "assume_role", {"Credentials": credentials}, asked)


def test_a_client_acts_as_the_role_and_gets_new_credentials_before_they_end(
    role, clients, monkeypatch
):
    airflow, clock = role
    assumed(clients, "ONE1", lasting=timedelta(minutes=14))  # before its end it asks again
    assumed(clients, "TWO2")
    airflow.renew()
    of_a_user = {"PATH": os.environ["PATH"], "HOME": str(Path.home())}
    monkeypatch.setattr(os, "environ", of_a_user | airflow.environment)
    credentials = botocore.session.Session().get_credentials()
    assert credentials.method == "custom-process"
    assert credentials.get_frozen_credentials().access_key.endswith("ONE1")
    clock.now = RENEWED_AFTER_SECONDS
    airflow.renew()
    assert credentials.get_frozen_credentials().access_key.endswith("TWO2")
    assumed(clients, "NEW3")  # for a session of our own
    assert airflow.session().get_credentials().access_key.endswith("NEW3")


def test_nobody_else_reads_the_credentials_which_last_for_a_while(role, clients):
    airflow, clock = role
    assumed(clients, "ONE1")
    airflow.renew()
    files = list(Path(airflow.environment["AWS_CONFIG_FILE"]).parent.iterdir())
    assert len(files) == 2
    assert [path.stat().st_mode & 0o77 for path in files] == [0, 0]
    clock.now = RENEWED_AFTER_SECONDS - 1
    airflow.renew()
    clients.assert_all_was_asked()
