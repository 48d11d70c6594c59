"""Stores and reads collected runs: `collected.json` and the jobs' raw result documents.

`collected.json` links to the documents instead of containing them, so each is stored only once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor

from batchmark.aws.job_parts import job_id_of
from batchmark.aws.result_bucket import COLLECTED, RunStore
from batchmark.core import formatting
from batchmark.core.errors import CollectError
from batchmark.core.run import CollectedJob, CollectedRun, LostJob, StoredJob, StoredRun
from batchmark.runs.result_documents import ExpectedDocument
from batchmark_job.result.document import ResultDocument

DOCUMENTS_AT_A_TIME = 8  # below the ten connections that a boto3 client keeps


def store_run(store: RunStore, run: StoredRun) -> str:
    """Write `collected.json` and return its key."""
    return store.write(COLLECTED, run.model_dump_json(indent=2))


def stored_run(store: RunStore, key: str) -> StoredRun | None:
    """Read a run's `collected.json`, without documents; None if the run was never collected."""
    text = store.read_if_there(key)
    return StoredRun.model_validate_json(text) if text is not None else None


def collected_digests(store: RunStore) -> dict[str, str]:
    """Return the SHA-256 of each document in an earlier collection of this run, by job id."""
    before = store.record(StoredRun, store.prefix + COLLECTED)
    jobs: Iterable[StoredJob | LostJob] = (*before.jobs, *before.lost) if before else ()
    return {
        job_id_of(job.job_id): job.document_sha256
        for job in jobs
        if job.job_id and job.document_sha256
    }


def read_raw_document(store: RunStore, run_id: str, job: StoredJob) -> ResultDocument:
    """Read the raw document that counts for a job.

    Raises:
        CollectError: the document is missing, invalid, or was replaced since it was collected.
        BotoCoreError, ClientError: an S3 request failed.
    """
    expected = ExpectedDocument.of(run_id, job.planned)
    return expected.read_raw(store, job.job_id, job.job_attempt, job.document_sha256).document


def readable_run(store: RunStore, key: str) -> CollectedRun:
    """Read the run stored at `key`, counting jobs as lost if their document can't be read now.

    Raises:
        CollectError: the run was never collected.
    """
    run = stored_run(store, key)
    if run is None:
        raise CollectError(f"{key} does not exist")

    def read(job: StoredJob) -> CollectedJob | LostJob:
        try:
            return job.with_document(job.document or read_raw_document(store, run.run_id, job))
        except CollectError as error:
            return LostJob(
                planned=job.planned,
                job_id=job.job_id,
                reason=f"its result document can't be used: {error}",
                instance_type=job.planned.instance_type if store.is_aws() else None,
                seconds=job.charged_seconds,
                document_sha256=job.document_sha256,
                interrupted=job.interrupted,
            )

    with ThreadPoolExecutor(DOCUMENTS_AT_A_TIME) as pool:
        found = list(pool.map(read, run.jobs))
    readable = run.with_jobs(
        (job for job in found if isinstance(job, CollectedJob)),
        (job for job in found if isinstance(job, LostJob)),
    )
    return readable.model_copy(update={"notes": tuple(_unchecked(run.jobs))})


def _unchecked(jobs: Iterable[StoredJob]) -> Iterator[str]:
    count = sum(job.document_sha256 is None and job.document is None for job in jobs)
    if count:
        yield (
            f"Not checked: {formatting.count(count, 'result document')}, because the release "
            "that collected them stored no SHA-256 to detect replacements."
        )
