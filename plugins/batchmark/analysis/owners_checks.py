"""Selects users' own jobs whose results pass their owners' checks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

from batchmark.core.formatting import count
from batchmark.core.own_jobs import TAKEN
from batchmark.core.row_values import ToldMetric
from batchmark.core.run import CollectedJob
from batchmark_job.result.document import Measurement, MeasurementStatus
from batchmark_job.result.values import Parameter

# A row's size parameters, the same for all rows of a job.
Size: TypeAlias = tuple[tuple[str, Parameter], ...]
OUTPUTS_DIFFER = "the sides' outputs differ"
SHOWN_DIGITS = 12  # of a checksum, in messages


def size_of(parameters: Mapping[str, Parameter]) -> Size:
    return tuple(sorted(pair for pair in parameters.items() if pair[0] not in TAKEN))


def has_valid_results(job: CollectedJob) -> bool:
    """Check whether a user's own job has valid results; jobs in other suites count as valid."""
    measured = MeasurementStatus.MEASURED
    rows = job.document.measurements
    return job.document.own_job is None or any(row.status is measured for row in rows)


def check_problems(jobs_of: Mapping[str, Sequence[CollectedJob]]) -> dict[str, dict[Size, str]]:
    """Return why users' own jobs can't be compared, by target and size.

    One failed check rules out all jobs of that size on the target. If the owner specified no
    checksum, all jobs of a size must produce the same output on every target.
    """
    rows = {name: _whole_jobs(jobs) for name, jobs in jobs_of.items()}
    problems = {
        name: {size: problem for size, found in sizes.items() if (problem := _problem(found))}
        for name, sizes in rows.items()
    }
    for size in dict.fromkeys(size for sizes in rows.values() for size in sizes):
        outputs = {
            name: output
            for name, sizes in rows.items()
            if size not in problems[name] and (output := _output(sizes.get(size, [])))
        }
        if len(set(outputs.values())) > 1:
            told = ", ".join(f"{name} has {sha[:SHOWN_DIGITS]}" for name, sha in outputs.items())
            for name in outputs:
                problems[name][size] = f"{OUTPUTS_DIFFER}; by SHA-256, {told}"
    return problems


def _whole_jobs(jobs: Iterable[CollectedJob]) -> dict[Size, list[Measurement]]:
    found: dict[Size, list[Measurement]] = defaultdict(list)
    for job in jobs:
        for row in job.document.measurements:
            if row.check and not ToldMetric.of(row.parameters):
                found[size_of(row.parameters)].append(row)
    return found


def _problem(found: Iterable[Measurement]) -> str | None:
    """Return why a target's jobs of one size don't count, or None; interrupted jobs are ignored."""
    ended = [row for row in found if row.status is not MeasurementStatus.INTERRUPTED]
    failed = [row for row in ended if row.check and not row.check.passed]
    if failed:
        reasons = dict.fromkeys((row.check and row.check.detail) or row.reason for row in failed)
        told = "; ".join(filter(None, reasons))
        return f"{len(failed)} of {count(len(ended), 'job')} failed: {told}"
    outputs = {row.check.output_sha256 for row in ended if row.check} - {None}
    return "its outputs differ from job to job" if len(outputs) > 1 else None


def _output(found: Iterable[Measurement]) -> str | None:
    """Return the jobs' common output checksum; None if there is none or the owner specified it."""
    checks = (row.check for row in found if row.check and not row.check.is_wanted_sha256)
    return next(filter(None, (check.output_sha256 for check in checks)), None)
