"""The result bucket: the jobs' raw documents, and a folder for each run."""

from __future__ import annotations

import os
from datetime import date
from functools import cached_property
from typing import Any, Self
from urllib.parse import quote

from pydantic import BaseModel, ValidationError

from batchmark.aws.boto_clients import client, listed
from batchmark.core.config import Config
from batchmark.core.errors import CollectError
from batchmark.core.names import slug, url_safe
from batchmark.core.run import RunPlan

# The objects in a run's folder, beside the jobs' logs.
PLAN = "plan.json"
COLLECTED = "collected.json"
COMPARISON = "comparison.json"
PRICES = "prices.json"
REPORT_JSON = "report.json"
REPORT_HTML = "report.html"
PLAN_HTML = "plan.html"  # of a dry run
SUMMARY = "summary.json"
SUSPECTS = "suspects.json"
CHANGES = "changes.json"
CHANGES_SECTION = "changes_section.json"
NOISE_JSON = "noise.json"
NOISE_HTML = "noise.html"
ENVIRONMENT_JSON = "environment.json"
ENVIRONMENT_HTML = "environment.html"
# Prices by region, day and run.
PRICES_FOLDER = "prices/"
# The findings of the DAG diagnose_queue, by its runs.
DIAGNOSES_FOLDER = "diagnoses/"
WEEK_SECONDS = 7 * 24 * 3600
BROWSER_ENDPOINT = "BATCHMARK_BROWSER_ENDPOINT_URL"
# S3's error codes for a conditional write; the latter for one of two concurrent writes.
CONDITION_NOT_MET = ("PreconditionFailed", "ConditionalRequestConflict")


def rerun_name(number: int) -> str:
    """The name of the plan of a round of fresh jobs, counted from 1, in a run's folder."""
    return f"rerun-{number}.json"


def noise_key(suite: str, dtype: str, target: str) -> str:
    """The key of the calibration in use for a target; each run's folder keeps that run's."""
    return f"noise/{suite}/{dtype}/{target}.json"


def dated_key(folder: str, day: date, run_id: str, ending: str) -> str:
    """The key of a report that belongs to no benchmark run; `ending` is json or html."""
    return f"{folder}/{day:%Y-%m-%d}/{slug(run_id)}.{ending}"


def is_aws(client: Any) -> bool:
    """Whether a boto3 client talks to AWS itself, not to a local cloud."""
    return bool(client.meta.endpoint_url.endswith((".amazonaws.com", ".amazonaws.com.cn")))


def browser_endpoint(client: Any) -> str:
    """The address of the client's local cloud for a browser.

    Containers reach it by another name; then the environment holds the one for browsers.
    """
    return os.environ.get(BROWSER_ENDPOINT) or str(client.meta.endpoint_url)


class _Naming(BaseModel):
    """What plan, booking and collected run have of these."""

    run_id: str | None = None
    spending_key: str | None = None


class RunStore:
    """One run's folder `runs/<run>/` in the result bucket. Writing a key again replaces it."""

    def __init__(self, s3: Any, bucket: str, run_id: str) -> None:
        self._s3 = s3
        self.bucket = bucket
        self._run_id = run_id

    @cached_property
    def name(self) -> str:
        """The run's name in keys: its slug, or url_safe's for what release 0.1 began."""
        name, earlier = slug(self._run_id), url_safe(self._run_id)
        return earlier if earlier != name and self._has_begun_in(f"runs/{earlier}/") else name

    @property
    def prefix(self) -> str:
        return f"runs/{self.name}/"

    def _has_begun_in(self, folder: str) -> bool:
        """Whether a folder is this run's by what it books or collected; a plan named no run."""
        plan = self._naming(folder + PLAN)
        keys = (plan.spending_key, folder + COLLECTED) if plan else ()
        found = (self._naming(key) for key in keys if key)
        return any(record and record.run_id == self._run_id for record in found)

    def _naming(self, key: str) -> _Naming | None:
        """An object's own names; None if it is not there or no record."""
        try:
            return _Naming.model_validate_json(self.read_if_there(key) or b"")
        except ValidationError:
            return None

    @classmethod
    def of(cls, config: Config, run_id: str) -> Self:
        return cls(client("s3", config.region), config.bucket, run_id)

    def of_run(self, run_id: str) -> Self:
        """Another run's folder in the same bucket."""
        return type(self)(self._s3, self.bucket, run_id)

    def write(self, name: str, text: str, content_type: str = "application/json") -> str:
        """Store `text` in the run's folder and return its key."""
        return self.put(self.prefix + name, text, content_type)

    def put(
        self, key: str, text: str, content_type: str = "application/json", **condition: str
    ) -> str:
        """Store `text` anywhere in the bucket, on a condition such as `IfMatch`; return its key."""
        self._s3.put_object(
            Bucket=self.bucket,
            Key=key,
            Body=text.encode(),
            ContentType=f"{content_type}; charset=utf-8",
            **condition,
        )
        return key

    def plan(self, name: str = PLAN) -> RunPlan:
        """The run's plan, or that of a round of fresh jobs; one of no jobs where there is none."""
        text = self.read_if_there(self.prefix + name)
        return RunPlan.model_validate_json(text) if text else RunPlan(jobs=())

    def create(self, key: str, text: str) -> bool:
        """Store `text` unless the key exists; return whether it was stored."""
        return self._put_if(key, text, IfNoneMatch="*")

    def read_version(self, key: str) -> tuple[bytes, str]:
        """An object's content and its version.

        Raises:
            KeyError: there is no such object.
        """
        try:
            answer = self._s3.get_object(Bucket=self.bucket, Key=key)
        except self._s3.exceptions.NoSuchKey:
            raise KeyError(key) from None
        return answer["Body"].read(), answer["ETag"]

    def replace(self, key: str, text: str, version: str) -> bool:
        """Store `text` if the object still has that version; return whether it was stored."""
        return self._put_if(key, text, IfMatch=version)

    def _put_if(self, key: str, text: str, **condition: str) -> bool:
        try:
            self.put(key, text, **condition)
        except self._s3.exceptions.ClientError as error:
            if error.response["Error"]["Code"] not in CONDITION_NOT_MET:
                raise
            return False
        return True

    def read(self, key: str, *, most_bytes: int | None = None) -> bytes:
        """An object's content.

        Raises:
            CollectError: it is larger than `most_bytes`; it was not read.
        """
        answer = self._s3.get_object(Bucket=self.bucket, Key=key)
        if most_bytes is not None and (size := answer["ContentLength"]) > most_bytes:
            answer["Body"].close()
            raise CollectError(
                f"s3://{self.bucket}/{key} has {size / 2**20:.1f} MiB, more than the "
                f"{most_bytes / 2**20:.0f} MiB that are read"
            )
        body: bytes = answer["Body"].read()
        return body

    def read_if_there(self, key: str, *, most_bytes: int | None = None) -> bytes | None:
        """An object's content, read as by `read`; None if there is no such object."""
        try:
            return self.read(key, most_bytes=most_bytes)
        except self._s3.exceptions.NoSuchKey:
            return None

    def keys(self, folder: str) -> list[str]:
        """The keys of all objects that begin with `folder`."""
        found = listed(self._s3, "list_objects_v2", "Contents", Bucket=self.bucket, Prefix=folder)
        return [each["Key"] for each in found]

    def object_url(self, key: str) -> str:
        """A link for people: the S3 console in AWS, elsewhere the object itself for a week."""
        if self.is_aws():
            region = self._s3.meta.region_name
            return (
                f"https://{region}.console.aws.amazon.com/s3/object/{self.bucket}"
                f"?region={region}&prefix={quote(key)}"
            )
        url: str = self._s3.generate_presigned_url(
            "get_object", Params={"Bucket": self.bucket, "Key": key}, ExpiresIn=WEEK_SECONDS
        )
        return browser_endpoint(self._s3) + url.removeprefix(self._s3.meta.endpoint_url)

    @property
    def bucket_url(self) -> str:
        """The common prefix of the addresses of all objects outside AWS."""
        return f"{browser_endpoint(self._s3)}/{self.bucket}/"

    def is_aws(self) -> bool:
        return is_aws(self._s3)
