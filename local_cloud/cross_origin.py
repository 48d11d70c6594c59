"""Keeps pages that a browser on this machine shows from calling what can run commands here."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING

from werkzeug.wrappers import Response

if TYPE_CHECKING:
    from collections.abc import Iterable
    from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

REFUSED = "The local cloud takes no requests of a page's scripts and forms; links to it work\n"


class NoScripts:
    """WSGI middleware: refuses what names an origin, as a page's scripts and forms do."""

    def __init__(self, app: WSGIApplication) -> None:
        self._app = app

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        if "HTTP_ORIGIN" in environ:
            return Response(REFUSED, status=HTTPStatus.FORBIDDEN)(environ, start_response)
        return self._app(environ, start_response)
