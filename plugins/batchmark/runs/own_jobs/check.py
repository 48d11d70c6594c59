"""Checks the result of a user's own job against its owner's criteria."""

from __future__ import annotations

from typing import Literal

from batchmark.aws.job_description import ENDED_BY_ITSELF, JobDescription, host_terminated
from batchmark.core.failures import exit_codes
from batchmark.core.own_jobs import OwnJobPlan
from batchmark.runs.own_jobs.lines import MISSING, UNKNOWN, Facts, JobOutput
from batchmark_job.result.own_job import OwnersCheck
from batchmark_job.result.values import MOST_CHARACTERS

TIMED_OUT = "Job attempt duration exceeded timeout"  # Batch's status reason
SILENT = (
    "its log contains no line from the shell wrapper: either lines were lost, which can happen "
    "unless the log driver's mode is blocking, or the image has an ENTRYPOINT that takes the "
    "command as its arguments; in that case, set shell to false"
)
OUT_OF_MEMORY = "OutOfMemory"  # how Batch's reason at the container begins


def owners_check(plan: OwnJobPlan, job: JobDescription, told: JobOutput) -> OwnersCheck:
    """Judge a finished job by its exit code, its check's exit code, and its output's SHA-256.

    The check fails if the shell wrapper should have run the command but did not.
    """
    facts = told.facts
    silent = plan.shell and told.is_known and not told.by_a_shell

    def judged(
        kind: Literal["exit_code", "command", "checksum"], problem: str | None
    ) -> OwnersCheck:
        return OwnersCheck(
            kind=kind,
            passed=problem is None,
            detail=problem and problem[:MOST_CHARACTERS],
            output_sha256=facts.output_sha256,
            is_wanted_sha256=plan.output_sha256 is not None,
        )

    # A command may succeed, and its check make the job fail after it.
    if job["status"] != "SUCCEEDED" and (facts.exit_code != 0 or was_stopped(job)):
        why = f"; {SILENT}" if silent and ended_by_itself(job) else ""
        return judged("exit_code", how_it_ended(job) + why)
    if silent:
        return judged("exit_code", SILENT)
    if problem := _problem_of_check(plan, job, told):
        return judged("command", problem)
    if problem := _problem_of_output(plan, job, told):
        return judged("checksum", problem)
    if job["status"] != "SUCCEEDED":
        return judged("exit_code", how_it_ended(job))
    return judged("command" if plan.check else "checksum" if plan.output else "exit_code", None)


def exit_code(job: JobDescription, facts: Facts) -> int | None:
    """Return the command's exit code or, if unknown, its container's; None if neither is known."""
    code: int | None = job.get("container", {}).get("exitCode")
    return code if facts.exit_code is None else facts.exit_code


def was_stopped(job: JobDescription) -> bool:
    """Whether something stopped the job before it ended on its own."""
    told = job.get("isTerminated") or job.get("isCancelled")
    timed_out = str(job.get("statusReason", "")).startswith(TIMED_OUT)
    return bool(told or timed_out or host_terminated(job))


def ended_by_itself(job: JobDescription) -> bool:
    return job.get("container", {}).get("exitCode") is not None and not was_stopped(job)


def is_its_own_error(job: JobDescription) -> bool:
    """Whether a job failed because of its own error, not because something stopped or killed it."""
    container = job.get("container", {})
    killed = container.get("exitCode") in exit_codes.FROM_OUTSIDE
    out_of_memory = str(container.get("reason", "")).startswith(OUT_OF_MEMORY)
    return job["status"] == "FAILED" and ended_by_itself(job) and (out_of_memory or not killed)


def how_it_ended(job: JobDescription) -> str:
    """Describe how a failed job ended, according to Batch."""
    container = job.get("container", {})
    code, reason = container.get("exitCode"), job.get("statusReason")
    stopped = was_stopped(job)
    said = ["no exit code" if code is None else exit_codes.exit_code(code, was_stopped=stopped)]
    said += [reason] if reason and reason != ENDED_BY_ITSELF else []
    said += [container["reason"]] if container.get("reason") else []
    return "; ".join(said)


def _passed_below_its_shell(job: JobDescription, told: JobOutput) -> bool:
    """Whether the wrapper's exit code, which covers the check and output, reports success."""
    return job["status"] == "SUCCEEDED" and told.by_a_shell


def _problem_of_check(plan: OwnJobPlan, job: JobDescription, told: JobOutput) -> str | None:
    facts = told.facts
    if not plan.check or facts.check_exit_code == 0:
        return None
    if facts.check_exit_code is not None:
        return f"its check ended with exit code {facts.check_exit_code}"
    is_right = _passed_below_its_shell(job, told)
    return None if is_right else "its log does not show how its check ended"


def _problem_of_output(plan: OwnJobPlan, job: JobDescription, told: JobOutput) -> str | None:
    facts = told.facts
    if not plan.output:
        return None
    if facts.no_sha256 == MISSING:
        return f"its output {plan.output} is missing"
    if facts.no_sha256 == UNKNOWN:
        return (
            f"the SHA-256 of its output {plan.output} is unknown: the image has no sha256sum, or "
            "the file can't be read"
        )
    if facts.output_sha256 is None:
        is_right = plan.output_sha256 and _passed_below_its_shell(job, told)
        silent = f"its log does not contain the SHA-256 of its output {plan.output}"
        return None if is_right else silent
    wanted = (plan.output_sha256 or facts.output_sha256).lower()
    if facts.output_sha256 == wanted:
        return None
    return f"its output {plan.output} has SHA-256 {facts.output_sha256}, not {wanted}"
