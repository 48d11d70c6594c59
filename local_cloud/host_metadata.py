"""EC2's instance metadata of a job's host: of all it holds, only what Spot says of the host's end.

The rest is not found, as a machine that is no EC2 instance has no type, zone or image.
"""

from __future__ import annotations

import json
import re
import secrets
import time
from collections.abc import Callable, Iterable
from datetime import datetime
from http import HTTPStatus
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

from werkzeug.wrappers import Request, Response

from local_cloud.batch.running.environment_variables import HOST_METADATA_PATH

PATH = re.compile(HOST_METADATA_PATH + r"/(?P<task_id>[0-9a-f]{32})(?P<rest>/.*)")
TOKEN_PATH = "/latest/api/token"  # noqa: S105 - a path
NOTICE_PATH = "/latest/meta-data/spot/instance-action"
TOKEN_SECONDS = range(1, 21_601)


class HostMetadata:
    """WSGI middleware: version 2 of the instance metadata service, which wants a token.

    Source: EC2 User Guide, "Use the Instance Metadata Service" and "Spot Instance interruption
    notices".

    Args:
        reclaim_time: when the host of an ECS task goes back; None if nobody has said so.
    """

    def __init__(
        self, app: WSGIApplication, reclaim_time: Callable[[str], datetime | None]
    ) -> None:
        self._app = app
        self._reclaim_time = reclaim_time
        self._tokens: dict[str, float] = {}

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        match = PATH.fullmatch(environ.get("PATH_INFO", ""))
        if match is None:
            return self._app(environ, start_response)
        return self._answer(Request(environ), match)(environ, start_response)

    def _answer(self, request: Request, match: re.Match[str]) -> Response:
        if (request.method, match["rest"]) == ("PUT", TOKEN_PATH):
            return self._new_token(request)
        if request.method not in ("GET", "HEAD"):
            return Response(status=HTTPStatus.METHOD_NOT_ALLOWED)
        token = request.headers.get("X-aws-ec2-metadata-token", "")
        if self._tokens.get(token, 0.0) < time.monotonic():
            return Response(status=HTTPStatus.UNAUTHORIZED)
        reclaimed_at = self._reclaim_time(match["task_id"])
        if match["rest"] != NOTICE_PATH or reclaimed_at is None:
            return Response(status=HTTPStatus.NOT_FOUND)
        notice = {"action": "terminate", "time": f"{reclaimed_at:%Y-%m-%dT%H:%M:%SZ}"}
        return Response(json.dumps(notice), content_type="application/json")

    def _new_token(self, request: Request) -> Response:
        if "X-Forwarded-For" in request.headers:
            return Response(status=HTTPStatus.FORBIDDEN)
        asked = request.headers.get("X-aws-ec2-metadata-token-ttl-seconds", "")
        if not asked.isdecimal() or int(asked) not in TOKEN_SECONDS:
            return Response(status=HTTPStatus.BAD_REQUEST)
        token = secrets.token_urlsafe(40)
        now = time.monotonic()
        self._tokens = {known: end for known, end in self._tokens.items() if end >= now}
        self._tokens[token] = now + int(asked)
        return Response(token, headers={"X-aws-ec2-metadata-token-ttl-seconds": asked})
