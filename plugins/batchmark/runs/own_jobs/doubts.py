"""Caveats about the figures of a user's own job.

Where possible, texts omit figures specific to one job, so that several jobs can share one text.
"""

from __future__ import annotations

from collections.abc import Iterator

from batchmark.aws.job_description import BLOCKING, JobDescription, may_drop_lines
from batchmark.core.failures.exit_codes import BY_SIGNALS
from batchmark.core.own_jobs import OwnJobPlan
from batchmark.runs.own_jobs.check import ended_by_itself
from batchmark.runs.own_jobs.lines import JobOutput

NOT_ALL = "so metrics may be missing"


def doubts_of_log(plan: OwnJobPlan, job: JobDescription, told: JobOutput) -> Iterator[str]:
    """Yield reasons why lines of a finished job's log might be missing."""
    if not told.is_known:
        yield "its log could not be read, so its metrics are unknown"
        return
    missing = list(_missing(job, told)) if plan.shell and told.by_a_shell else []
    if missing:
        are = "are" if len(missing) > 1 else "is"
        yield f"its log is incomplete: {' and '.join(missing)} {are} missing, {NOT_ALL}"
    elif may_drop_lines(job.get("container", {})):
        yield (
            f"its log may be incomplete, {NOT_ALL}: its driver drops lines that it can't send in "
            f"time unless its mode is {BLOCKING}"
        )


def _missing(job: JobDescription, told: JobOutput) -> Iterator[str]:
    facts = told.facts
    if not facts.began:
        yield "its beginning"
    # A shell that was killed tells no end.
    killed = not ended_by_itself(job) or job["container"]["exitCode"] >= BY_SIGNALS
    if not killed and (facts.exit_code is None or not facts.is_over):
        yield "its end"
