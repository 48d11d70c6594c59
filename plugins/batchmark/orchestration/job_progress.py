"""How far a job has come, by what Batch said of it, and whether it takes too long."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from batchmark.job_description import FINISHED, JobDescription, waiting_since

if TYPE_CHECKING:
    from batchmark.triggers.job_watch import Answer

NOT_PLACED = ("SUBMITTED", "PENDING", "RUNNABLE")
# As Batch's reasons for a blocked queue begin.
NEVER_FITS = "MISCONFIGURATION:"
BLOCKED = (NEVER_FITS, "CAPACITY:")
# How long to wait for the end of a job that was told to stop.
STOP_SECONDS = 300
# How long a job that was just submitted may be unknown to DescribeJobs.
UNKNOWN_SECONDS = 60


class Passed(NamedTuple):
    """A limit that a job is past."""

    reason: str
    is_stuck: bool = False  # it waits for something that a diagnosis may name


class Limits(NamedTuple):
    """In seconds, the deadline since the epoch; None for no limit."""

    runnable_seconds: float | None = None
    starting_seconds: float | None = None
    longest_seconds: float | None = None
    deadline: float | None = None


class Progress:
    """One job, followed from one answer to the next. Times are in seconds since the epoch."""

    def __init__(self, job_id: str, limits: Limits, now: float) -> None:
        self.job: JobDescription = {"jobId": job_id, "jobName": "?", "status": "UNKNOWN"}
        self.first_seen: dict[str, float] = {}  # by state, as it last entered it
        self.diagnosis: str | None = None
        self._limits = limits
        self._now = self._known_at = now
        self._is_current = False
        self._excused_until = 0.0
        self._stop_reason: str | None = None
        self._is_told = False
        self._stop_since: float | None = None

    def note(self, answer: Answer, now: float) -> None:
        self._now = now
        self._is_current = answer.job is not None
        if answer.job is None and answer.problem is None:
            return
        self._known_at = now
        if answer.job is not None:
            before, self.job = _place(self.job), answer.job
            if _place(self.job) != before:
                self.first_seen[self.job["status"]] = now

    @property
    def is_waiting(self) -> bool:
        """Whether it waits for an instance."""
        return self.job["status"] in NOT_PLACED

    @property
    def may_wait_for_others(self) -> bool:
        """Whether an end of other jobs may let it run: not where Batch says that it never fits."""
        reason = str(self.job.get("statusReason", ""))
        return self.is_waiting and not reason.startswith(NEVER_FITS)

    @property
    def was_cancelled_as_stuck(self) -> bool:
        """Whether its queue's own time limit cancelled it before it ever started."""
        reason = str(self.job.get("statusReason", ""))
        return (
            self.job["status"] == "FAILED"
            and not self.is_stopping
            and "startedAt" not in self.job
            and any(words in reason for words in BLOCKED)
        )

    def passed(self) -> Passed | None:
        """The first limit that the job is past."""
        limits, job = self._limits, self.job
        if limits.deadline is not None and self._now > limits.deadline:
            return Passed("The task's execution_timeout has passed")
        longest = limits.longest_seconds
        if longest is not None and self._now - job.get("createdAt", 1e15) / 1000 > longest:
            return Passed(
                f"It did not end before Batchmark's deadline, {longest:g} s after its submission"
            )
        if not self._is_current:
            return None
        limit = waited = None
        if self.is_waiting:
            limit = limits.runnable_seconds
            waited = self._now - max(waiting_since(job), self._excused_until)
        elif job["status"] == "STARTING":
            limit = limits.starting_seconds
            waited = self._now - self.first_seen["STARTING"]
        if limit is None or waited is None or waited <= limit:
            self.diagnosis = None
            if not self._is_told:
                self._stop_since = None
            return None
        return Passed(f"It was {job['status']} for more than {limit:g} s", is_stuck=True)

    def excuse(self) -> None:
        """Count its wait from now on: what it waits for is in use."""
        self._excused_until = self._now

    @property
    def is_stopping(self) -> bool:
        """Whether Batch has been told to end it."""
        return self._is_told

    def stop(self, reason: str, *, is_told: bool) -> None:
        """It has to end; `is_told` once Batch has taken that."""
        self._stop_reason = reason
        self._is_told = is_told
        if self._stop_since is None:
            self._stop_since = self._now

    def ended(self) -> bool:
        """Whether the job has ended, or is to be given up; its reason is then told in full."""
        reason = self._stop_reason
        if self.job["status"] in FINISHED:
            # Batch keeps but the beginning of a long reason.
            if self._is_told and str(reason).startswith(self.job.get("statusReason", "?")):
                self._set_reason(str(reason))
            return True
        if self._stop_since is not None and self._now - self._stop_since > STOP_SECONDS:
            self._set_reason(f"{reason}. It was to end then, and {STOP_SECONDS} s later it had not")
            return True
        if self._now - self._known_at > UNKNOWN_SECONDS:
            self._set_reason("Batch does not know this job")
            return True
        return False

    def add_to_reason(self, more: str) -> None:
        self._set_reason(f"{self.job.get('statusReason')} {more}")

    def _set_reason(self, reason: str) -> None:
        self.job = self.job | {"statusReason": reason}


def _place(job: JobDescription) -> tuple[str, int]:
    """The state, and in which attempt: between two answers a job may have begun another."""
    return job["status"], len(job.get("attempts", []))
