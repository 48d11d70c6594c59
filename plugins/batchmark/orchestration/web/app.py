"""The FastAPI application that serves the pages, mounted by Airflow's API server."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from functools import cache, lru_cache

from botocore.exceptions import BotoCoreError, ClientError
from cachetools import TTLCache, cached
from fastapi import Depends, FastAPI, HTTPException, Request
from fastapi.responses import HTMLResponse, JSONResponse, Response

from batchmark.core.errors import BatchmarkError
from batchmark.orchestration.settings import load_config
from batchmark.orchestration.web.access import reader
from batchmark.orchestration.web.library import Library
from batchmark.orchestration.web.routes import account, runs, trends
from batchmark.orchestration.web.routes.parts import POLICY
from batchmark.report.site.page import Visit

CONFIG_SECONDS = 60  # how late pages follow Terraform; without it, each would read Parameter Store
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cache-Control": "private, no-cache",
}
EXPIRED = "Invalid JWT token"  # Airflow's message for a session from before its restart
LOG_IN = "Log in to Airflow first, then open this page again."

log = logging.getLogger(__name__)


@cached(TTLCache(1, CONFIG_SECONDS))
def current_library() -> Library:
    """Return the installation's library, rereading the published configuration every minute.

    Raises:
        ConfigError: no valid configuration is published.
    """
    return _library(load_config().model_dump_json())


@lru_cache(1)
def _library(_: str) -> Library:
    return Library(load_config())


@cache
def application() -> FastAPI:
    """Create the application, without FastAPI's own pages, which wouldn't require a login."""
    app = FastAPI(title="Batchmark", docs_url=None, redoc_url=None, openapi_url=None)
    app.state.library = current_library
    for routes in (runs, trends, account):
        app.include_router(routes.router, dependencies=[Depends(reader)])
    app.add_exception_handler(HTTPException, _refused)
    for kind in (BatchmarkError, BotoCoreError, ClientError):
        app.add_exception_handler(kind, _failed)
    app.middleware("http")(_with_headers)
    return app


async def _with_headers(
    request: Request, answer: Callable[[Request], Awaitable[Response]]
) -> Response:
    response = await answer(request)
    for name, value in HEADERS.items():
        response.headers.setdefault(name, value)
    return response


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)  # noqa: S101 - registered for no other
    if error.status_code == 401 or error.detail == EXPIRED:
        return _message(request, LOG_IN, 401)
    return _message(request, str(error.detail), error.status_code)


async def _failed(request: Request, error: Exception) -> Response:
    log.warning("%s could not be shown: %s", request.url.path, error)
    return _message(request, f"This can't be shown now: {error}", 503)


def _message(request: Request, text: str, status: int) -> Response:
    if "text/html" not in request.headers.get("accept", ""):
        return JSONResponse({"detail": text}, status)
    root = request.scope.get("root_path", "")
    links = [(f"{root.rpartition('/')[0]}/auth/login", "Log in")] if status == 401 else []
    return HTMLResponse(Visit(root).message("Not shown", text, links), status)
