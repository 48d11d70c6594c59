"""Reads result documents from files, and builds runs from them as if Batch had run the jobs."""

from __future__ import annotations

import os
import stat
from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping
from pathlib import Path

from batchmark.core.errors import CollectError
from batchmark.core.formatting import shortened_list
from batchmark.core.run import CollectedJob, CollectedRun, PlannedJob
from batchmark.core.suites import CUSTOM, OWN_DTYPES
from batchmark_job.result.document import ResultDocument, ResultError, parse_document
from batchmark_job.result.values import BY_HAND, MOST_BYTES, NO_RUN

NO_BATCH = "run without Batch"
ENDING = ".json"


def read_documents(path: Path) -> dict[Path, ResultDocument]:
    """Read one result document, or all documents in a folder, which must be repeats of one job.

    If the folder itself has none, its subfolders are read. Their documents must belong to one run
    and target, and if Batch retried a job, only its last attempt's document counts.

    Raises:
        CollectError: there is no document, one is unreadable or invalid, two belong to the same
            job, or they belong to several targets or, in subfolders, to several runs.
    """
    found = {file: _read(file) for file in _files(path)}
    nested = not {path, path.parent} & {file.parent for file in found}
    if nested:
        found = _last_attempts(found)
    by_job: dict[Hashable, Path] = {}
    for file, document in found.items():
        first = by_job.setdefault(identity(document), file)
        if first != file:
            raise CollectError(
                f"{first} and {file} contain documents of the same job, {job_label(document)}; "
                "omit one of them"
            )
    _refuse_mixed(path, found, nested)
    return found


def _last_attempts(found: Mapping[Path, ResultDocument]) -> dict[Path, ResultDocument]:
    last: dict[str, int] = defaultdict(int)
    for document in found.values():
        last[document.job_id] = max(last[document.job_id], document.job_attempt)
    return {file: each for file, each in found.items() if each.job_attempt == last[each.job_id]}


def _refuse_mixed(path: Path, found: Mapping[Path, ResultDocument], nested: bool) -> None:
    """Reject documents that belong to several targets or, if `nested`, to several runs."""
    sides = defaultdict[tuple[str, str], list[Path]](list)
    for file, document in found.items():
        sides[document.run_id if nested else "", document.target].append(file.parent)
    runs, targets = (list(dict.fromkeys(names)) for names in zip(*sides, strict=True))
    if NO_RUN in runs:
        raise CollectError(
            f"{path} contains subfolders with documents from jobs that were run by hand, which may "
            "have measured different code; put each side's documents in one folder"
        )
    kinds = (("runs", runs), ("targets", targets))
    mixed = [f"several {kind} ({shortened_list(names)})" for kind, names in kinds if len(names) > 1]
    if mixed:
        one = os.path.commonpath(next(iter(sides.values())))
        fix = (
            f"choose one of their folders, such as {one}"
            if nested
            else "use a separate folder for each"
        )
        raise CollectError(f"{path} contains documents from {' and '.join(mixed)}; {fix}")


def identity(document: ResultDocument) -> Hashable:
    """Return a key shared by all of one job's documents and no other job's."""
    by_hand = document.job_id == BY_HAND  # and perhaps beside others that started with it
    return (document.started_at, document.finished_at) if by_hand else document.job_id


def job_label(document: ResultDocument) -> str:
    """Describe a document's job so that people can find it."""
    started = f"started at {document.started_at:%Y-%m-%d %H:%M:%S %Z}"
    return started if document.job_id == BY_HAND else f"{document.job_id}, {started}"


def _files(path: Path) -> list[Path]:
    """List the file itself, a folder's .json files or, if it has none, those in its subfolders."""
    if not path.is_dir():
        return [path]
    try:
        files = [path / name for name in os.listdir(path)]
        found = [file for file in files if file.name.endswith(ENDING)] or [
            Path(folder, name)
            for folder, _, names in os.walk(path, onerror=_raise)
            for name in names
            if name.endswith(ENDING)
        ]
    except OSError as error:
        raise CollectError(f"{error.filename or path} can't be read: {error.strerror}") from error
    if not found:
        raise CollectError(
            f"{path} contains no {ENDING} file; specify a result document or a folder of them"
        )
    return sorted(found)


def _raise(error: OSError) -> None:
    raise error


def run_of(run_id: str, documents: Iterable[ResultDocument], custom: str = CUSTOM) -> CollectedRun:
    """Build a run with one repeat per document; those without a suite get the suite `custom`."""
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
            raise CollectError(
                f"{file} is a report; specify the result documents in raw/"
            ) from error
        raise CollectError(f"{file}: {error}") from error


def _content(file: Path) -> bytes:
    """Read a regular file, up to one byte over a document's size limit.

    Raises:
        OSError: it can't be read.
        ResultError: it is empty, as virtual files such as those in /proc appear to be, or it is
            not a regular file: a pipe, for example, might never end.
    """
    status = file.stat()
    if not stat.S_ISREG(status.st_mode):
        raise ResultError("not a result document: it is not a regular file")
    if not status.st_size:
        raise ResultError("not a result document: it is empty")
    with file.open("rb") as opened:
        return opened.read(MOST_BYTES + 1)


def collected(document: ResultDocument, repeat: int, custom: str = CUSTOM) -> CollectedJob:
    """Return a document's job as if Batch had run it; what only Batch knows becomes NO_BATCH."""
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
