"""Provides an Airflow on this machine with credentials for Airflow's role."""

from __future__ import annotations

import json
import os
import shlex
import time
from typing import Any

import boto3

from laptop.aws_check.check import Check
from laptop.aws_check.inputs import NAME
from laptop.private_files import make_private, write_private

# AWS expires a role's credentials after an hour, and clients ask for new ones 15 minutes earlier.
RENEWED_AFTER_SECONDS = 1800.0
CONFIG, CREDENTIALS = "config", "credentials.json"


class AirflowRole:
    """Credentials for Airflow's role, in a file that clients reread before the credentials expire.

    The variables in `environment` hide the user's own credentials and profiles from Airflow.
    """

    def __init__(self, check: Check) -> None:
        self._check = check
        self._folder = check.folder / "airflow-role"
        self._renewed_at: float | None = None

    @property
    def environment(self) -> dict[str, str]:
        """Variables that make AWS clients act as the role after `renew` has been called."""
        region = self._check.account.region
        variables = {
            "AWS_CONFIG_FILE": str(self._folder / CONFIG),
            "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
            "AWS_DEFAULT_REGION": region,
            "AWS_REGION": region,
        }
        if not self._check.account.on_aws:
            variables["AWS_ENDPOINT_URL"] = self._check.clients("sts").meta.endpoint_url
        return variables

    def renew(self) -> None:
        """Assume the role and save its credentials, unless that was done recently.

        Raises:
            ClientError, BotoCoreError: AWS refused or did not respond.
        """
        now = time.monotonic()
        if self._renewed_at is not None and now - self._renewed_at < RENEWED_AFTER_SECONDS:
            return
        found = self._assumed()
        make_private(self._folder)
        # In the format that `credential_process` programs print.
        printed = {
            "Version": 1,
            **{name: found[name] for name in ("AccessKeyId", "SecretAccessKey", "SessionToken")},
            "Expiration": found["Expiration"].isoformat(),
        }
        path = self._folder / CREDENTIALS
        write_private(path, json.dumps(printed))
        program = shlex.join(["cat", str(path)])
        write_private(self._folder / CONFIG, f"[default]\ncredential_process = {program}\n")
        self._renewed_at = now

    def session(self) -> boto3.Session:
        """Return a session with fresh credentials for the role."""
        found = self._assumed()
        return boto3.Session(
            aws_access_key_id=found["AccessKeyId"],
            aws_secret_access_key=found["SecretAccessKey"],
            aws_session_token=found["SessionToken"],
            region_name=self._check.account.region,
        )

    def _assumed(self) -> dict[str, Any]:
        arn = self._check.terraform.outputs()["airflow_role_arn"]
        sts = self._check.clients("sts")
        found: dict[str, Any] = sts.assume_role(RoleArn=arn, RoleSessionName=NAME)["Credentials"]
        return found
