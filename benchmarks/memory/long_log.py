"""Measures the memory that collecting a failed job takes whose log has 500 MB.

A boto3 client reads the log from pages of CloudWatch's size that are made up as it asks for them.
Batch and S3 are stand-ins. A separate process collects, once per length of the log's lines.

Exits with 1 unless each stays below 300 MB over the memory that it had before.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from io import BytesIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import boto3
from botocore.awsrequest import AWSResponse
from botocore.exceptions import ClientError
from urllib3 import HTTPResponse

from batchmark.aws.job_log import EVENT_BYTES
from batchmark.aws.result_bucket import RunStore
from batchmark.core.config import ComputeEnvironments, Config, Target
from batchmark.runs.collecting import collect_run
from batchmark.runs.plans.planning import names_of_job, plan_jobs
from benchmarks.memory.peak import peak_mb
from benchmarks.synthetic import this_machine

ROOT = Path(__file__).resolve().parents[2]
CLAIMED_MB = 300
LOG_MB = 500
LINE_CHARACTERS = (1, 100, 10_000)
PAGE_BYTES, PAGE_EVENTS = 2**20, 10_000
RUN_ID, REGION = "run", "us-east-1"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, default=LOG_MB, help=f"default: {LOG_MB}")
    parser.add_argument("--line", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.line:
        print(json.dumps(collect(arguments.megabytes, arguments.line)))
        return 0
    missed = False
    for line in LINE_CHARACTERS:
        command = [sys.executable, "-m", "benchmarks.memory.long_log", f"--line={line}"]
        command.append(f"--megabytes={arguments.megabytes}")
        ended = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
        found = json.loads(ended.stdout)
        print(
            f"{arguments.megabytes} MB in lines of {line:,} characters: {found['pages']} pages "
            f"read in {found['seconds']:.1f} s, {found['kept_mb']:.1f} MB kept, peak "
            f"{found['peak_mb']:.0f} MB, {found['peak_mb'] - found['base_mb']:.0f} MB over the base"
        )
        missed |= found["peak_mb"] - found["base_mb"] >= CLAIMED_MB
    print(f"{this_machine()}, boto3 {boto3.__version__}; MB are 10^6 bytes of resident memory")
    if missed:
        print(f"MISSED: not below {CLAIMED_MB} MB over the base")
    return int(missed)


class Log:
    """Answers GetLogEvents on the wire, from either end."""

    def __init__(self, megabytes: int, line: int) -> None:
        self.message = "x" * line
        self.events = megabytes * 1_000_000 // (line + 1)  # with a line feed each
        self.of_page = min(PAGE_EVENTS, PAGE_BYTES // (line + EVENT_BYTES))
        self.pages = 0

    def answer(self, request: Any, **_: object) -> AWSResponse:
        asked = json.loads(request.body)
        begin, end = self._range(asked)
        self.pages += 1
        event = {"timestamp": 1, "message": self.message, "ingestionTime": 1}
        page = {
            "events": [event] * (end - begin),
            "nextForwardToken": f"f/{end}",
            "nextBackwardToken": f"b/{begin}",
        }
        content = HTTPResponse(BytesIO(json.dumps(page).encode()), preload_content=False)
        return AWSResponse(request.url, 200, {}, content)

    def _range(self, asked: dict[str, Any]) -> tuple[int, int]:
        default = "f/0" if asked["startFromHead"] else f"b/{self.events}"
        direction, _, number = asked.get("nextToken", default).partition("/")
        at = int(number)
        if direction == "f":
            return at, min(at + self.of_page, self.events)
        return max(0, at - self.of_page), at


class Bucket:
    """Takes what is written, and has nothing."""

    meta = SimpleNamespace(endpoint_url="http://127.0.0.1", region_name=REGION)

    def __init__(self) -> None:
        self.written = 0

    def put_object(self, *, Body: bytes, **_: object) -> None:  # noqa: N803
        self.written += len(Body)

    def get_object(self, **_: object) -> None:
        raise ClientError({"Error": {"Code": "NoSuchKey"}}, "GetObject")

    def generate_presigned_url(self, *_: object, **__: object) -> str:
        return "http://127.0.0.1/document"


class Batch:
    """Has one job, which failed."""

    def __init__(self, name: str) -> None:
        moments = {"createdAt": 1, "startedAt": 2, "stoppedAt": 3}
        self.job = moments | {
            "jobId": "job",
            "jobName": name,
            "jobArn": f"arn:aws:batch:{REGION}:123456789012:job/job",
            "status": "FAILED",
            "attempts": [{}],
            "container": {"exitCode": 1, "logStreamName": "stream"},
        }

    def get_paginator(self, _operation: str) -> Any:
        return SimpleNamespace(paginate=lambda **_: [{"jobSummaryList": [self.job]}])

    def describe_jobs(self, **_: object) -> dict[str, Any]:
        return {"jobs": [self.job]}


def installation() -> Config:
    target = Target(
        device="cpu",
        instance_type="c5.2xlarge",
        vcpus=1,
        memory_mib=1,
        gpus=0,
        job_queue="queue",
        on_demand_queue=None,
        job_definition="definition",
        compute_environments=ComputeEnvironments(spot=None, on_demand="any"),
        timeout_seconds=60,
        attempts=1,
        allow_cpu_fallback=False,
    )
    return Config(
        schema_version=1,
        name="bench",
        region=REGION,
        bucket="results",
        topic_arn="topic",
        log_group="group",
        targets={target.instance_type: target},
    )


def collect(megabytes: int, line: int) -> dict[str, float]:
    keys = {"aws_access_key_id": "none", "aws_secret_access_key": "none"}
    logs = boto3.client("logs", region_name=REGION, **keys)
    log = Log(megabytes, line)
    logs.meta.events.register("before-send.cloudwatch-logs.GetLogEvents", log.answer)
    config, bucket = installation(), Bucket()
    planned = plan_jobs(config, run_name=RUN_ID, suite="smoke", need_both_devices=False)
    batch = Batch(names_of_job(config.name, RUN_ID, planned[0]) + "0")
    base, began = peak_mb(), time.perf_counter()
    run = collect_run(
        RunStore(bucket, config.bucket, RUN_ID),
        batch,
        logs,
        run_id=RUN_ID,
        planned=planned,
        job_ids=["job"],
        config=config,
    )
    if len(run.lost) != 1:
        raise RuntimeError(f"the job was to be lost, and was not: {run}")
    return {
        "pages": log.pages,
        "seconds": time.perf_counter() - began,
        "kept_mb": bucket.written / 1e6,
        "base_mb": base,
        "peak_mb": peak_mb(),
    }


if __name__ == "__main__":
    sys.exit(main())
