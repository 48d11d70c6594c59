"""A job's result document, read from S3 and held against what was planned."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from botocore.exceptions import ClientError

from batchmark.exceptions import CollectError
from batchmark.jobs import is_passing
from batchmark.record import Record
from batchmark.suites import OWN_DTYPES
from batchmark_job.result import ResultDocument, ResultError, parse_document

if TYPE_CHECKING:
    from collections.abc import Mapping

    from batchmark.job_description import JobDescription
    from batchmark.run import PlannedJob
    from batchmark.store import RunStore

# A document of some 300 rows has below 1 MiB; no suite comes near this.
MOST_BYTES = 16 * 2**20


class ExpectedDocument(Record):
    """Which document a planned job is to leave, and what that must say of itself."""

    run_id: str
    target: str
    suite: str
    requested_device: str
    dtype: str
    prefix: str

    @classmethod
    def of(cls, run_id: str, plan: PlannedJob) -> Self:
        return cls(
            run_id=run_id,
            target=plan.target,
            suite=plan.suite,
            requested_device=plan.device,
            dtype=plan.dtype,
            prefix=plan.result_prefix,
        )

    @property
    def bucket(self) -> str:
        return self.prefix.removeprefix("s3://").partition("/")[0]

    def uri(self, job_id: str, attempt: int) -> str:
        """Where the job writes it (batchmark_job/output.py)."""
        return f"{self.prefix}{job_id}.{attempt}.json"

    def read(self, store: RunStore, job_id: str, attempt: int) -> ResultDocument:
        """The document of one attempt; raises as read_document does."""
        expected = self.model_dump(exclude={"dtype", "prefix"})
        expected |= {"job_id": job_id, "job_attempt": attempt}
        return read_document(store, self.uri(job_id, attempt), expected, self.dtype)

    def read_last(self, store: RunStore, job: JobDescription) -> ResultDocument:
        """The document of a job's last attempt; raises as read_document does."""
        return self.read(store, job["jobId"], len(job["attempts"]))


def read_document(
    store: RunStore, uri: str, expected: Mapping[str, object], dtype: str
) -> ResultDocument:
    """Read a document and check that it is the one.

    Args:
        expected: the document's fields by name: run, job, attempt, target, suite, device.
        dtype: that every row must have; `suite` allows any.

    Raises:
        CollectError: there is none, it is too large, cut off, of another version or another job.
        BotoCoreError, ClientError: S3 gave no answer that holds for later, too.
    """
    try:
        text = store.read(key_of(uri), most_bytes=MOST_BYTES)
        document = parse_document(text)
    except ClientError as error:
        if is_passing(error):
            raise
        raise CollectError(f"{uri} can't be read ({error.response['Error']['Code']})") from error
    except ResultError as error:
        raise CollectError(f"{uri}: {error}") from error
    for name, value in expected.items():
        if (seen := getattr(document, name)) != value:
            raise CollectError(f"{uri} has {name} {seen!r}, expected {value!r}")
    for row in document.measurements:
        if dtype not in {OWN_DTYPES, row.dtype}:
            raise CollectError(
                f"{uri} has a row of {row.workload} in {row.dtype}, expected {dtype} only"
            )
    return document


def key_of(uri: str) -> str:
    return uri.removeprefix("s3://").partition("/")[2]
