"""Keeps web pages in a browser on this machine from running commands here."""

from __future__ import annotations

from collections.abc import Iterable
from http import HTTPStatus
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

from werkzeug.wrappers import Response

REFUSED = "The local cloud refuses requests from a page's scripts and forms; links to it work\n"


class CrossOriginGuard:
    """WSGI middleware: refuses requests with an Origin header, as scripts and forms send it."""

    def __init__(self, app: WSGIApplication) -> None:
        self._app = app

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        if "HTTP_ORIGIN" in environ:
            return Response(REFUSED, status=HTTPStatus.FORBIDDEN)(environ, start_response)
        return self._app(environ, start_response)
