"""Writes the result document for a user's own job once it has ended.

CloudWatch can deliver the last lines late; on AWS, they are awaited for up to half a minute.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import replace

from botocore.exceptions import BotoCoreError, ClientError

from batchmark.aws.batch_jobs import is_passing
from batchmark.aws.boto_clients import Clients
from batchmark.aws.job_description import FINISHED, JobDescription, container_instance, log_location
from batchmark.aws.job_hosts import JobHost, host_of
from batchmark.aws.job_log import marked_lines
from batchmark.aws.result_bucket import RunStore
from batchmark.core.errors import CollectError, error_summary
from batchmark.core.own_jobs import OwnJobPlan
from batchmark.runs.own_jobs.check import ended_by_itself
from batchmark.runs.own_jobs.document import WatchedJob, last_span
from batchmark.runs.own_jobs.lines import NOT_KNOWN, Facts, JobOutput, read_lines
from batchmark.runs.result_documents import ExpectedDocument, key_of
from batchmark_job.result.document import ResultDocument

READ_AGAIN_AFTER_SECONDS = (2.0, 4.0, 8.0, 15.0)  # 29 s in all, for late lines
SETTLED_SECONDS = 10.0  # after its stop, the log of a job without a wrapper counts as complete
MOST_COUNTED_PAGES = 20  # of a megabyte of log each, read only to number the bad lines
LATEST_SECONDS = 60.0  # after a job's stop, its lines are no longer waited for

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
    """Write and return a finished job's document, unless the stored one is at least as complete.

    In that case, the stored one is returned. If no attempt ran and stopped, None is returned.
    `host` is the job's host, if it was found during the run.

    Raises:
        CollectError: the document can't be built from what the job left behind.
        BotoCoreError, ClientError: a request to CloudWatch Logs or S3 failed.
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
        document = WatchedJob(expected, plan, job, told, seen, on_aws, span).document()
    except Exception as error:
        log.exception("Can't build the document of job %s", job["jobId"])
        raise CollectError(f"its document could not be built: {error_summary(error)}") from error
    try:
        before = expected.read(store, document.job_id, document.job_attempt)
    except CollectError:
        before = None
    if before and completeness(before) >= completeness(document):
        return before
    key = key_of(expected.uri(document.job_id, document.job_attempt))
    store.put(key, document.to_json())
    return document


def completeness(document: ResultDocument) -> int:
    """Score how complete a document is, to choose between two from the same job."""
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
    doubts = len(own.doubts) if own else 0
    return sum(fact is not None for fact in facts) + len(document.telemetry) + told - doubts


def read_log(
    clients: Clients,
    plan: OwnJobPlan,
    job: JobDescription,
    *,
    on_aws: bool,
    sleep: Callable[[float], object] = time.sleep,
    clock: Callable[[], float] = time.time,
) -> JobOutput:
    """Read a finished job's marked lines; `is_known` is false if the log can't be read.

    On AWS, this waits up to half a minute for late lines.

    Raises:
        BotoCoreError, ClientError: a request to CloudWatch Logs failed temporarily.
    """
    since_stop = clock() - job.get("stoppedAt", 0) / 1000
    if on_aws and not plan.shell and since_stop < SETTLED_SECONDS:
        sleep(min(SETTLED_SECONDS - since_stop, SETTLED_SECONDS))
    told = _read(clients, plan, job)
    if since_stop > LATEST_SECONDS:
        return told
    for seconds in READ_AGAIN_AFTER_SECONDS if on_aws else (0.0,):
        # Whether a wrapper that reached its end has lines that the log does not show yet.
        if not (plan.shell and ended_by_itself(job) and told.is_known and not told.facts.is_over):
            break
        sleep(seconds)
        told = _read(clients, plan, job)
    return told


def _read(clients: Clients, plan: OwnJobPlan, job: JobDescription) -> JobOutput:
    """Read the metrics, and the facts only if there is a wrapper to stop jobs from faking them."""
    location = log_location(job)
    if location is None:
        return NOT_KNOWN
    try:
        logs = clients("logs")
        told = read_lines(marked_lines(logs, location))
        if any(line.source == "log" for line in told.bad_lines):
            every = marked_lines(logs, location, most_pages=MOST_COUNTED_PAGES, numbered=True)
            told = told.with_log_lines(read_lines(every))
    except (BotoCoreError, ClientError) as error:
        if is_passing(error):
            raise
        log.warning("The log of job %s could not be read: %s", job["jobId"], error)
        return NOT_KNOWN
    return told if plan.shell else replace(told, facts=Facts())
