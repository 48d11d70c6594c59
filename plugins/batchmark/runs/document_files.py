"""Result documents in files, as runs of jobs that nobody sent to Batch."""

from __future__ import annotations

import os
import stat
from collections.abc import Hashable, Iterable
from pathlib import Path

from batchmark.core.errors import CollectError
from batchmark.core.run import CollectedJob, CollectedRun, PlannedJob
from batchmark.core.suites import CUSTOM, OWN_DTYPES
from batchmark_job.result.document import ResultDocument, ResultError, parse_document
from batchmark_job.result.values import BY_HAND, MOST_BYTES

NO_BATCH = "run without Batch"
ENDING = ".json"


def read_documents(path: Path) -> dict[Path, ResultDocument]:
    """The result document in a file, or all of a folder's: repeats of one job.

    Raises:
        CollectError: there is none, one can't be read or is no result document, two are of the same
            job, or they are of several targets.
    """
    found = {file: _read(file) for file in _files(path)}
    by_job: dict[Hashable, Path] = {}
    for file, document in found.items():
        first = by_job.setdefault(identity(document), file)
        if first != file:
            raise CollectError(
                f"{first} and {file} hold documents of the same job, {job_label(document)}; "
                "leave one of them out"
            )
    targets = dict.fromkeys(document.target for document in found.values())
    if len(targets) > 1:
        raise CollectError(
            f"{path} holds documents of several targets ({', '.join(targets)}); give each a "
            "folder of its own"
        )
    return found


def identity(document: ResultDocument) -> Hashable:
    """What the documents of one job have in common, and those of no two jobs."""
    by_hand = document.job_id == BY_HAND  # and perhaps beside others that started with it
    return (document.started_at, document.finished_at) if by_hand else document.job_id


def job_label(document: ResultDocument) -> str:
    """How people find the job of a document."""
    started = f"started at {document.started_at:%Y-%m-%d %H:%M:%S %Z}"
    return started if document.job_id == BY_HAND else f"{document.job_id}, {started}"


def _files(path: Path) -> list[Path]:
    """The path, or the files in the folder that it is."""
    if not path.is_dir():
        return [path]
    try:
        names = sorted(os.listdir(path))
    except OSError as error:
        raise CollectError(f"{path} can't be read: {error.strerror}") from error
    if files := [path / name for name in names if name.endswith(ENDING)]:
        return files
    below = next(path.glob(f"*/*{ENDING}"), None)
    fix = "give a result document, or a folder of some"
    if below:
        fix = f"folders below do: give one of them, such as {below.parent}"
    raise CollectError(f"{path} holds no {ENDING} file; {fix}")


def run_of(run_id: str, documents: Iterable[ResultDocument], custom: str = CUSTOM) -> CollectedRun:
    """A run whose n-th repeat is the n-th document; those of no suite count as of `custom`."""
    jobs = tuple(collected(each, repeat, custom) for repeat, each in enumerate(documents, start=1))
    return CollectedRun(run_id=run_id, jobs=jobs)


def _read(file: Path) -> ResultDocument:
    text = b""
    try:
        text = _content(file)
        return parse_document(text)
    except OSError as error:
        raise CollectError(f"{file} can't be read: {error.strerror}") from error
    except ResultError as error:
        if b'"report_version"' in text:
            raise CollectError(f"{file} is a report; give documents from raw/") from error
        raise CollectError(f"{file}: {error}") from error


def _content(file: Path) -> bytes:
    """No more than a document may have, and none of what may have no end, such as a pipe.

    Raises:
        OSError: it can't be read.
        ResultError: it is no regular file, or empty, as those look that a kernel makes up.
    """
    status = file.stat()
    if not stat.S_ISREG(status.st_mode):
        raise ResultError("not a result document: it is no regular file")
    if not status.st_size:
        raise ResultError("not a result document: it is empty")
    with file.open("rb") as opened:
        return opened.read(MOST_BYTES + 1)


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
