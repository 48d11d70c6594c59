"""Moves jobs through their states, from waiting for dependencies to SUCCEEDED or FAILED."""

from __future__ import annotations

import logging
import threading
import time
from bisect import insort
from collections import defaultdict
from collections.abc import Callable, Iterable
from datetime import datetime
from functools import partial

from moto.batch.models import ComputeEnvironment

from local_cloud.batch.jobs import overrides
from local_cloud.batch.jobs.job import NOT_STARTED, Job, NodeRecord
from local_cloud.batch.jobs.resources import Allocation
from local_cloud.batch.jobs.retry import AttemptEnd, should_retry
from local_cloud.batch.running.attempt import Attempt
from local_cloud.batch.running.runtime import Runtime
from local_cloud.batch.scheduling.instances import Machine
from local_cloud.batch.scheduling.placement import blocked_reason, environment_for, stuck_reason
from local_cloud.batch.scheduling.pool import Pool, Reservation
from local_cloud.clock import later, now_milliseconds
from local_cloud.file_systems import hosts
from local_cloud.gaps.batch.backend import state_time_limit_actions
from local_cloud.settings import Settings

DEPENDENCY_FAILED = "Dependent Job failed"
CHILD_FAILED = "Array Child Job failed"
TIMED_OUT = "Job attempt duration exceeded timeout"
SHUTDOWN_SECONDS = 10.0  # below STOP_SECONDS of laptop/processes.py, after which it is killed
NEXT_HOST_SECONDS = 0.5  # delay before a host that failed to boot is tried again

log = logging.getLogger(__name__)


class Scheduler:
    """Runs all queues' jobs on one machine.

    Attributes:
        lock: guards every job's state and the scheduler's own state.
        on_running: called, with the lock held, for each job and attempt that has started.
        save: writes the state of all jobs to disk, if `--state` is given.
    """

    def __init__(self, settings: Settings, runtime: Runtime) -> None:
        self.lock = threading.RLock()
        self.runtime = runtime
        self._settings = settings
        self._machine = Machine(Pool(settings.vcpus, settings.memory_mib, settings.gpus))
        self._waiting: list[Job] = []
        self._dependants: dict[str, list[Job]] = defaultdict(list)
        self._timers = JobTimers()
        self.attempts: dict[Job, Attempt] = {}
        self._runners: dict[threading.Thread, Attempt] = {}
        self._closed = False
        self._hosts_down: dict[str, str] = {}  # boot errors, by the ARN of their environment
        self._looks_again = False
        self.on_running: Callable[[Job, Attempt], None] = lambda *_: None
        self.save: Callable[[], None] = lambda: None

    def submit(self, job: Job, prerequisites: Iterable[Job]) -> None:
        """Queue a job once its prerequisites have succeeded, or fail it if one fails.

        Don't pass an array job's parent.
        """
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
        """Resume an earlier server's jobs; remove any of its containers that run none of them."""
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

    def reclaim_time(self, task_id: str) -> datetime | None:
        """Return when Spot will reclaim an ECS task's host, or None if it has given no notice."""
        found = self._find_task(task_id)
        return found and found[0].reclaimed_at

    def address(self, task_id: str) -> str | None:
        """Return a running ECS task's own IP address, or None if it has none."""
        found = self._find_task(task_id)
        return found and found[1].address

    def runs_task(self, task_id: str) -> bool:
        return self._find_task(task_id) is not None

    def _find_task(self, task_id: str) -> tuple[Attempt, NodeRecord] | None:
        with self.lock:
            for attempt in self.attempts.values():
                for node in attempt.record.nodes:
                    if node.task_id == task_id:
                        return attempt, node
        return None

    def cancel(self, job: Job, reason: str) -> None:
        """End a job, or each of an array job's children, unless already STARTING or beyond."""
        with self.lock:
            for child in job.children:
                self.cancel(child, reason)
            if not job.children and job.status in NOT_STARTED:
                job.is_cancelled = True
                self._leave_queue(job, reason)

    def terminate(self, job: Job, reason: str) -> None:
        with self.lock:
            if job.finished:
                return
            job.is_terminated = True
            job.stop_reason = job.stop_reason or reason
            for child in job.children:
                self.terminate(child, reason)
            if job in self.attempts:
                self.attempts[job].stop(reason)
            elif not job.children:
                self._leave_queue(job, reason)

    def environments_changed(self) -> None:
        """Start jobs, or update their status reasons, after a compute environment has changed."""
        with self.lock:
            for job in self._waiting:
                reason = blocked_reason(job.submission.queue)
                if reason != job.status_reason:
                    job.enter("RUNNABLE", reason)
            self._start_what_fits()

    def close(self) -> None:
        """Kill all containers and wait up to ten seconds for them to end."""
        with self.lock:
            self._closed = True
            self._waiting.clear()
            self._timers.clear()
            runners = dict(self._runners)
        for attempt in runners.values():
            attempt.lose_host(0.0)  # as on a Spot reclaim: with --state the job may be retried
            attempt.kill()
        end = time.monotonic() + SHUTDOWN_SECONDS
        for runner in runners:
            runner.join(max(0.0, end - time.monotonic()))
        self.runtime.close()

    def _leave_queue(self, job: Job, reason: str) -> None:
        if job in self._waiting:
            self._waiting.remove(job)
        self._finish(job, "FAILED", reason)
        self._start_what_fits()

    def _make_runnable(self, job: Job) -> None:
        stuck = stuck_reason(job, self._machine)
        job.enter("RUNNABLE", stuck or blocked_reason(job.submission.queue))
        if stuck is None:
            insort(
                self._waiting,
                job,
                key=lambda waiting: (-int(waiting.submission.queue.priority), waiting.sequence),
            )
        else:
            self._timers.set_state_limits(job, self._give_up)

    def _give_up(self, job: Job, reason: str) -> None:
        self.cancel(job, reason)
        self.save()

    def _start_what_fits(self) -> None:
        """Start waiting jobs in order; Pool.take keeps small jobs from starving large ones."""
        if self._closed or self._machine.is_full:
            return
        reserved = Reservation()
        for job in list(self._waiting):
            if reserved.everything():
                return
            environment = environment_for(job)
            if environment is None or not self._hosts_come_up(environment):
                continue
            if refused := overrides.refusal(job, environment.name):
                self._waiting.remove(job)
                self._finish(job, "FAILED", refused)
                continue
            allocation = self._machine.take(environment, job.submission.requirements, reserved)
            if allocation is not None:
                self._waiting.remove(job)
                self._start(job, allocation, environment)

    def _hosts_come_up(self, environment: ComputeEnvironment) -> bool:
        """Return whether an environment's hosts boot; if they don't, schedule another try."""
        try:
            hosts.mounted_file_system(environment)
        except hosts.HostError as error:
            if self._hosts_down.get(environment.arn) != str(error):
                self._hosts_down[environment.arn] = str(error)
                log.warning(
                    "hosts in the compute environment %s failed to boot: %s",
                    environment.name,
                    error,
                )
            if not self._looks_again:
                self._looks_again = True
                later(NEXT_HOST_SECONDS, self._look_again)
            return False
        self._hosts_down.pop(environment.arn, None)
        return True

    def _look_again(self) -> None:
        with self.lock:
            self._looks_again = False
            self._start_what_fits()

    def _start(self, job: Job, allocation: Allocation, environment: ComputeEnvironment) -> None:
        attempt = Attempt(job, allocation, self._settings, self.runtime, environment)
        job.enter("STARTING")
        self._run_in_thread(job, attempt, attempt.start)

    def _resume_attempt(self, job: Job) -> None:
        record, queue = job.attempts[-1], job.submission.queue
        environment = next(
            (found for found in queue.environments if found.name == record.compute_environment),
            queue.environments[0],
        )
        needed = job.submission.requirements
        allocation = self._machine.take_again(environment, needed, record.gpu_ids)
        attempt = Attempt(job, allocation, self._settings, self.runtime, environment, record)
        self._run_in_thread(job, attempt, attempt.resume)

    def _run_in_thread(self, job: Job, attempt: Attempt, begin: Callable[[], bool]) -> None:
        runner = threading.Thread(target=self._run, args=(job, attempt, begin), daemon=True)
        self.attempts[job] = self._runners[runner] = attempt
        runner.start()

    def _run(self, job: Job, attempt: Attempt, begin: Callable[[], bool]) -> None:
        """Run one attempt on its own thread, from its start to the removal of its containers."""
        self.save()  # after a SIGKILL, the next server must know this attempt
        started = begin()
        with self.lock:
            if started:
                job.started_at = attempt.record.started_at
                if job.status != "RUNNING":
                    job.enter("RUNNING")
                if job.stop_reason is not None:
                    attempt.stop(job.stop_reason)
                self._timers.set_timeout(job, lambda: self._time_out(job, attempt))
                self.on_running(job, attempt)
            if self._closed:
                attempt.kill()
        self.save()  # otherwise the next server would start it again
        end = attempt.wait()
        with self.lock:
            self._timers.cancel(job)
            self._machine.give_back(attempt.allocation)
            self._settle(job, end)
            self._start_what_fits()
        self.save()
        attempt.remove()
        with self.lock:
            del self._runners[threading.current_thread()]

    def _time_out(self, job: Job, attempt: Attempt) -> None:
        with self.lock:
            if self.attempts.get(job) is attempt:
                job.stop_reason = job.stop_reason or TIMED_OUT
                attempt.stop(job.stop_reason)

    def _settle(self, job: Job, end: AttemptEnd) -> None:
        """Finish or retry a job after an attempt. As in AWS, a stopped job is never retried."""
        del self.attempts[job]
        stopped_at = job.attempts[-1].stopped_at
        if job.stop_reason is not None:
            self._finish(job, "FAILED", job.stop_reason, stopped_at)
        elif end.exit_code == 0:
            self._finish(job, "SUCCEEDED", end.status_reason, stopped_at)
        elif should_retry(job.submission.retry_strategy, len(job.attempts), end):
            self._make_runnable(job)
        else:
            self._finish(job, "FAILED", end.status_reason, stopped_at)

    def _finish(
        self, job: Job, status: str, reason: str | None, stopped_at: int | None = None
    ) -> None:
        """Finish a job and perhaps its array parent; fail or queue the jobs that depend on them."""
        job.finish(status, reason, stopped_at)
        ended = [job]
        while ended:
            job = ended.pop()
            self._timers.cancel(job)
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
        """Finish an array job once all its children have ended; return whether it just finished."""
        if parent.finished or not all(child.finished for child in parent.children):
            return False
        if all(child.status == "SUCCEEDED" for child in parent.children):
            parent.finish("SUCCEEDED", None)
        else:
            parent.finish("FAILED", parent.stop_reason or CHILD_FAILED)
        return True


class JobTimers:
    """Timers for attempt timeouts and queues' state time limits; they can be cancelled per job."""

    def __init__(self) -> None:
        self._timers: dict[str, list[threading.Timer]] = defaultdict(list)

    def set_timeout(self, job: Job, time_out: Callable[[], None]) -> None:
        """Call `time_out` when the attempt has run for attemptDurationSeconds, if that is set."""
        seconds = job.submission.timeout.get("attemptDurationSeconds")
        if seconds is not None:
            started_at = job.started_at or now_milliseconds()
            left = float(seconds) - (now_milliseconds() - started_at) / 1000
            self._set(job, max(0.0, left), time_out)

    def set_state_limits(self, job: Job, cancel: Callable[[Job, str], None]) -> None:
        """Set a timer for each of the queue's jobStateTimeLimitActions that applies to the job."""
        for action in state_time_limit_actions(job.submission.queue):
            reason = action["reason"]
            if action["state"] == "RUNNABLE" and (job.status_reason or "").startswith(reason):
                self._set(job, float(action["maxTimeSeconds"]), partial(cancel, job, reason))

    def cancel(self, job: Job) -> None:
        for timer in self._timers.pop(job.id, []):
            timer.cancel()

    def clear(self) -> None:
        for timers in list(self._timers.values()):
            for timer in timers:
                timer.cancel()
        self._timers.clear()

    def _set(self, job: Job, seconds: float, function: Callable[[], None]) -> None:
        self._timers[job.id].append(later(seconds, function))
