"""Moves jobs through their states: dependencies, the queue for the pool, attempts, the end."""

from __future__ import annotations

import threading
from collections import defaultdict
from typing import TYPE_CHECKING

from local_cloud.batch.attempt import Attempt
from local_cloud.batch.job import NOT_STARTED, Job
from local_cloud.batch.pool import Allocation, Pool, Reservation
from local_cloud.batch.retry import should_retry
from local_cloud.batch.time_limits import (
    Alarms,
    blocked_reason,
    environment_for,
    stuck_reason,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from moto.batch.models import ComputeEnvironment

    from local_cloud.batch.retry import AttemptEnd
    from local_cloud.batch.runtime import Runtime
    from local_cloud.settings import Settings

DEPENDENCY_FAILED = "Dependent Job failed"
CHILD_FAILED = "Array Child Job failed"
TIMED_OUT = "Job attempt duration exceeded timeout"
SHUTDOWN_SECONDS = 10.0


class Scheduler:
    """The one machine all queues share. `lock` guards every job's state.

    Faults reach in here: no image of `missing_images` can be pulled, and `on_running` is told,
    under the lock, of each attempt that has started. `keep` writes down what jobs have come to.
    """

    def __init__(self, settings: Settings, runtime: Runtime) -> None:
        self.lock = threading.RLock()
        self.runtime = runtime
        self._settings = settings
        self._pool = Pool(settings.vcpus, settings.memory_mib, settings.gpus)
        self._waiting: list[Job] = []
        self._dependants: dict[str, list[Job]] = defaultdict(list)
        self._alarms = Alarms()
        self._runners: dict[threading.Thread, Attempt] = {}
        self._closed = False
        self.missing_images: set[str] = set()
        self.on_running: list[Callable[[Job, Attempt], None]] = []
        self.keep: Callable[[], None] = lambda: None

    def submit(self, job: Job, prerequisites: Iterable[Job]) -> None:
        """Take over a job that can run, which an array job's parent can't."""
        with self.lock:
            job.status = "PENDING"
            for other in prerequisites:
                if other.status == "FAILED":
                    self._finish(job, "FAILED", DEPENDENCY_FAILED)
                    return
                if not other.finished:
                    job.unmet.add(other.id)
                    self._dependants[other.id].append(job)
            if job.unmet:
                job.enter("PENDING")
            else:
                self._make_runnable(job)
                self._start_what_fits()

    def resume(self, jobs: Iterable[Job]) -> None:
        """Go on with the jobs of an earlier server; what else it left is removed."""
        unfinished = sorted(
            (job for job in jobs if not job.finished and not job.is_array_parent),
            key=lambda job: job.sequence,
        )
        under_way = [job for job in unfinished if job.status in ("STARTING", "RUNNING")]
        self.runtime.remove_others(
            {node.task_id for job in under_way for node in job.attempts[-1].nodes}
        )
        with self.lock:
            for job in under_way:
                self._resume_attempt(job)
            for job in unfinished:
                for other in job.unmet:
                    self._dependants[other].append(job)
                if job.status == "RUNNABLE":
                    self._make_runnable(job)
            self._start_what_fits()

    def cancel(self, job: Job, reason: str) -> None:
        """End a job that has not reached STARTING; leave any other as it is."""
        with self.lock:
            for child in job.children:
                self.cancel(child, reason)
            if not job.children and job.status in NOT_STARTED:
                job.is_cancelled = True
                self._leave_queue(job, reason)

    def terminate(self, job: Job, reason: str) -> None:
        """End a job in whatever state it is."""
        with self.lock:
            if job.finished:
                return
            job.is_terminated = True
            job.stop_reason = job.stop_reason or reason
            for child in job.children:
                self.terminate(child, reason)
            if job.running is not None:
                job.running.stop(reason)
            elif not job.children:
                self._leave_queue(job, reason)

    def running(self) -> list[tuple[Job, Attempt]]:
        """The attempts under way; call it under the lock."""
        return [(attempt.job, attempt) for attempt in self._runners.values()]

    def environments_changed(self) -> None:
        """Look again at what waits for a compute environment that takes jobs."""
        with self.lock:
            for job in self._waiting:
                reason = blocked_reason(job.submission.queue)
                if reason != job.status_reason:
                    job.enter("RUNNABLE", reason)
            self._start_what_fits()

    def close(self) -> None:
        """Kill every job's containers and wait until they are gone."""
        with self.lock:
            self._closed = True
            self._waiting.clear()
            self._alarms.clear()
            runners = dict(self._runners)
        for attempt in runners.values():
            attempt.lose_host(0.0)  # not the job's fault: where it is kept, its own rules retry it
            attempt.kill()
        for runner in runners:
            runner.join(SHUTDOWN_SECONDS)
        self.runtime.close()

    def _leave_queue(self, job: Job, reason: str) -> None:
        if job in self._waiting:
            self._waiting.remove(job)
        self._finish(job, "FAILED", reason)
        self._start_what_fits()

    def _make_runnable(self, job: Job) -> None:
        stuck = stuck_reason(job, self._pool)
        job.enter("RUNNABLE", stuck or blocked_reason(job.submission.queue))
        if stuck is None:
            self._waiting.append(job)
            self._waiting.sort(
                key=lambda each: (-int(each.submission.queue.priority), each.sequence)
            )
        else:
            self._alarms.set_state_limits(job, self._give_up)

    def _give_up(self, job: Job, reason: str) -> None:
        self.cancel(job, reason)
        self.keep()

    def _start_what_fits(self) -> None:
        """Start waiting jobs in their order; see Pool.take for how big ones get their turn."""
        reserved = Reservation()
        for job in [] if self._closed else list(self._waiting):
            if reserved.everything():
                return
            environment = environment_for(job.submission.queue)
            if environment is None:
                continue
            allocation = self._pool.take(job.submission.requirements, reserved)
            if allocation is not None:
                self._waiting.remove(job)
                self._start(job, allocation, environment)

    def _start(self, job: Job, allocation: Allocation, environment: ComputeEnvironment) -> None:
        attempt = job.running = Attempt(
            job, allocation, self._settings, self.runtime, environment, self.missing_images
        )
        job.enter("STARTING")
        self._run_beside(job, attempt, attempt.start)

    def _resume_attempt(self, job: Job) -> None:
        record, queue = job.attempts[-1], job.submission.queue
        environment = next(
            (each for each in queue.environments if each.name == record.compute_environment),
            queue.environments[0],
        )
        allocation = self._pool.take_again(job.submission.requirements, record.gpu_ids)
        attempt = job.running = Attempt(
            job,
            allocation,
            self._settings,
            self.runtime,
            environment,
            self.missing_images,
            record,
        )
        self._run_beside(job, attempt, attempt.resume)

    def _run_beside(self, job: Job, attempt: Attempt, begin: Callable[[], bool]) -> None:
        runner = threading.Thread(target=self._run, args=(job, attempt, begin), daemon=True)
        self._runners[runner] = attempt
        runner.start()

    def _run(self, job: Job, attempt: Attempt, begin: Callable[[], bool]) -> None:
        """A runner thread: it lives as long as the attempt's containers do."""
        self.keep()  # who comes after a SIGKILL must know of what begins here
        started = begin()
        with self.lock:
            if started:
                job.started_at = attempt.record.started_at
                if job.status != "RUNNING":
                    job.enter("RUNNING")
                if job.stop_reason is not None:
                    attempt.stop(job.stop_reason)
                self._alarms.set_timeout(job, lambda: self._time_out(job, attempt))
                for tell in self.on_running:
                    tell(job, attempt)
            if self._closed:
                attempt.kill()
        self.keep()  # or it would run twice
        end = attempt.wait()
        with self.lock:
            self._alarms.cancel(job)
            self._pool.give_back(attempt.allocation)
            self._settle(job, end)
            self._start_what_fits()
        self.keep()
        attempt.remove()
        with self.lock:
            del self._runners[threading.current_thread()]

    def _time_out(self, job: Job, attempt: Attempt) -> None:
        with self.lock:
            if job.running is attempt:
                job.stop_reason = job.stop_reason or TIMED_OUT
                attempt.stop(job.stop_reason)

    def _settle(self, job: Job, end: AttemptEnd) -> None:
        """Decide what comes after an attempt. Stopped jobs are never retried, as in AWS."""
        job.running = None
        if job.stop_reason is not None:
            self._finish(job, "FAILED", job.stop_reason)
        elif end.exit_code == 0:
            self._finish(job, "SUCCEEDED", end.status_reason)
        elif should_retry(job.submission.retry_strategy, len(job.attempts), end):
            self._make_runnable(job)
        else:
            self._finish(job, "FAILED", end.status_reason)

    def _finish(self, job: Job, status: str, reason: str | None) -> None:
        """End a job and what follows from it: its array's parent, the jobs that depend on it."""
        job.finish(status, reason)
        ended = [job]
        while ended:
            job = ended.pop()
            self._alarms.cancel(job)
            if job.parent is not None and self._finish_parent(job.parent):
                ended.append(job.parent)
            for dependant in self._dependants.pop(job.id, []):
                dependant.unmet.discard(job.id)
                if dependant.finished:
                    continue
                if job.status == "FAILED":
                    dependant.finish("FAILED", DEPENDENCY_FAILED)
                    ended.append(dependant)
                elif not dependant.unmet:
                    self._make_runnable(dependant)

    def _finish_parent(self, parent: Job) -> bool:
        """End an array job once all its children have ended; say whether that is now."""
        if parent.finished or not all(child.finished for child in parent.children):
            return False
        if all(child.status == "SUCCEEDED" for child in parent.children):
            parent.finish("SUCCEEDED", None)
        else:
            parent.finish("FAILED", parent.stop_reason or CHILD_FAILED)
        return True
