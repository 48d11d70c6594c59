"""Result documents in files, as runs of jobs that nobody sent to Batch."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from batchmark.core.errors import CollectError
from batchmark.core.run import CollectedJob, CollectedRun, PlannedJob
from batchmark.core.suites import CUSTOM, OWN_DTYPES
from batchmark_job.result.document import ResultDocument, ResultError, parse_document

NO_BATCH = "run without Batch"


def read_documents(path: Path) -> list[ResultDocument]:
    """The result document in a file, or all of a folder's: repeats of one job.

    Raises:
        CollectError: there is none, one is not a result document, or they are of several targets.
    """
    files = sorted(path.glob("*.json")) if path.is_dir() else [path]
    if not files:
        below = next(path.rglob("*.json"), None)
        fix = "give a result document, or a folder of some"
        if below:
            fix = f"folders below do: give one of them, such as {below.parent}"
        raise CollectError(f"{path} holds no .json file; {fix}")
    documents = [_read(file) for file in files]
    targets = dict.fromkeys(document.target for document in documents)
    if len(targets) > 1:
        raise CollectError(
            f"{path} holds documents of several targets ({', '.join(targets)}); give each a "
            "folder of its own"
        )
    return documents


def run_of(run_id: str, documents: Sequence[ResultDocument], custom: str = CUSTOM) -> CollectedRun:
    """A run whose n-th repeat is the n-th document; those of no suite count as of `custom`."""
    jobs = tuple(collected(each, repeat, custom) for repeat, each in enumerate(documents, start=1))
    return CollectedRun(run_id=run_id, jobs=jobs)


def _read(file: Path) -> ResultDocument:
    try:
        text = file.read_bytes()
        return parse_document(text)
    except OSError as error:
        raise CollectError(f"{file} can't be read: {error.strerror}") from error
    except ResultError as error:
        if b'"report_version"' in text:
            raise CollectError(f"{file} is a report; give documents from raw/") from error
        raise CollectError(f"{file}: {error}") from error


def collected(document: ResultDocument, repeat: int, custom: str = CUSTOM) -> CollectedJob:
    """A document as if Batch had run its job; fields that Batch would fill in say otherwise."""
    return CollectedJob(
        planned=PlannedJob(
            target=document.target,
            device="cuda" if document.requested_device == "cuda" else document.actual_device.value,
            instance_type=document.environment.instance_type or NO_BATCH,
            suite=custom if document.suite == CUSTOM else document.suite,
            repeat=repeat,
            dtype=OWN_DTYPES,
            result_prefix=NO_BATCH,
        ),
        job_id=f"repeat {repeat}",
        job_attempt=document.job_attempt,
        log_group=NO_BATCH,
        log_stream=NO_BATCH,
        log_url=NO_BATCH,
        document_uri=f"{repeat}.json",
        document_url=NO_BATCH,
        created_at=document.started_at,
        started_at=document.started_at,
        stopped_at=document.finished_at,
        document=document,
    )
