"""Track a job from Batch's descriptions of it, and whether it exceeds a limit."""

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
    """What a job's trigger is told, beside the job's id. Limits are in seconds; None for no limit.

    Attributes:
        request: SubmitJob's arguments for a job that is still to be submitted.
        after: map index of the task whose end it waits for before that; None for none.
        ahead: map indexes of the tasks that come 2, 4, 8, ... before it. Airflow is asked the more
            seldom the more of them are not over.
        first: map index of the first job of its side: where that failed by its own error, this one
            is not run.
        alone: whether it also waits until no other job is in its queue.
        runnable_seconds: how long the job may wait for an instance, from its submission or its
            last attempt's end, while no queue that shares its capacity is busy.
        starting_seconds: how long an attempt may be STARTING.
        longest_seconds: how long the job may take in all, from its submission.
        deadline: time after which no job of the task may run, in seconds since the epoch.
        latest_turn: time after which the job is not submitted any more, as `deadline`.
        document: fields of the ExpectedDocument; None if the job succeeds without one.
        on_demand: SubmitJob's arguments for a second job, which follows if the last attempt lost
            its host; None for no second job.
        queues_of_same_quota: while these start or run jobs, this job's waiting time does not
            count, as they may hold what it waits for.
        earlier_job_ids: the Spot job that this one replaced, if any.
        events_log_group: where EventBridge logs blocked queues, for a diagnosis.
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
        """Whether it is too late to submit the job."""
        return any(end is not None and now > end for end in (self.deadline, self.latest_turn))

    def is_too_long(self, seconds: float) -> bool:
        return self.longest_seconds is not None and seconds > self.longest_seconds


class JobProgress:
    """A job as of Batch's latest answer. Times are in seconds since the epoch."""

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
        """Whether it waits for an instance."""
        return self.job["status"] in NOT_PLACED

    @property
    def may_wait_for_others(self) -> bool:
        """Whether it may run once other jobs end: not if Batch says that it never fits."""
        reason = str(self.job.get("statusReason", ""))
        return self.is_waiting and not reason.startswith(NEVER_FITS)

    @property
    def was_cancelled_as_stuck(self) -> bool:
        """Whether its queue's time limit cancelled it before it first started."""
        reason = str(self.job.get("statusReason", ""))
        return (
            self.job["status"] == "FAILED"
            and not self.is_stopping
            and "startedAt" not in self.job
            and any(words in reason for words in BLOCKED)
        )

    def exceeded_limit(self) -> ExceededLimit | None:
        """Return the first limit that the job has exceeded."""
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
        """Return the limit of the job's state and how long it has been in it, in seconds."""
        if self.is_waiting:
            since = max(waiting_since(self.job), self._waiting_from)
            return self._order.runnable_seconds, self._now - since
        if self.job["status"] == "STARTING":
            return self._order.starting_seconds, self._now - self.first_seen["STARTING"]
        return None, 0.0

    def restart_wait(self) -> None:
        """Count its waiting time from now on, as what it waits for is in use."""
        self._waiting_from = self._now

    def stop(self, reason: str, *, is_terminated: bool) -> None:
        """Note that the job has to end, and whether Batch has accepted its termination."""
        self._stop_reason = reason
        self.is_stopping = is_terminated
        if self._stopping_since is None:
            self._stopping_since = self._now

    def ended(self) -> bool:
        """Return whether the job has ended or is given up; then its reason is complete."""
        reason = self._stop_reason
        if self.job["status"] in FINISHED:
            # Batch cuts off a long reason.
            if self.is_stopping and str(reason).startswith(self.job.get("statusReason", "?")):
                self._set_reason(str(reason))
            return True
        if self._stopping_since is not None and self._now - self._stopping_since > STOP_SECONDS:
            self._set_reason(
                f"{reason}. It was told to stop, and {STOP_SECONDS} s later it had not"
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
    """Return the state and its attempt: between two answers a job may have begun another."""
    return job["status"], len(job.get("attempts", []))
