"""Gathers what the jobs of a run left: result documents, logs and Batch's own record."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from botocore.exceptions import ClientError

from batchmark.config import Config
from batchmark.cost import purchase_option
from batchmark.exceptions import CollectError
from batchmark.job_description import (
    FINISHED,
    JobDescription,
    all_seconds,
    failure_message,
    log_location,
    log_url,
    moment,
    run_seconds,
)
from batchmark.run import CollectedJob, CollectedRun, LostJob, PlannedJob
from batchmark.state_times import state_times
from batchmark.store import RunStore
from batchmark.suites import OWN_DTYPES
from batchmark_job.result import ResultDocument, ResultError, parse_document

DESCRIBE_JOBS_LIMIT = 100


def collect_run(
    store: RunStore,
    batch: Any,
    logs: Any,
    *,
    run_id: str,
    planned: Sequence[PlannedJob],
    job_ids: Sequence[str | None],
    config: Config,
) -> CollectedRun:
    """Pair each planned job with its result, or with the reason why there is none.

    Args:
        store: where the run's files go; each job's log is copied there.
        batch, logs: boto3 clients.
        planned, job_ids: in the same order; None for a job that was never submitted.
        config: what the run was planned with.
    """
    described = _describe(batch, [job_id for job_id in job_ids if job_id])
    jobs: list[CollectedJob] = []
    lost: list[LostJob] = []
    for plan, job_id in zip(planned, job_ids, strict=True):
        try:
            jobs.append(_collect_job(store, logs, run_id, plan, job_id, described, config))
        except CollectError as error:
            lost.append(
                LostJob(
                    planned=plan,
                    job_id=job_id,
                    reason=str(error),
                    instance_type=plan.instance_type if store.is_aws() else None,
                    seconds=all_seconds(described.get(job_id)) if job_id else 0,
                )
            )
    jobs = _with_state_times(jobs, logs, config.events_log_group)
    return CollectedRun(run_id=run_id, jobs=tuple(jobs), lost=tuple(lost))


def _with_state_times(
    jobs: Sequence[CollectedJob], logs: Any, group: str | None
) -> list[CollectedJob]:
    if not jobs:
        return []
    times = state_times(
        logs,
        group,
        {job.job_id for job in jobs},
        created_at=min(job.created_at for job in jobs),
        stopped_at=max(job.stopped_at for job in jobs),
    )
    return [job.model_copy(update=times[job.job_id]._asdict()) for job in jobs]


def _describe(batch: Any, job_ids: Sequence[str]) -> dict[str, JobDescription]:
    found = {}
    for start in range(0, len(job_ids), DESCRIBE_JOBS_LIMIT):
        answer = batch.describe_jobs(jobs=job_ids[start : start + DESCRIBE_JOBS_LIMIT])
        found.update({job["jobId"]: job for job in answer["jobs"]})
    return found


def _collect_job(
    store: RunStore,
    logs: Any,
    run_id: str,
    plan: PlannedJob,
    job_id: str | None,
    described: Mapping[str, JobDescription],
    config: Config,
) -> CollectedJob:
    if job_id is None:
        raise CollectError("no job was submitted; see the log of its run_benchmark task")
    job = described.get(job_id)
    if job is None:
        raise CollectError(f"Batch no longer knows job {job_id}; it forgets jobs after 7 days")
    if job["status"] not in FINISHED:
        raise CollectError(f"Batch job {job_id} is still {job['status']}")
    location = log_location(job)
    lines = _log_lines(logs, *location) if location else []
    log_key = store.write(
        f"logs/{plan.target}/{plan.suite}-{plan.repeat}.log", "\n".join(lines) + "\n", "text/plain"
    )
    if location is None or "startedAt" not in job:
        raise CollectError(failure_message(job, lines))
    failure = failure_message(job, lines[-3:]) if job["status"] == "FAILED" else None
    attempt = len(job["attempts"])
    uri = f"{plan.result_prefix}{job_id}.{attempt}.json"
    document = _document(store, uri, failure, _expected(run_id, plan, job_id, attempt), plan.dtype)
    target = config.targets.get(plan.target)
    return CollectedJob(
        planned=plan,
        job_id=job_id,
        job_attempt=attempt,
        log_group=location.group,
        log_stream=location.stream,
        log_url=log_url(location, _region(job)) if store.is_aws() else store.object_url(log_key),
        document_uri=uri,
        document_url=store.object_url(_key(uri)),
        created_at=moment(job, "createdAt"),
        started_at=moment(job, "startedAt"),
        stopped_at=moment(job, "stoppedAt"),
        document=document,
        purchase_option=target
        and purchase_option(target, document.environment.compute_environment),
        earlier_seconds=sum(map(run_seconds, job["attempts"][:-1])),
        failure=failure,
    )


def _expected(run_id: str, plan: PlannedJob, job_id: str, attempt: int) -> dict[str, object]:
    """What the document of a planned job says of itself."""
    return {
        "run_id": run_id,
        "job_id": job_id,
        "job_attempt": attempt,
        "target": plan.target,
        "suite": plan.suite,
        "requested_device": plan.device,
    }


def _document(
    store: RunStore, uri: str, failure: str | None, expected: Mapping[str, object], dtype: str
) -> ResultDocument:
    try:
        document = parse_document(store.read(_key(uri)))
    except ClientError as error:
        if failure:
            raise CollectError(failure) from error
        code = error.response["Error"]["Code"]
        raise CollectError(f"the job succeeded, but {uri} can't be read ({code})") from error
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


def _log_lines(logs: Any, group: str, stream: str) -> list[str]:
    """All lines of a stream, none where it never came to be.

    CloudWatch repeats the token where there is no more.
    """
    lines: list[str] = []
    token: dict[str, str] = {}
    while True:
        try:
            page = logs.get_log_events(
                logGroupName=group, logStreamName=stream, startFromHead=True, **token
            )
        except logs.exceptions.ResourceNotFoundException:
            return lines
        lines += [event["message"] for event in page["events"]]
        if page["nextForwardToken"] == token.get("nextToken"):
            return lines
        token = {"nextToken": page["nextForwardToken"]}


def _key(uri: str) -> str:
    return uri.removeprefix("s3://").partition("/")[2]


def _region(job: JobDescription) -> str:
    """A job's ARN is arn:partition:batch:REGION:account:job/id."""
    return str(job["jobArn"]).split(":")[3]
