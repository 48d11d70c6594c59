"""Writes the result document of an own job, in its stead, once it has ended."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from botocore.exceptions import BotoCoreError, ClientError

from batchmark.aws.batch_jobs import is_passing
from batchmark.aws.boto_clients import Clients
from batchmark.aws.job_description import JobDescription, log_location
from batchmark.aws.job_hosts import JobHost, host_of
from batchmark.aws.job_log import marked_lines
from batchmark.aws.result_bucket import RunStore
from batchmark.core.errors import CollectError, unexpected
from batchmark.core.own_jobs import OwnJobPlan
from batchmark.runs.own_jobs.check import was_stopped
from batchmark.runs.own_jobs.document import own_job_document
from batchmark.runs.own_jobs.lines import Facts, Told, read_lines
from batchmark.runs.result_documents import ExpectedDocument, key_of
from batchmark_job.result import ResultDocument, ResultError, parse_document
from batchmark_job.result_values import MOST_BYTES

READ_AGAIN_AFTER_SECONDS = (2.0, 4.0, 8.0, 15.0)  # CloudWatch may show a log's last lines late

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
    plan, attempts = expected.own_job, job.get("attempts")
    if plan is None or not attempts or "startedAt" not in attempts[-1]:
        return None
    on_aws = store.is_aws()
    waits = READ_AGAIN_AFTER_SECONDS if on_aws else (0.0,)
    told = _read(clients, job)
    for seconds in waits if is_to_tell_more(plan, job, told.facts) else ():
        sleep(seconds)
        told = _read(clients, job)
        if not is_to_tell_more(plan, job, told.facts):
            break
    is_known = host and (host.instance_type or not on_aws)
    seen = host if host and is_known and _is_of(host, job) else host_of(clients, job)
    try:
        document = own_job_document(expected, job, told, seen, on_aws=on_aws)
    except Exception as error:
        log.exception("No document can be made of job %s", job["jobId"])
        raise CollectError(f"no document could be made of it: {unexpected(error)}") from error
    if document is None:
        return None
    return _put(store, key_of(expected.uri(document.job_id, document.job_attempt)), document)


def is_to_tell_more(plan: OwnJobPlan, job: JobDescription, facts: Facts) -> bool:
    """Whether a wrapper that reached its end has lines that the log does not show yet."""
    ended = job.get("container", {}).get("exitCode") is not None and not was_stopped(job)
    if not plan.shell or not ended:
        return False
    if facts.exit_code is None:
        return True
    if facts.exit_code != 0 or facts.check_exit_code:
        return False
    told_output = facts.output_is_missing or facts.output_sha256 is not None
    return bool((plan.check and facts.check_exit_code is None) or (plan.output and not told_output))


def _read(clients: Clients, job: JobDescription) -> Told:
    location = log_location(job)
    if location is None:
        return Told(Facts())
    try:
        return read_lines(marked_lines(clients("logs"), location))
    except (BotoCoreError, ClientError) as error:
        if is_passing(error):
            raise
        log.warning("What job %s told is not known: %s", job["jobId"], error)
        return Told(Facts())


def _is_of(host: JobHost, job: JobDescription) -> bool:
    """Whether the job's last attempt ran there."""
    arn: str | None = job.get("container", {}).get("containerInstanceArn")
    return host.container_instance == arn


def _put(store: RunStore, key: str, document: ResultDocument) -> ResultDocument:
    try:
        text = store.read_if_there(key, most_bytes=MOST_BYTES)
        before = parse_document(text) if text else None
    except (ResultError, CollectError):
        before = None
    if before and known(before) >= known(document):
        return before
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
