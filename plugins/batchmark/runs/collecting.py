"""Collects the results of a run's jobs: documents, logs and Batch's records."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from itertools import chain, filterfalse
from os.path import commonprefix
from types import MappingProxyType
from typing import Any, NamedTuple

from botocore.exceptions import BotoCoreError, ClientError

from batchmark.aws.batch_jobs import (
    describe_jobs,
    is_live,
    is_passing,
    list_jobs,
    terminate_job,
    was_withdrawn,
    with_installation_tag,
)
from batchmark.aws.boto_clients import Clients, patient_clients
from batchmark.aws.job_description import (
    CHILDREN,
    LOG_TAIL_LINES,
    JobDescription,
    all_seconds,
    batch_time,
    container_instance,
    container_warning,
    failure_message,
    has_run,
    is_reclaimed,
    log_location,
    log_url,
    run_seconds,
    seconds_between,
    sum_or_none,
)
from batchmark.aws.job_log import last_lines, log_end
from batchmark.aws.job_parts import first_child, job_id_of, most_informative_child
from batchmark.aws.result_bucket import RunStore
from batchmark.aws.state_times import state_times
from batchmark.core.config import Config, PurchaseOption
from batchmark.core.errors import CollectError, error_summary
from batchmark.core.failures.endings import MOST_LINES, Ending
from batchmark.core.names import is_of_task
from batchmark.core.run import (
    CollectedJob,
    CollectedRun,
    InterruptedAttempt,
    LostJob,
    PlannedJob,
    purchase_option,
)
from batchmark.runs.collected_runs import collected_digests
from batchmark.runs.own_jobs.check import how_it_ended
from batchmark.runs.own_jobs.storing import store_document
from batchmark.runs.plans.planning import names_of_job
from batchmark.runs.result_documents import ExpectedDocument, key_of
from batchmark_job.result.document import MeasurementStatus, ResultDocument

LEFT_OVER = "Its run is being collected, and no task owns it any more"
NO_LOG = "Batch reports no CloudWatch log stream for this job, so its log is missing.\n"
SUPERSEDED = "Another job is used instead: the task was cleared, or the job was submitted twice"

log = logging.getLogger(__name__)


class _Found(NamedTuple):
    """The Batch job that counts for a planned job, and any Spot job that it replaced."""

    job_id: str | None
    replaced_job_id: str | None = None

    @property
    def known(self) -> list[str]:
        return [job_id for job_id in self if job_id]

    def others(self, jobs: Sequence[JobDescription]) -> list[_Found]:
        return [_Found(job["jobId"]) for job in jobs if job["jobId"] not in self]


def collect_run(
    store: RunStore,
    batch: Any,
    logs: Any,
    *,
    run_id: str,
    planned: Sequence[PlannedJob],
    job_ids: Sequence[str | None],
    config: Config,
    clients: Clients | None = None,
    not_run: Mapping[int, str] = MappingProxyType({}),
) -> CollectedRun:
    """Pair each planned job with its result, or with the reason why it has none.

    Call this after the run's tasks have ended: jobs that are still running have no owner and are
    terminated. Each job's log is copied to the run's folder, and missing documents of users' own
    jobs are written.

    Args:
        job_ids: job ids in the order of `planned`; None if a job's task reported no id.
        clients: AWS clients for looking up the hosts of users' own jobs; by default, they use the
        environment's credentials.
        not_run: why jobs were skipped, by their index in `planned`.
    """
    named = _jobs_by_name(batch, run_id, planned, config)
    refused = _end(batch, filter(is_live, chain.from_iterable(named)))
    found = [_find(job_id, jobs) for job_id, jobs in zip(job_ids, named, strict=True)]
    superseded = [
        (plan, other)
        for plan, chosen, jobs in zip(planned, found, named, strict=True)
        for other in chosen.others(jobs)
    ]
    ids = chain.from_iterable(chosen.known for chosen in (*found, *(one for _, one in superseded)))
    described = describe_jobs(batch, list(ids))
    others = clients or patient_clients(config.region)
    collector = _Collector(store, logs, run_id, config, described, others, refused)
    results = [
        collector.not_run(plan, not_run[place])
        if place in not_run and jobs.job_id is None
        else collector.result(plan, jobs)
        for place, (plan, jobs) in enumerate(zip(planned, found, strict=True))
    ]
    collected = [result for result in results if isinstance(result, CollectedJob)]
    return CollectedRun(
        run_id=run_id,
        jobs=tuple(_with_state_times(collected, logs, config.events_log_group)),
        lost=tuple(result for result in results if isinstance(result, LostJob)),
        superseded=tuple(collector.lost(plan, jobs, SUPERSEDED) for plan, jobs in superseded),
    )


def _jobs_by_name(
    batch: Any, run_id: str, planned: Sequence[PlannedJob], config: Config
) -> list[list[dict[str, Any]]]:
    """List each planned job's Batch summaries, newest first; none if the target doesn't exist."""
    prefixes = [names_of_job(config.name, run_id, plan) for plan in planned]
    by_target = defaultdict(list)
    for plan, prefix in zip(planned, prefixes, strict=True):
        by_target[plan.target].append(prefix)
    listed = {}
    for name, of_target in by_target.items():
        if target := config.targets.get(name):
            queues = [target.job_queue, target.on_demand_queue]
            listed[name] = list_jobs(batch, queues, commonprefix(of_target))  # noqa: RUF071, no paths
    named = [
        [job for job in listed.get(plan.target, []) if is_of_task(job["jobName"], prefix)]
        for plan, prefix in zip(planned, prefixes, strict=True)
    ]
    own = {
        job["jobId"]
        for job in with_installation_tag(batch, chain.from_iterable(named), config.name)
    }
    return [[job for job in jobs if job["jobId"] in own] for jobs in named]


def _end(batch: Any, jobs: Iterable[JobDescription]) -> dict[str, str]:
    """Terminate jobs; return errors, by id, for those that Batch permanently refuses to end."""
    refused = {}
    for job in jobs:
        try:
            terminate_job(batch, job["jobId"], LEFT_OVER)
        except ClientError as error:
            if is_passing(error):
                raise
            log.warning("Job %s can't be terminated: %s", job["jobId"], error)
            refused[job["jobId"]] = str(error)
    return refused


def _find(reported_id: str | None, jobs: Sequence[JobDescription]) -> _Found:
    """Find the newest job with the reported job's name or, if none was reported, the newest of all.

    The newest job can differ from the reported one: a task might have died between reporting its
    Spot job and reporting the On-Demand job that replaced it. Jobs that the submitting task itself
    terminated are passed over if there is another.
    """
    reported = next((job for job in jobs if job["jobId"] == reported_id), None)
    if reported_id and reported is None:
        return _Found(reported_id)
    same_name = _named(reported["jobName"], jobs) if reported else jobs
    either = reported or next(iter(jobs), None)
    newest = next(filterfalse(was_withdrawn, same_name), either)
    if newest is None:
        return _Found(None)
    job_id = str(newest["jobId"])
    others = (job for job in _named(newest["jobName"], jobs) if str(job["jobId"]) != job_id)
    replaced = next(filter(is_reclaimed, others), None)
    return _Found(job_id, str(replaced["jobId"]) if replaced else None)


def _named(name: str, jobs: Sequence[JobDescription]) -> list[JobDescription]:
    return [job for job in jobs if job["jobName"] == name]


def _with_state_times(
    jobs: Sequence[CollectedJob], logs: Any, group: str | None
) -> list[CollectedJob]:
    if not jobs:
        return []
    times = state_times(
        logs,
        group,
        {job_id_of(job.job_id) for job in jobs},
        created_at=min(job.created_at for job in jobs),
        stopped_at=max(job.stopped_at for job in jobs),
    )
    return [job.model_copy(update=times[job_id_of(job.job_id)]) for job in jobs]


def _times(job: JobDescription, document: ResultDocument) -> tuple[datetime, datetime]:
    """Return when a job started and stopped: Batch's times if plausible, else its document's."""
    if seconds_between(job.get("startedAt"), job.get("stoppedAt")) is None:
        return document.started_at, document.finished_at
    return batch_time(job["startedAt"]), batch_time(job["stoppedAt"])


def _failed_check(document: ResultDocument) -> str | None:
    """Return why a user's job failed its owner's check, whatever Batch says; None if it passed."""
    check = document.own_job.check if document.own_job else None
    return check.detail if check and not check.passed else None


@dataclass(frozen=True)
class _Collector:
    """Collects the results of a run's jobs."""

    store: RunStore
    logs: Any
    run_id: str
    config: Config
    described: Mapping[str, JobDescription]
    clients: Clients
    refused: Mapping[str, str]  # why live jobs could not be ended, by id
    endings: dict[str, Ending] = field(default_factory=dict)  # of jobs that failed, by id

    @cached_property
    def _digests(self) -> dict[str, str]:
        return collected_digests(self.store)

    def result(self, plan: PlannedJob, found: _Found) -> CollectedJob | LostJob:
        expected = ExpectedDocument.of(self.run_id, plan)
        try:
            return self._collected(plan, found, expected)
        except CollectError as error:
            reason = str(error)
        except (BotoCoreError, ClientError):  # AWS does not answer now
            raise
        except Exception as error:
            log.exception("Job %s can't be collected", found.job_id)
            reason = error_summary(error)
        update = {
            "document_sha256": self._digests.get(found.job_id or ""),
            "interrupted": self._interrupted(expected, found),
        }
        return self.lost(plan, found, reason).model_copy(update=update)

    def lost(self, plan: PlannedJob, jobs: _Found, reason: str) -> LostJob:
        """Record a job without a result, with its billed time and that of any job it replaced."""
        seconds = [all_seconds(self.described.get(job_id)) for job_id in jobs.known]
        return LostJob(
            planned=plan,
            job_id=next(iter(jobs.known), None),
            reason=reason,
            ending=self.endings.get(jobs.job_id or ""),
            instance_type=plan.instance_type if self.store.is_aws() else None,
            seconds=None if (ran := sum_or_none(seconds)) is None else plan.nodes * ran,
        )

    def not_run(self, plan: PlannedJob, reason: str) -> LostJob:
        return LostJob(planned=plan, job_id=None, reason=reason, seconds=0.0, not_run=True)

    def _collected(
        self, plan: PlannedJob, found: _Found, expected: ExpectedDocument
    ) -> CollectedJob:
        whole = self._ended(found.job_id)
        job, store = first_child(whole), self.store
        job_id, location = job["jobId"], log_location(job)
        text = self._log(job)
        kept = text or ("\n" if location else NO_LOG)
        log_key = store.write(f"logs/{plan.target}/{plan.name}.log", kept, "text/plain")
        telling = most_informative_child(whole)
        said = text if telling is job else self._log(telling)
        if failed := whole["status"] == "FAILED":
            self.endings[whole["jobId"]] = self._ending(how_it_ended(telling), said)
        if (location is None and not expected.own_job) or not has_run(job):
            raise CollectError(failure_message(whole, last_lines(said, LOG_TAIL_LINES)))
        failure = failure_message(whole, last_lines(said, 3)) if failed else None
        attempt = len(job["attempts"])
        uri = expected.uri(job_id, attempt)
        try:
            if expected.own_job and store.read_if_there(key_of(uri)) is None:
                store_document(store, self.clients, job, expected)
            raw = expected.read_raw(store, job_id, attempt, self._digests.get(job_id_of(job_id)))
        except CollectError as error:
            raise CollectError(f"{failure}\n{error}" if failure else str(error)) from error
        ending = self.endings.get(whole["jobId"])
        has_parts = CHILDREN in whole
        before = [self.described.get(found.replaced_job_id)] if found.replaced_job_id else []
        earlier = [] if has_parts else job["attempts"][:-1]
        started_at, stopped_at = _times(job, raw.document)
        return CollectedJob(
            planned=self._as_it_ran(plan, raw.document),
            job_id=job_id,
            job_attempt=attempt,
            log_group=location.group if location else store.bucket,
            log_stream=location.stream if location else log_key,
            # A job's ARN is arn:partition:batch:REGION:account:job/id.
            log_url=log_url(location, job["jobArn"].split(":")[3])
            if location and store.is_aws()
            else store.object_url(log_key),
            document_uri=uri,
            document_url=store.object_url(key_of(uri)),
            document_sha256=raw.sha256,
            created_at=batch_time(whole["createdAt"]),
            started_at=started_at,
            stopped_at=stopped_at,
            document=raw.document,
            purchase_option=self._purchase_option(plan, raw.document),
            earlier_seconds=sum_or_none([*map(all_seconds, before), *map(run_seconds, earlier)]),
            instance_seconds=all_seconds(whole) if has_parts else None,
            replaced_job_id=found.replaced_job_id,
            host=container_instance(job),
            interrupted=self._interrupted(expected, found),
            failure=failure,
            ending=self._ending(how, said) if (how := _failed_check(raw.document)) else ending,
            doubt=container_warning(job),
        )

    def _as_it_ran(self, plan: PlannedJob, document: ResultDocument) -> PlannedJob:
        """Set the instance type of a user's own job to the one that Batch chose."""
        seen = document.environment.instance_type
        if document.own_job is None or seen is None or not self.store.is_aws():
            return plan
        return plan.model_copy(update={"instance_type": seen})

    def _purchase_option(self, plan: PlannedJob, document: ResultDocument) -> PurchaseOption | None:
        if document.own_job:
            return document.own_job.purchase_option
        target = self.config.targets.get(plan.target)
        if target is None:
            return None
        return purchase_option(target, document.environment.compute_environment)

    def _ending(self, how: str, said: str) -> Ending:
        return Ending.of(how, last_lines(said, MOST_LINES))

    def _log(self, job: JobDescription) -> str:
        location = log_location(job)
        return log_end(self.logs, location) if location else ""

    def _ended(self, job_id: str | None) -> JobDescription:
        if job_id is None:
            raise CollectError("no job was submitted; see the log of the Airflow task for this job")
        job = self.described.get(job_id)
        if job is None:
            raise CollectError(f"Batch no longer lists job {job_id}; it keeps jobs for 7 days")
        if is_live(job):
            refused = self.refused.get(job_id)
            done = (
                f"it can't be terminated ({refused})"
                if refused
                else "its termination was requested"
            )
            raise CollectError(
                f"Batch job {job_id} was still {job['status']}, although no task was waiting for "
                f"it any more; {done}"
            )
        return job

    def _interrupted(
        self, expected: ExpectedDocument, jobs: _Found
    ) -> tuple[InterruptedAttempt, ...]:
        """List earlier attempts that left a document before losing their hosts."""
        found = []
        for job_id, attempt in self._earlier_attempts(jobs):
            try:
                raw = expected.read_raw(self.store, job_id, attempt)
            except CollectError as error:  # it was killed before it could write
                log.info("Attempt %d of job %s left no document: %s", attempt, job_id, error)
                continue
            uri = expected.uri(job_id, attempt)
            found.append(
                InterruptedAttempt(
                    job_id=job_id,
                    job_attempt=attempt,
                    document_uri=uri,
                    document_sha256=raw.sha256,
                    document_url=self.store.object_url(key_of(uri)),
                    measured_rows=sum(
                        row.status is MeasurementStatus.MEASURED
                        for row in raw.document.measurements
                    ),
                )
            )
        return tuple(found)

    def _earlier_attempts(self, jobs: _Found) -> Iterator[tuple[str, int]]:
        for job_id, that_count in ((jobs.replaced_job_id, 0), (jobs.job_id, 1)):
            if whole := self.described.get(job_id or ""):
                job = first_child(whole)
                last = len(job.get("attempts", ())) - that_count
                yield from ((job["jobId"], attempt) for attempt in range(1, last + 1))
