"""A job's log as a page for people, where AWS has its console."""

from __future__ import annotations

import re
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from moto.batch.models import batch_backends
from moto.logs.models import logs_backends
from werkzeug.wrappers import Response

if TYPE_CHECKING:
    from collections.abc import Iterable
    from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

    from local_cloud.batch.job import Job

PATH = re.compile(r"/local-cloud/jobs/(?P<job_id>[^/]+)/log")


class LogPages:
    """WSGI middleware: `GET /local-cloud/jobs/ID/log` is the log of a job's last attempt so far."""

    def __init__(self, app: WSGIApplication) -> None:
        self._app = app

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        asked = PATH.fullmatch(environ.get("PATH_INFO", ""))
        if asked is None:
            return self._app(environ, start_response)
        job = find_job(asked["job_id"])
        if job is None:
            missing = f"The local cloud knows no job {asked['job_id']}\n"
            answer = Response(missing, status=HTTPStatus.NOT_FOUND)
        else:
            answer = Response(page(job))
        return answer(environ, start_response)


def find_job(job_id: str) -> Job | None:
    """A job of any account and region."""
    backends: list[Any] = [one for regions in batch_backends.values() for one in regions.values()]
    return next((job for backend in backends if (job := backend.find_job(job_id))), None)


def page(job: Job) -> str:
    """The log's lines, or where the job stands while it has none."""
    state = f"Job {job.id} is {job.status}"
    if not job.attempts:
        return f"{state} and has no log yet.\n"
    node = job.submission.main_node or 0
    _, _, _, region, account, _ = job.arn.split(":", 5)
    groups = logs_backends[account][region].groups
    group = groups.get(job.submission.containers[node].log_group)
    stream = group and group.streams.get(job.attempts[-1].nodes[node].log_stream_name)
    lines = [event.message for event in list(stream.events)] if stream else []
    return "\n".join([f"{state}, attempt {len(job.attempts)}", *lines, ""])
