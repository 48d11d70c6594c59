"""Answers a call that its client sends once more as it was answered before."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import TYPE_CHECKING

from werkzeug.wrappers import Response

from local_cloud.recorder import caller_of

if TYPE_CHECKING:
    from collections.abc import Iterable
    from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

KEPT = 1_000
LARGEST_BYTES = 65_536
# AWS runs a job whose submission is repeated a second time, and so does the local cloud.
TAKEN_ANEW = ("batch",)


class Repeats:
    """WSGI middleware that knows a call's repetitions by the id that AWS's SDKs give all of them.

    On a busy machine an answer can get lost; Terraform's provider, which then sends its `Create...`
    or `Delete...` again, would fail because there is such a thing already, or none any more.
    """

    def __init__(self, app: WSGIApplication) -> None:
        self._app = app
        self._answers: OrderedDict[str, Response] = OrderedDict()
        self._lock = threading.Lock()

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        call = environ.get("HTTP_AMZ_SDK_INVOCATION_ID")
        caller = caller_of(environ)
        if not call or caller is None or caller.service in TAKEN_ANEW:
            return self._app(environ, start_response)
        with self._lock:
            answer = self._answers.get(call)
        if answer is None:
            answer = Response.from_app(self._app, environ, buffered=True)
            self._keep(call, answer)
        else:
            environ["wsgi.errors"].write(
                f"a call of {caller.service} came twice and is answered as before\n"
            )
        return answer(environ, start_response)

    def _keep(self, call: str, answer: Response) -> None:
        size = answer.calculate_content_length()
        if not 200 <= answer.status_code < 300 or size is None or size > LARGEST_BYTES:
            return
        with self._lock:
            self._answers[call] = answer
            if len(self._answers) > KEPT:
                self._answers.popitem(last=False)
