"""Which calls change what, and their answers held back until that is on disk."""

from __future__ import annotations

from typing import TYPE_CHECKING

from local_cloud.recorder import describe
from local_cloud.state.store import ALL, OF_JOBS, Services, Store

if TYPE_CHECKING:
    from collections.abc import Iterable
    from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

READING = (
    "BatchCheck",
    "BatchGet",
    "Describe",
    "Filter",
    "Get",
    "Head",
    "List",
    "Lookup",
    "Search",
    "Select",
)
# Calls of these change nothing but their own service. Any other may change every service.
ALONE = frozenset(
    {
        "athena",
        "budgets",
        "cloudwatch",
        "ec2",
        "ecr",
        "glue",
        "iam",
        "kms",
        "logs",
        "s3",
        "sqs",
        "ssm",
    }
)
OF_JOBS_ALONE = ("SubmitJob", "TerminateJob", "CancelJob")


class Durable:
    """WSGI middleware: what a call has changed is on disk before its answer is on its way."""

    def __init__(self, app: WSGIApplication, store: Store) -> None:
        self._app = app
        self._store = store

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        call = describe(environ)
        service, operation = call["service"], call["operation"]
        if is_reading(service, operation, environ["REQUEST_METHOD"]):
            return self._app(environ, start_response)
        reach = reach_of(service, operation)
        if operation == "ReceiveMessage":  # may wait for long, and nobody may wait for it
            answer = list(self._app(environ, start_response))
            self._store.commit(reach)
            return answer
        with self._store.changing(reach):
            return list(self._app(environ, start_response))


def reach_of(service: str | None, operation: str | None) -> Services | None:
    """The services that a call may change, ALL for every one."""
    if service in ALONE:
        return frozenset({str(service)})
    if service in ("events", "sns") or (service == "batch" and operation in OF_JOBS_ALONE):
        return OF_JOBS
    return ALL


def is_reading(service: str | None, operation: str | None, method: str) -> bool:
    """Whether a call changes nothing; what is not known may change anything."""
    if service == "s3" or service is None:
        return method in ("GET", "HEAD", "OPTIONS")
    return operation is not None and operation.startswith(READING)
