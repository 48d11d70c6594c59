"""Writes the result document of an own job, in its stead, once it has ended."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from batchmark.aws.boto_clients import Clients
from batchmark.aws.job_description import FINISHED, JobDescription, container_instance
from batchmark.aws.job_hosts import JobHost, host_of
from batchmark.aws.result_bucket import RunStore
from batchmark.core.errors import CollectError, unexpected
from batchmark.runs.own_jobs.document import WatchedJob, last_span
from batchmark.runs.own_jobs.whole_log import read_log
from batchmark.runs.result_documents import ExpectedDocument, key_of
from batchmark_job.result.document import ResultDocument

log = logging.getLogger(__name__)


def store_document(
    store: RunStore,
    clients: Clients,
    job: JobDescription,
    expected: ExpectedDocument,
    host: JobHost | None = None,
    *,
    sleep: Callable[[float], object] = time.sleep,
) -> ResultDocument | None:
    """Write and return a finished job's document, unless the one that is there tells as much.

    None if no attempt started. `host` is what was found out while the job ran.

    Raises:
        CollectError: it can't be made of what the job left.
        BotoCoreError, ClientError: CloudWatch Logs or S3 does not answer at the moment.
    """
    plan, span = expected.own_job, last_span(job)
    if plan is None or span is None or job["status"] not in FINISHED:
        return None
    on_aws = store.is_aws()
    told = read_log(clients, plan, job, on_aws=on_aws, sleep=sleep)
    is_of_job = host and host.container_instance == container_instance(job)
    is_known = host and (host.instance_type or not on_aws)
    seen = host if host and is_known and is_of_job else host_of(clients, job)
    try:
        document = WatchedJob(expected, plan, job, told, seen, on_aws, *span).document()
    except Exception as error:
        log.exception("No document can be made of job %s", job["jobId"])
        raise CollectError(f"no document could be made of it: {unexpected(error)}") from error
    try:
        before = expected.read(store, document.job_id, document.job_attempt)
    except CollectError:
        before = None
    if before and known(before) >= known(document):
        return before
    key = key_of(expected.uri(document.job_id, document.job_attempt))
    store.put(key, document.to_json())
    return document


def known(document: ResultDocument) -> int:
    """How much a document tells, to compare two of one job."""
    own, environment = document.own_job, document.environment
    facts = (
        own and own.command_seconds,
        own and own.host,
        own and own.start,
        own and own.purchase_option,
        own and own.check.output_sha256,
        environment.instance_type,
        environment.availability_zone,
        environment.image_digest,
        environment.gpu_model,
    )
    told = sum(len(row.samples_seconds) for row in document.measurements)
    return sum(fact is not None for fact in facts) + len(document.telemetry) + told
