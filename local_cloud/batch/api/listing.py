"""Filters jobs for ListJobs and splits the result into pages."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from moto.batch.exceptions import ClientException

from local_cloud.batch.jobs.job import STATUSES, Job
from local_cloud.batch.jobs.retry import matches

DEFAULT_PAGE = 100  # ListJobs' most with filters; by status, AWS returns up to 1,000


def by_status(jobs: Iterable[Job], status: str | None) -> list[Job]:
    """Return the jobs in the given state; as in AWS, the default is RUNNING."""
    if status is not None and status not in STATUSES:
        raise ClientException(f"jobStatus must be one of {' | '.join(STATUSES)}, not {status}")
    return [job for job in jobs if job.status == (status or "RUNNING")]


def by_filters(jobs: Iterable[Job], filters: list[dict[str, Any]]) -> list[Job]:
    """Return the jobs that match the filter, newest first; like AWS, accept only one filter."""
    if len(filters) != 1:
        raise ClientException(
            f"Only one filter can be specified, but the request has {len(filters)}"
        )
    name, values = filters[0]["name"], filters[0]["values"]
    tests = {
        "JOB_NAME": lambda job, value: matches(value.lower(), job.submission.name.lower()),
        "AFTER_CREATED_AT": lambda job, value: job.created_at > int(value),
    }
    if name not in tests:
        raise ClientException(
            f"The local cloud does not support the filter {name}; it supports only "
            f"{' | '.join(tests)}"
        )
    kept = [job for job in jobs if any(tests[name](job, value) for value in values)]
    return sorted(kept, key=lambda job: job.sequence, reverse=True)


def page(
    summaries: list[dict[str, Any]], max_results: int | None, token: str | None
) -> dict[str, Any]:
    """Return one page of the response; the token is the index at which the next page starts."""
    start = int(token or 0)
    end = start + int(max_results or DEFAULT_PAGE)
    answer: dict[str, Any] = {"jobSummaryList": summaries[start:end]}
    if end < len(summaries):
        answer["nextToken"] = str(end)
    return answer
