"""Shows job logs in a browser, as AWS's console does, and answers health checks."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from http import HTTPStatus
from itertools import islice
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

from moto.logs.models import logs_backends
from werkzeug.wrappers import Response

from local_cloud.batch.jobs.job import Job
from local_cloud.gaps import logs
from local_cloud.gaps.batch.backend import used_backends
from local_cloud.gaps.log_events import HEAD

READY = "/local-cloud/ready"
PATH = re.compile(r"/local-cloud/jobs/(?P<job_id>[^/]+)/log")
LINES = 16  # events sent at once; each may have a quarter of a megabyte


class LogPages:
    """WSGI middleware that shows job logs and answers health checks.

    `GET /local-cloud/jobs/ID/log` shows the log of a job's last attempt, and
    `GET /local-cloud/ready` is for health checks.
    """

    def __init__(self, app: WSGIApplication) -> None:
        self._app = app

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        path = environ.get("PATH_INFO", "")
        if path == READY:
            return Response("ready\n")(environ, start_response)
        match = PATH.fullmatch(path)
        if match is None:
            return self._app(environ, start_response)
        job = find_job(match["job_id"])
        if job is None:
            missing = f"The local cloud has no job {match['job_id']}\n"
            answer = Response(missing, status=HTTPStatus.NOT_FOUND)
        else:
            answer = Response(page(job))
        return answer(environ, start_response)


def find_job(job_id: str) -> Job | None:
    """Find a job by id in any account and region; return None if there is none."""
    return next((job for backend in used_backends() if (job := backend.find_job(job_id))), None)


def page(job: Job) -> Iterator[str]:
    """Yield the page with a job's log in parts, because the log might not fit in memory."""
    state = f"Job {job.id} is {job.status}"
    if not job.attempts:
        yield f"{state} and has no log yet.\n"
        return
    yield f"{state}, attempt {len(job.attempts)}\n"
    node = job.submission.main_node or 0
    _, _, _, region, account, _ = job.arn.split(":", 5)
    groups = logs_backends[account][region].groups
    group = groups.get(job.submission.containers[node].log_group)
    if stream := group and group.streams.get(job.attempts[-1].nodes[node].log_stream_name):
        events = logs.events_of(stream)
        _, last = events.span()  # what is written meanwhile may never end
        found = events.after(HEAD, last or 0)
        while some := list(islice(found, LINES)):
            yield "".join(f"{event.message}\n" for event in some)
