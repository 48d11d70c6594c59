"""Extends moto's Batch backend with jobs that actually run. moto requires this module name."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from typing import Any, ClassVar

from moto.batch.exceptions import ClientException
from moto.batch.models import JobDefinition, JobQueue, batch_backends
from moto.batch.utils import make_arn_for_job
from moto.core.base_backend import BackendDict
from moto.moto_api._internal import mock_random

from local_cloud.batch.api import descriptions, events, listing, submission
from local_cloud.batch.jobs import dependencies, host_access
from local_cloud.batch.jobs.job import Job, Submission
from local_cloud.batch.running.docker_runtime import DockerRuntime
from local_cloud.batch.running.process_runtime import ProcessRuntime
from local_cloud.batch.scheduling.scheduler import Scheduler
from local_cloud.gaps.batch import job_definitions
from local_cloud.gaps.batch.backend import CompleteBatchBackend, used_backends
from local_cloud.settings import Settings

MAX_DESCRIBED_JOBS = 100  # limit of DescribeJobs


class JobsBatchBackend(CompleteBatchBackend):
    """The Batch backend for an account and region; all backends share a machine and scheduler."""

    settings: ClassVar[Settings]
    scheduler: ClassVar[Scheduler]
    event_sender: ClassVar[events.Sender]
    _sequence: ClassVar[itertools.count[int]] = itertools.count()

    _jobs: dict[str, Job]  # type: ignore[assignment]

    def submit(self, request: dict[str, Any]) -> Job:
        """Handle SubmitJob for a single-node, multi-node or array job."""
        tag_list = self.tagger.convert_dict_to_tags_input(request.get("tags") or {})
        if problem := self.tagger.validate_tags(tag_list, 50):
            raise ClientException(problem)
        with self.scheduler.lock:
            parsed = submission.parse(request, self, self._jobs.get)
            self._refuse_host_access([each.properties for each in parsed.containers])
            job = self._new_job(parsed, str(mock_random.uuid4()))
            self.tagger.tag_resource(job.arn, tag_list)
            if parsed.array_size is None:
                self._schedule(job, [])
            else:
                self._spawn_children(job, parsed.array_size)
        return job

    def register_job_definition(self, *args: Any, **fields: Any) -> JobDefinition:
        named = {
            "containerProperties": fields["container_properties"],
            "nodeProperties": fields["node_properties"],
        }
        self._refuse_host_access(job_definitions.containers(named))
        return super().register_job_definition(*args, **fields)

    def _refuse_host_access(self, containers: Iterable[dict[str, Any]]) -> None:
        if self.settings.refuses_host_access:
            for refusal in filter(None, map(host_access.refusal, containers)):
                raise ClientException(refusal)

    def _spawn_children(self, parent: Job, size: int) -> None:
        parent.enter("PENDING")
        for index in range(size):
            child = self._new_job(parent.submission, f"{parent.id}:{index}")
            child.index, child.parent = index, parent
            parent.children.append(child)
        for child in parent.children:
            self._schedule(child, parent.children[: child.index])

    def _new_job(self, parsed: Submission, job_id: str) -> Job:
        arn = make_arn_for_job(self.account_id, job_id, self.region_name)
        sequence = next(self._sequence)
        job = Job(parsed, id=job_id, arn=arn, sequence=sequence, on_change=self._send_events)
        self._jobs[job_id] = job
        return job

    def _send_events(self, job: Job) -> None:
        """Send a job's new state to EventBridge if there are any rules."""
        if not events.rules(self.account_id, self.region_name):
            return
        detail = descriptions.detail(job, self.list_tags_for_resource(job.arn))
        resources = {events.STATE_CHANGE: [job.arn]}
        # Among RUNNABLE jobs only those that can't start have a status reason.
        if job.status == "RUNNABLE" and job.status_reason is not None:
            resources[events.QUEUE_BLOCKED] = [job.arn, job.submission.queue.arn]
        for detail_type, arns in resources.items():
            event = events.new_event(self.account_id, self.region_name, detail_type, arns, detail)
            self.event_sender.send(event)

    def _schedule(self, job: Job, siblings: list[Job]) -> None:
        first = dependencies.prerequisites(job.submission.depends_on, siblings, self._jobs.get)
        self.scheduler.submit(job, first)

    def find_job(self, identifier: str) -> Job | None:
        return self._jobs.get(identifier.rpartition("job/")[2])

    def job_details(self, identifiers: list[str]) -> list[dict[str, Any]]:
        """Handle DescribeJobs, leaving out unknown jobs. `id#2` is node 2 of a multi-node job."""
        if len(identifiers) > MAX_DESCRIBED_JOBS:
            raise ClientException(
                f"At most {MAX_DESCRIBED_JOBS} jobs can be described at a time, but "
                f"{len(identifiers)} were requested"
            )
        details = []
        with self.scheduler.lock:
            for identifier in identifiers:
                job_id, _, node = identifier.partition("#")
                job = self.find_job(job_id)
                if job is None:
                    continue
                tags = self.list_tags_for_resource(job.arn)
                if not node:
                    details.append(descriptions.detail(job, tags))
                elif node.isdigit() and int(node) < len(job.submission.containers):
                    details.append(descriptions.node_detail(job, int(node), tags))
        return details

    def job_summaries(self, request: dict[str, Any]) -> dict[str, Any]:
        """Handle ListJobs for a queue, leaving out array children and nodes."""
        status, filters, name = (
            request.get(field) for field in ("jobStatus", "filters", "jobQueue")
        )
        if not name:
            raise ClientException("jobQueue must be provided")
        queue = self.get_job_queue(name)
        if queue is None:
            raise ClientException(f"Job queue {name} does not exist")
        with self.scheduler.lock:
            jobs = [
                job
                for job in self._jobs.values()
                if job.submission.queue is queue and job.parent is None
            ]
            kept = listing.by_filters(jobs, filters) if filters else listing.by_status(jobs, status)
            summaries = [descriptions.summary(job) for job in kept]
        return listing.page(summaries, request.get("maxResults"), request.get("nextToken"))

    def cancel_job(self, job_id: str, reason: str) -> None:
        self._end(job_id, reason, self.scheduler.cancel)

    def terminate_job(self, job_id: str, reason: str) -> None:
        self._end(job_id, reason, self.scheduler.terminate)

    def _end(self, job_id: str, reason: str, end: Callable[[Job, str], None]) -> None:
        """End a job; as in AWS, unknown ids are not an error."""
        for field, value in (("jobId", job_id), ("reason", reason)):
            if not value:
                raise ClientException(f"{field} must be provided")
        if job := self.find_job(job_id):
            end(job, reason)

    def delete_job_queue(self, queue_name: str) -> None:
        """Delete the queue and, as in AWS, end its jobs."""
        queue = self.get_job_queue(queue_name)
        super().delete_job_queue(queue_name)
        if queue is not None:
            self._terminate_all("The job queue was deleted", queue)

    def reset(self) -> None:
        """End this backend's jobs before moto deletes them."""
        self._terminate_all("The local cloud was reset")
        self._jobs.clear()
        super().reset()

    def _terminate_all(self, reason: str, queue: JobQueue | None = None) -> None:
        with self.scheduler.lock:
            for job in list(self._jobs.values()):
                if queue is None or job.submission.queue is queue:
                    self.scheduler.terminate(job, reason)


def resume() -> None:
    """Resume all backends' jobs; call this once, before the first request."""
    jobs: list[Job] = [job for backend in used_backends() for job in backend._jobs.values()]
    last = max((job.sequence for job in jobs), default=-1)
    JobsBatchBackend._sequence = itertools.count(last + 1)
    JobsBatchBackend.scheduler.resume(jobs)


def install(settings: Settings) -> Scheduler:
    """Replace moto's still unused Batch backend; return the scheduler, which the caller must close.

    Raises:
        RuntimeUnavailableError: jobs can't run as the settings require.
    """
    containers = settings.jobs == "containers"
    runtime = DockerRuntime(settings) if containers else ProcessRuntime(settings)
    scheduler = Scheduler(settings, runtime)
    replace_motos(settings, scheduler)
    return scheduler


def replace_motos(settings: Settings, scheduler: Scheduler) -> None:
    """Replace moto's Batch backend with JobsBatchBackend."""
    JobsBatchBackend.settings = settings
    JobsBatchBackend.scheduler = scheduler
    JobsBatchBackend.event_sender = events.Sender(scheduler)
    batch_backends.backend = JobsBatchBackend
    reset = BackendDict.reset

    def reset_between_changes() -> None:
        """Reset moto, taking the scheduler's lock before moto's, in the same order as elsewhere."""
        with scheduler.lock:
            reset()

    BackendDict.reset = staticmethod(reset_between_changes)  # type: ignore[method-assign]
