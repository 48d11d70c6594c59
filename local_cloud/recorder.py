"""Records who called what, to verify that IAM policies allow only what is needed."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

from local_cloud.calls import describe


class Recorder:
    """WSGI middleware that appends one JSON line per request to a file.

    Each line has `time` (UTC), `access_key_id`, `service` and `operation` (as in an IAM action),
    `resources` (ARNs of the resources named in the request), `conditions` (values of IAM condition
    keys in the request) and the HTTP `status`. Unknown values are null.
    """

    def __init__(self, app: WSGIApplication, path: Path) -> None:
        self._app = app
        self._file = path.open("a", buffering=1, encoding="utf-8")
        self._lock = threading.Lock()

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        call = describe(environ)
        status = 500

        def start(line: str, *arguments: Any) -> Callable[[bytes], object]:
            nonlocal status
            status = int(line.split(maxsplit=1)[0])
            return start_response(line, *arguments)

        try:
            return self._app(environ, start)
        finally:
            self._write({"time": datetime.now(UTC).isoformat(), **call, "status": status})

    def close(self) -> None:
        with self._lock:
            self._file.close()

    def _write(self, line: dict[str, Any]) -> None:
        with self._lock:
            if not self._file.closed:  # a last request may still be in progress
                self._file.write(json.dumps(line) + "\n")
