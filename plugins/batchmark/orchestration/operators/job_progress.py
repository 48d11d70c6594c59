"""Track a job from Batch's descriptions of it, and whether it exceeds a limit."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

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
    """A limit that a job has exceeded."""

    reason: str
    is_stuck: bool = False  # whether a diagnosis may find out what the job waits for


class WaitLimits(NamedTuple):
    """Limits in seconds, the deadline and the latest turn since the epoch; None for no limit."""

    runnable_seconds: float | None = None
    starting_seconds: float | None = None
    longest_seconds: float | None = None
    deadline: float | None = None
    latest_turn: float | None = None

    def is_turn_missed(self, now: float) -> bool:
        """Whether it is too late to submit the job."""
        return any(end is not None and now > end for end in (self.deadline, self.latest_turn))

    def is_too_long(self, seconds: float) -> bool:
        """Whether no job may take this long."""
        return self.longest_seconds is not None and seconds > self.longest_seconds


class JobProgress:
    """A job as of Batch's latest answer. Times are in seconds since the epoch."""

    def __init__(self, job_id: str, limits: WaitLimits, now: float) -> None:
        self.job: JobDescription = {"jobId": job_id, "jobName": "?", "status": "UNKNOWN"}
        self.first_seen: dict[str, float] = {}  # time of the latest entry into each state
        self.diagnosis: str | None = None
        self._limits = limits
        self._now = self._known_at = now
        self._is_current = False
        self._waiting_from = 0.0
        self._stop_reason: str | None = None
        self.is_stopping = False  # whether Batch has accepted its termination
        self._stopping_since: float | None = None

    def update(self, answer: Answer, now: float) -> None:
        """Take in Batch's answer."""
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
        limits, job = self._limits, self.job
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
            return self._limits.runnable_seconds, self._now - since
        if self.job["status"] == "STARTING":
            return self._limits.starting_seconds, self._now - self.first_seen["STARTING"]
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
