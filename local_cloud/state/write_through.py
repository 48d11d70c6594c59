"""Holds back the response to a call until its changes are on disk."""

from __future__ import annotations

from collections.abc import Iterable
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

from local_cloud.calls import describe
from local_cloud.state.store import ALL, JOB_SERVICES, Services, Store

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
# Calls to these change only their own service. Calls to other services may change all.
SELF_CONTAINED = frozenset(
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
JOB_CALLS = ("SubmitJob", "TerminateJob", "CancelJob")


class WriteThrough:
    """WSGI middleware that writes a call's changes to disk before responding."""

    def __init__(self, app: WSGIApplication, store: Store) -> None:
        self._app = app
        self._store = store

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        call = describe(environ)
        service, operation = call["service"], call["operation"]
        if is_reading(service, operation, environ["REQUEST_METHOD"]):
            return self._app(environ, start_response)
        reach = reach_of(service, operation)
        if operation == "ReceiveMessage":  # long polling would hold up every commit
            answer = list(self._app(environ, start_response))
            self._store.commit(reach)
            return answer
        with self._store.changing(reach):
            return list(self._app(environ, start_response))


def reach_of(service: str | None, operation: str | None) -> Services | None:
    """Return the services that a call can change, or None if it can change all of them."""
    if service in SELF_CONTAINED:
        return frozenset({str(service)})
    if service in ("events", "sns") or (service == "batch" and operation in JOB_CALLS):
        return JOB_SERVICES
    return ALL


def is_reading(service: str | None, operation: str | None, method: str) -> bool:
    """Return whether a call only reads, judged by its HTTP method (S3, unknown service) or name."""
    if service == "s3" or service is None:
        return method in ("GET", "HEAD", "OPTIONS")
    return operation is not None and operation.startswith(READING)
