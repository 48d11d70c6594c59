"""Reads jobs' result documents from S3 and checks them against the plan."""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING, NamedTuple, Self

from botocore.exceptions import ClientError

from batchmark.core.errors import CollectError, error_summary
from batchmark.core.names import document_prefix
from batchmark.core.own_jobs import OwnJobPlan
from batchmark.core.record import Record
from batchmark.core.run import PlannedJob
from batchmark.core.suites import OWN_DTYPES
from batchmark_job.result.document import ResultDocument, ResultError, parse_document
from batchmark_job.result.values import MOST_BYTES
from batchmark_job.result.version import GivenVersion

if TYPE_CHECKING:
    from batchmark.aws.result_bucket import RunStore

# Any other error, such as that of credentials which are being renewed, says nothing of the object.
MISSING = ("NoSuchKey", "NoSuchBucket")
SIMULATED = "simulated "  # how the model of a GPU begins that tests imitate


class RawDocument(NamedTuple):
    document: ResultDocument
    sha256: str  # of its bytes, in hex digits


class ExpectedDocument(Record):
    """The document that a planned job must produce: its location and required field values."""

    run_id: str
    target: str
    suite: str
    requested_device: str
    dtype: str
    prefix: str
    own_job: OwnJobPlan | None = None
    version: GivenVersion | None = None

    @classmethod
    def of(cls, run_id: str, plan: PlannedJob) -> Self:
        return cls(
            run_id=run_id,
            target=plan.target,
            suite=plan.suite,
            requested_device=plan.device,
            dtype=plan.dtype,
            prefix=plan.result_prefix,
            own_job=plan.own_job,
            version=plan.version,
        )

    @property
    def bucket(self) -> str:
        return self.prefix.removeprefix("s3://").partition("/")[0]

    def uri(self, job_id: str, attempt: int) -> str:
        """Return the URI to which the job writes its document (see batchmark_job/output.py)."""
        return f"{self.prefix}{document_prefix(job_id)}{attempt}.json"

    def read(self, store: RunStore, job_id: str, attempt: int) -> ResultDocument:
        """Read one attempt's document; raises the same errors as `read_raw`."""
        return self.read_raw(store, job_id, attempt).document

    def read_raw(
        self, store: RunStore, job_id: str, attempt: int, collected_sha256: str | None = None
    ) -> RawDocument:
        """Read one attempt's document, with its SHA-256.

        `collected_sha256` is that of the previously collected document; None if there is none, or
        if the release that collected it stored no SHA-256.

        Raises:
            CollectError: the document is missing, too large, truncated, simulated, from another
            version or job, or not the one that was collected.
            BotoCoreError, ClientError: S3 failed to return it for any other reason.
        """
        uri = self.uri(job_id, attempt)
        text = _content(store, uri)
        digest = sha256(text).hexdigest()
        if collected_sha256 not in (None, digest):
            raise CollectError(
                f"{uri} was replaced: its SHA-256 is {digest}, but was "
                f"{collected_sha256} when collected; restore that version, which the bucket keeps"
            )
        document = _parsed(uri, text)
        expected = self.model_dump(exclude={"dtype", "prefix", "own_job", "version"})
        for name, value in (expected | {"job_id": job_id, "job_attempt": attempt}).items():
            if (seen := getattr(document, name)) != value:
                raise CollectError(f"{uri} has {name} {seen!r}, expected {value!r}")
        model = document.environment.gpu_model or ""
        if model.startswith(SIMULATED):
            raise CollectError(f"{uri} was measured on a {model}, which is not a real GPU")
        for row in document.measurements:
            trains = row.scaling is None or row.scaling.settings is not None
            if trains and self.dtype not in {OWN_DTYPES, row.dtype}:
                raise CollectError(
                    f"{uri} contains a {row.workload} row in {row.dtype}, but only {self.dtype} "
                    "was expected"
                )
        return RawDocument(document, digest)


def _content(store: RunStore, uri: str) -> bytes:
    try:
        return store.read(key_of(uri), most_bytes=MOST_BYTES)
    except ClientError as error:
        code = error.response["Error"]["Code"]
        if code in MISSING:
            raise CollectError(f"{uri} can't be read ({code})") from error
        error.add_note(f"Failed to read {uri}.")
        raise


def _parsed(uri: str, text: bytes) -> ResultDocument:
    try:
        return parse_document(text)
    except ResultError as error:
        raise CollectError(f"{uri}: {error}") from error
    except Exception as error:
        raise CollectError(f"{uri}: {error_summary(error)}") from error


def key_of(uri: str) -> str:
    return uri.removeprefix("s3://").partition("/")[2]
