"""Reads and writes the result bucket: the jobs' raw documents, and a folder for each run."""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import date
from functools import cached_property
from typing import Any, Self, TypeVar
from urllib.parse import quote

from pydantic import BaseModel, ValidationError

from batchmark.aws.boto_clients import all_pages, client
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
MOST_KEY_BYTES = 1024  # S3 has no longer keys, and refuses to look for one
BROWSER_ENDPOINT = "BATCHMARK_BROWSER_ENDPOINT_URL"
# S3's error codes for a conditional write: the second for one of two concurrent writes, the third
# for what is to be replaced and is gone.
CONDITION_NOT_MET = ("PreconditionFailed", "ConditionalRequestConflict", "NoSuchKey")

_Record = TypeVar("_Record", bound=BaseModel)


def rerun_name(number: int) -> str:
    """Return the file name of a rerun round's plan; rounds are numbered from 1."""
    return f"rerun-{number}.json"


def noise_key(suite: str, dtype: str, target: str) -> str:
    """Return the key of the noise table that is in use for a target, suite and data type."""
    return f"noise/{suite}/{dtype}/{target}.json"


def dated_key(folder: str, day: date, run_id: str, ending: str) -> str:
    """Return the key for a report from a DAG run other than a benchmark, filed by date.

    `ending` is `json` or `html`.
    """
    return f"{folder}/{day:%Y-%m-%d}/{slug(run_id)}.{ending}"


def is_aws(client: Any) -> bool:
    """Whether a boto3 client talks to AWS rather than a local cloud."""
    return bool(client.meta.endpoint_url.endswith((".amazonaws.com", ".amazonaws.com.cn")))


def browser_endpoint(client: Any) -> str:
    """Return the URL that a browser uses to reach the client's local cloud.

    If containers use a different hostname for it, an environment variable holds the browser's URL.
    """
    return os.environ.get(BROWSER_ENDPOINT) or str(client.meta.endpoint_url)


class _Naming(BaseModel):
    """The fields of a plan, booking or collected run that show which run it belongs to."""

    run_id: str | None = None
    spending_key: str | None = None


class Bucket:
    """The result bucket. Unless a condition forbids it, writing to a key replaces its object."""

    def __init__(self, s3: Any, bucket: str) -> None:
        self._s3 = s3
        self.bucket = bucket

    def of_run(self, run_id: str) -> RunStore:
        return RunStore(self._s3, self.bucket, run_id)

    def put(
        self, key: str, body: str | bytes, content_type: str = "application/json", **condition: str
    ) -> str:
        """Store text or bytes, optionally under a condition such as `IfMatch`; return the key."""
        if isinstance(body, str):
            body, content_type = body.encode(), f"{content_type}; charset=utf-8"
        self._s3.put_object(
            Bucket=self.bucket, Key=key, Body=body, ContentType=content_type, **condition
        )
        return key

    def swap(
        self,
        key: str,
        body: str | bytes,
        version: str | None,
        content_type: str = "application/json",
    ) -> bool:
        """Replace this version of an object (None: create it); return False on a conflict."""
        condition = {"IfNoneMatch": "*"} if version is None else {"IfMatch": version}
        try:
            self.put(key, body, content_type, **condition)
        except self._s3.exceptions.ClientError as error:
            if error.response["Error"]["Code"] not in CONDITION_NOT_MET:
                raise
            return False
        return True

    def remove(self, key: str) -> None:
        self._s3.delete_object(Bucket=self.bucket, Key=key)

    def read(self, key: str, *, most_bytes: int | None = None) -> bytes:
        """Read an object's content.

        Raises:
            CollectError: the object is larger than `most_bytes` and was not read.
        """
        answer = self._s3.get_object(Bucket=self.bucket, Key=key)
        if most_bytes is not None and (size := answer["ContentLength"]) > most_bytes:
            answer["Body"].close()
            raise CollectError(
                f"s3://{self.bucket}/{key} is {size / 2**20:.1f} MiB, more than the limit of "
                f"{most_bytes / 2**20:.0f} MiB"
            )
        return bytes(answer["Body"].read())

    def read_if_there(self, key: str, *, most_bytes: int | None = None) -> bytes | None:
        """Read an object like `read`, but return None if it doesn't exist."""
        if len(key.encode()) > MOST_KEY_BYTES:
            return None
        try:
            return self.read(key, most_bytes=most_bytes)
        except self._s3.exceptions.NoSuchKey:
            return None

    def record(self, model: type[_Record], key: str) -> _Record | None:
        """Parse an object as a record; return None if it is missing or invalid."""
        try:
            return model.model_validate_json(self.read_if_there(key) or b"")
        except ValidationError:
            return None

    def read_version(self, key: str, *, most_bytes: int | None = None) -> tuple[bytes, str] | None:
        """Return an object's content (empty if oversized) and version; None if it doesn't exist."""
        try:
            answer = self._s3.get_object(Bucket=self.bucket, Key=key)
        except self._s3.exceptions.NoSuchKey:
            return None
        if most_bytes is not None and answer["ContentLength"] > most_bytes:
            answer["Body"].close()
            return b"", answer["ETag"]
        return answer["Body"].read(), answer["ETag"]

    def keys(self, folder: str, after: str = "") -> list[str]:
        """List the keys that begin with `folder` and sort after `after`."""
        return [each["Key"] for each in self._contents(folder, after)]

    def versions(self, folder: str) -> dict[str, str]:
        """Return the versions (ETags) of the objects whose keys begin with `folder`, by key."""
        return {each["Key"]: each["ETag"] for each in self._contents(folder)}

    def folders(self, prefix: str) -> list[str]:
        """List the names of the folders directly below `prefix`."""
        found = self._listed("CommonPrefixes", prefix, Delimiter="/")
        return [folder["Prefix"].removeprefix(prefix).rstrip("/") for folder in found]

    def _contents(self, folder: str, after: str = "") -> Iterator[dict[str, Any]]:
        found = self._listed("Contents", folder, **({"StartAfter": after} if after else {}))
        # Consoles create keys that end with a slash, for folders.
        return (each for each in found if not each["Key"].endswith("/"))

    def _listed(self, field: str, prefix: str, **asked: str) -> Iterator[Any]:
        if len(prefix.encode()) > MOST_KEY_BYTES:
            return iter(())
        return all_pages(
            self._s3, "list_objects_v2", field, Bucket=self.bucket, Prefix=prefix, **asked
        )

    def is_aws(self) -> bool:
        return is_aws(self._s3)


class RunStore(Bucket):
    """One run's folder `runs/<run>/` in the result bucket, and related objects."""

    def __init__(self, s3: Any, bucket: str, run_id: str) -> None:
        super().__init__(s3, bucket)
        self._run_id = run_id

    @cached_property
    def name(self) -> str:
        """The run's name in keys: its slug, or its url_safe name if release 0.1 started it."""
        name, earlier = slug(self._run_id), url_safe(self._run_id)
        return earlier if earlier != name and self._has_begun_in(f"runs/{earlier}/") else name

    @property
    def prefix(self) -> str:
        return f"runs/{self.name}/"

    def _has_begun_in(self, folder: str) -> bool:
        """Whether the folder's booking or collected run has this run's ID, which old plans lack."""
        plan = self.record(_Naming, folder + PLAN)
        keys = (plan.spending_key, folder + COLLECTED) if plan else ()
        found = (self.record(_Naming, key) for key in keys if key)
        return any(record and record.run_id == self._run_id for record in found)

    @classmethod
    def of(cls, config: Config, run_id: str) -> Self:
        return cls(client("s3", config.region), config.bucket, run_id)

    def write(self, name: str, text: str, content_type: str = "application/json") -> str:
        """Store text in the run's folder and return its key."""
        return self.put(self.prefix + name, text, content_type)

    def plan(self, name: str = PLAN) -> RunPlan:
        """Read the run's or a rerun round's plan; if there is none, return a plan without jobs."""
        text = self.read_if_there(self.prefix + name)
        return RunPlan.model_validate_json(text) if text else RunPlan(jobs=())

    def object_url(self, key: str) -> str:
        """Return a browser link: to the S3 console on AWS, otherwise a URL presigned for a week."""
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
        """The URL prefix of all the bucket's objects in a local cloud."""
        return f"{browser_endpoint(self._s3)}/{self.bucket}/"
