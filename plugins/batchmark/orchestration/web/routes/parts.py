"""Parts shared by all routes: the visitor, the bucket and page rendering."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import quote

from fastapi import Depends, Request
from fastapi.responses import Response

from batchmark.history.columns import IMPORTED
from batchmark.history.series import HistoryRun
from batchmark.orchestration.web.access import Reader
from batchmark.orchestration.web.library import Library
from batchmark.report.site.page import Visit

# No script runs, nothing is loaded from elsewhere, and no other site may frame a page.
POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; form-action 'self'; "
    "frame-ancestors 'self'; base-uri 'none'"
)
# As a page of no site: it has no cookies, forms or windows. For what lies in the bucket as it is.
SANDBOXED = {"Content-Security-Policy": f"{POLICY}; sandbox"}

CONTENT_TYPES = {
    "html": "text/html",
    "json": "application/json",
    "csv": "text/csv",
    "md": "text/markdown",
    "png": "image/png",
}


def library(request: Request) -> Library:
    """Return the application's library for the installation's bucket."""
    found: Library = request.app.state.library()
    return found


def visit(request: Request, visitor: Reader) -> Visit:
    return Visit(request.scope.get("root_path", ""), visitor.may_edit, visitor.token)


Books = Annotated[Library, Depends(library)]
Here = Annotated[Visit, Depends(visit)]


def own_runs(books: Library) -> list[HistoryRun]:
    return [run for run in books.measured() if run.suite != IMPORTED]


def download(body: str | bytes, name: str) -> Response:
    kind = CONTENT_TYPES[name.rpartition(".")[2]]
    disposition = {"Content-Disposition": f"attachment; filename*=UTF-8''{quote(name)}"}
    return Response(body, media_type=kind, headers=disposition)
