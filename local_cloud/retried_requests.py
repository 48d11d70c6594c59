"""Makes retries idempotent: a request that an SDK sends again gets the first response."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

from werkzeug.wrappers import Response

from local_cloud.calls import caller_of

KEPT_ANSWERS = 1_000  # judgment: far more than clients send until a retry; 66 MB at most
LARGEST_BYTES = 65_536  # judgment: larger answers are to reads, which may simply run again
# In AWS a retried submission runs a second job, so it does here too.
NOT_IDEMPOTENT = "/v1/submitjob"


class RetriedRequests:
    """WSGI middleware that recognises retries by the invocation id that AWS's SDKs send.

    On a busy machine a response can get lost. Terraform's provider then retries its `Create...` or
    `Delete...` call, which would fail because the resource already exists or no longer exists.

    Submissions of jobs, failed calls and calls with a large response are simply executed again.
    """

    def __init__(self, app: WSGIApplication) -> None:
        self._app = app
        self._answers: OrderedDict[str, Response] = OrderedDict()
        self._lock = threading.Lock()

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        call = environ.get("HTTP_AMZ_SDK_INVOCATION_ID")
        caller = caller_of(environ)
        if not call or caller is None or environ["PATH_INFO"] == NOT_IDEMPOTENT:
            return self._app(environ, start_response)
        with self._lock:
            answer = self._answers.get(call)
        if answer is None:
            answer = Response.from_app(self._app, environ, buffered=True)
            self._keep(call, answer)
        else:
            environ["wsgi.errors"].write(
                f"repeated the first response to a retried {caller.service} call\n"
            )
        return answer(environ, start_response)

    def _keep(self, call: str, answer: Response) -> None:
        size = answer.calculate_content_length()
        if not 200 <= answer.status_code < 300 or size is None or size > LARGEST_BYTES:
            return
        with self._lock:
            self._answers[call] = answer
            if len(self._answers) > KEPT_ANSWERS:
                self._answers.popitem(last=False)
