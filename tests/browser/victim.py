"""A local cloud that pages attack, and what they did to it."""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from botocore.exceptions import ClientError

from tests.clouds import Cloud, running
from tests.waiting import wait_for

PARAMETER = "/airflow/variables/batchmark"
BUCKET = "batchmark-results"
REPORT = "runs/report.html"
RECORDING = "moto_recording"  # moto's recorder writes it into the current folder
ANSWER = re.compile(r'"(?P<method>[A-Z]+) (?P<path>\S+) HTTP/1.1" (?P<status>\d{3})')


class Victim:
    """It holds what Airflow reads, and a report; both hold a secret word.

    Args:
        folder: its current one, where it also logs its answers.
    """

    def __init__(self, cloud: Cloud, folder: Path) -> None:
        self.cloud = cloud
        self.url = cloud.endpoint_url
        self.port = urlsplit(self.url).port
        self.secret = secrets.token_hex(8)
        self._folder = folder
        self._read_until = 0
        self._control = cloud.control()

    def close(self) -> None:
        self._control.close()

    def prepare(self) -> None:
        """Undo what the last attack did."""
        self._control.post("/moto-api/recorder/stop-recording")
        self._folder.joinpath(RECORDING).unlink(missing_ok=True)
        self._control.delete("/_faults")
        self.cloud.client("ssm").put_parameter(
            Name=PARAMETER, Value=json.dumps({"word": self.secret}), Type="String", Overwrite=True
        )
        if not self.definitions():
            self.cloud.define(["true"])
        s3 = self.cloud.client("s3")
        s3.create_bucket(Bucket=BUCKET)
        s3.put_object(
            Bucket=BUCKET,
            Key=REPORT,
            Body=f"<!doctype html><p>{self.secret}".encode(),
            ContentType="text/html",
            ACL="public-read",  # moto refuses unsigned requests of other objects
        )

    def state(self) -> dict[str, Any]:
        """What attacks are after."""
        ssm, s3 = self.cloud.client("ssm"), self.cloud.client("s3")
        parameter = report = None
        with suppress(ClientError):
            parameter = ssm.get_parameter(Name=PARAMETER)["Parameter"]["Value"]
        with suppress(ClientError):
            report = s3.get_object(Bucket=BUCKET, Key=REPORT)["Body"].read()
        return {
            "parameter": parameter,
            "report": report,
            "job definitions": self.definitions(),
            "faults": self._control.get("/_faults").json()["faults"],
            "recording": self._folder.joinpath(RECORDING).exists(),
        }

    def definitions(self) -> list[str]:
        found = self.cloud.batch.describe_job_definitions()["jobDefinitions"]
        return sorted(one["jobDefinitionArn"] for one in found)

    def skip_answers(self) -> None:
        """Forget what was answered so far."""
        self._read_until = len(self._log())

    def answers_to(self, path: str) -> list[int]:
        """Wait for requests of this path; the status of each answer since `skip_answers`."""

        def logged() -> list[int]:
            found = ANSWER.finditer(self._log()[self._read_until :])
            return [int(one["status"]) for one in found if one["path"].startswith(path)]

        return wait_for(logged, f"answer to {path}", 30, every=0.01)

    def _log(self) -> str:
        return log_of(self._folder).read_text()


def log_of(folder: Path) -> Path:
    return folder / "requests.log"


@contextmanager
def started(folder: Path, module: str) -> Iterator[Victim]:
    """The module's local cloud, which asks for no signatures: its guard alone protects it."""
    options = ("--any-credentials", "--log-requests")
    with (
        log_of(folder).open("w") as log,
        running(*options, module=module, folder=folder, log=log) as cloud,
    ):
        victim = Victim(cloud, folder)
        try:
            yield victim
        finally:
            victim.close()
