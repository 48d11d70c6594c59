"""Tracks a job's progress using Batch's descriptions, and checks its time limits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from batchmark.aws.job_description import FINISHED, JobDescription, waiting_since

if TYPE_CHECKING:
    from batchmark.orchestration.operators.job_watch import Answer

NOT_PLACED = ("SUBMITTED", "PENDING", "RUNNABLE")
# How Batch's reasons for a blocked queue begin.
NEVER_FITS = "MISCONFIGURATION:"
BLOCKED = (NEVER_FITS, "CAPACITY:")
# How long to wait for a job to end after it was terminated.
STOP_SECONDS = 300
# How long DescribeJobs may not know a job that was just submitted.
UNKNOWN_SECONDS = 60


class ExceededLimit(NamedTuple):
    reason: str
    is_stuck: bool = False  # whether a diagnosis may find out what the job waits for


@dataclass(frozen=True, kw_only=True)
class JobOrder:
    """A job trigger's arguments, except for the job id. A limit of None means no limit.

    Attributes:
        request: SubmitJob's arguments for a job that has not been submitted yet.
        after: map index of any task that must end before the job is submitted.
        ahead: map indexes of the tasks 2, 4, 8, ... places before this one. The more of these
        are unfinished, the less often Airflow is polled.
        first: map index of the first job on the same side of a comparison. If that job failed
        because of its own error, this job is not run.
        alone: whether to also wait until no other job is in the queue.
        runnable_seconds: limit for the wait for an instance, from submission or from the end of the
        last attempt. It does not apply while queues that share the capacity are busy.
        starting_seconds: limit for the time an attempt spends in STARTING.
        longest_seconds: limit for the job's total time from submission.
        deadline: time, in epoch seconds, after which none of the task's jobs may run.
        latest_turn: time, in epoch seconds, after which the job is no longer submitted.
        document: fields of the ExpectedDocument; None if the job can succeed without one.
        on_demand: SubmitJob's arguments for a second job, which is submitted if the last attempt
        lost its host; None for no second job.
        queues_of_same_quota: queues whose jobs might occupy the capacity that the job needs. While
        they start or run jobs, waiting time does not count.
        earlier_job_ids: the Spot job that this one replaced; empty if there was none.
        events_log_group: where EventBridge logs blocked queues, for use in a diagnosis.
    """

    request: dict[str, Any] | None = None
    after: int | None = None
    ahead: Sequence[int] = ()
    first: int | None = None
    alone: bool = True
    runnable_seconds: float | None = None
    starting_seconds: float | None = None
    longest_seconds: float | None = None
    deadline: float | None = None
    latest_turn: float | None = None
    document: dict[str, Any] | None = None
    on_demand: dict[str, Any] | None = None
    queues_of_same_quota: Sequence[str] = ()
    earlier_job_ids: Sequence[str] = ()
    events_log_group: str | None = None

    def is_turn_missed(self, now: float) -> bool:
        """Return whether it is too late to submit the job."""
        return any(end is not None and now > end for end in (self.deadline, self.latest_turn))

    def is_too_long(self, seconds: float) -> bool:
        return self.longest_seconds is not None and seconds > self.longest_seconds


class JobProgress:
    """A job's state according to Batch's latest response. Times are in epoch seconds."""

    def __init__(self, job_id: str, order: JobOrder, now: float) -> None:
        self.job: JobDescription = {"jobId": job_id, "jobName": "?", "status": "UNKNOWN"}
        self.first_seen: dict[str, float] = {}  # time of the latest entry into each state
        self.diagnosis: str | None = None
        self._order = order
        self._now = self._known_at = now
        self._is_current = False
        self._waiting_from = 0.0
        self._stop_reason: str | None = None
        self.is_stopping = False  # whether Batch has accepted its termination
        self._stopping_since: float | None = None

    def update(self, answer: Answer, now: float) -> None:
        self._now = now
        self._is_current = answer.job is not None
        if answer.job is None and answer.problem is None:
            return
        self._known_at = now
        if answer.job is not None:
            before, self.job = _attempt_state(self.job), answer.job
            if _attempt_state(self.job) != before:
                self.first_seen[self.job["status"]] = now

    @property
    def is_waiting(self) -> bool:
        """Whether the job is waiting for an instance."""
        return self.job["status"] in NOT_PLACED

    @property
    def may_wait_for_others(self) -> bool:
        """Whether the job might start once others end; false if Batch says it never will."""
        reason = str(self.job.get("statusReason", ""))
        return self.is_waiting and not reason.startswith(NEVER_FITS)

    @property
    def was_cancelled_as_stuck(self) -> bool:
        """Whether Batch cancelled the job before it ever started, because it blocked its queue."""
        reason = str(self.job.get("statusReason", ""))
        return (
            self.job["status"] == "FAILED"
            and not self.is_stopping
            and "startedAt" not in self.job
            and any(words in reason for words in BLOCKED)
        )

    def exceeded_limit(self) -> ExceededLimit | None:
        """Return the first limit that the job has exceeded, or None."""
        limits, job = self._order, self.job
        if limits.deadline is not None and self._now > limits.deadline:
            return ExceededLimit("The task's execution_timeout has passed")
        longest = limits.longest_seconds
        if longest is not None and self._now - job.get("createdAt", 1e15) / 1000 > longest:
            return ExceededLimit(
                f"It did not end before Batchmark's deadline, {longest:g} s after its submission"
            )
        if not self._is_current:
            return None
        limit, waited = self._wait()
        if limit is not None and waited > limit:
            return ExceededLimit(f"It was {job['status']} for more than {limit:g} s", is_stuck=True)
        self.diagnosis = None
        if not self.is_stopping:
            self._stopping_since = None
        return None

    def _wait(self) -> tuple[float | None, float]:
        """Return the time limit for the job's current state and the seconds spent in it so far."""
        if self.is_waiting:
            since = max(waiting_since(self.job), self._waiting_from)
            return self._order.runnable_seconds, self._now - since
        if self.job["status"] == "STARTING":
            return self._order.starting_seconds, self._now - self.first_seen["STARTING"]
        return None, 0.0

    def restart_wait(self) -> None:
        """Restart the job's waiting time, because the capacity it needs is in use."""
        self._waiting_from = self._now

    def stop(self, reason: str, *, is_terminated: bool) -> None:
        """Record that the job must end, and whether Batch accepted the request to terminate it."""
        self._stop_reason = reason
        self.is_stopping = is_terminated
        if self._stopping_since is None:
            self._stopping_since = self._now

    def ended(self) -> bool:
        """Return whether the job ended or was given up on; if so, complete its status reason."""
        reason = self._stop_reason
        if self.job["status"] in FINISHED:
            # Batch cuts off a long reason.
            if self.is_stopping and str(reason).startswith(self.job.get("statusReason", "?")):
                self._set_reason(str(reason))
            return True
        if self._stopping_since is not None and self._now - self._stopping_since > STOP_SECONDS:
            self._set_reason(
                f"{reason}. Its termination was requested, but {STOP_SECONDS} s later it had still "
                "not ended"
            )
            return True
        if self._now - self._known_at > UNKNOWN_SECONDS:
            self._set_reason("Batch does not know this job")
            return True
        return False

    def add_to_reason(self, more: str) -> None:
        self._set_reason(f"{self.job.get('statusReason')} {more}")

    def _set_reason(self, reason: str) -> None:
        self.job = self.job | {"statusReason": reason}


def _attempt_state(job: JobDescription) -> tuple[str, int]:
    """Return the state and attempt count; a new attempt can have the same state as the last one."""
    return job["status"], len(job.get("attempts", []))
