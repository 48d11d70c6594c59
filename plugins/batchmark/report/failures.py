"""Describes a run's failures, with the last log lines, for pages, terminals and messages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from batchmark.core import formatting
from batchmark.core.failures.endings import FailedJob
from batchmark.core.run import LostJob
from batchmark.report import blocks
from batchmark.report.blocks import grouped

TITLE = "What failed"
MOST_KINDS = 5  # judgment: the first kinds usually explain the rest
MOST_TOLD_LINES = 10  # in a message


def section(failed: Sequence[FailedJob], lost: Sequence[LostJob]) -> blocks.Section | None:
    """List the kinds of failure, with the end of one job's log for each; None if no job failed."""
    if not failed:
        return None
    shown: list[blocks.Block] = []
    kinds = alike(failed)
    for of in kinds[:MOST_KINDS]:
        first, lines = of[0], of[0].ending.last_lines
        whose = f"of {first.target}, {first.measures}, repeat {first.repeat}"
        said = f"The last {formatting.count(len(lines), 'line')} of the log {whose}"
        link = blocks.Link("its log", first.log_url) if first.log_url else None
        shown.append(blocks.Printed(f"{title(of)}.", said if lines else "", lines, link))
    if (left := len(kinds) - MOST_KINDS) > 0:
        shown.append(blocks.Text(f"{left} more kinds of failure: see their logs."))
    shown += [blocks.Text(text) for text in not_run(lost)]
    return blocks.Section("failed", TITLE, shown)


def alike(failed: Sequence[FailedJob]) -> list[list[FailedJob]]:
    """Group failed jobs by kind of failure, largest group first."""
    return sorted(grouped((job.ending.kind, job) for job in failed).values(), key=len, reverse=True)


def title(of: Sequence[FailedJob]) -> str:
    """Write a title like "2 jobs on g5.xlarge failed: exit code 3 (the command's own error)"."""
    targets = formatting.shortened_list(list(dict.fromkeys(job.target for job in of)))
    return f"{formatting.count(len(of), 'job')} on {targets} failed: {of[0].ending.how}"


def not_run(lost: Sequence[LostJob]) -> Iterator[str]:
    """Say which jobs were not run, in one sentence per reason."""
    for reason, jobs in grouped((job.reason, job) for job in lost if job.not_run).items():
        each = grouped((job.planned.target, job) for job in jobs)
        where = ", ".join(f"{len(of)} on {target}" for target, of in each.items())
        yield f"{formatting.count(len(jobs), 'more job')} ({where}): {reason}. This cost nothing."


def message(failed: Sequence[FailedJob], lost: Sequence[LostJob]) -> list[str]:
    """List the main failure with its last log lines, other failures, and jobs that were not run.

    The list is empty if no job failed.
    """
    if not failed:
        return []
    first, *others = alike(failed)
    lines = first[0].ending.last_lines[-MOST_TOLD_LINES:]
    more = [f"{title(of)}." for of in others[: MOST_KINDS - 1]]
    return [f"{title(first)}.", *(f"  {line}" for line in lines), *more, *not_run(lost)]


def in_short(failed: Sequence[FailedJob], lost: Sequence[LostJob]) -> str:
    """Summarise each kind of failure, with its last log line, and say which jobs were not run."""
    told = [": ".join(filter(None, (title(of), of[0].ending.kind[1]))) for of in alike(failed)]
    return "\n".join([*told[:MOST_KINDS], *not_run(lost)])
