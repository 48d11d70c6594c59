"""Puts faults between the callers and the services, and takes orders for them."""

from __future__ import annotations

import itertools
import json
import random
import socket
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any

from moto.batch.models import batch_backends
from moto.core.request import determine_request_protocol
from moto.core.utils import get_service_model
from pydantic import ValidationError
from werkzeug.exceptions import (
    BadRequest,
    Forbidden,
    HTTPException,
    MethodNotAllowed,
    NotFound,
)
from werkzeug.wrappers import Request, Response

from local_cloud.batch.spot import SpotReclaim
from local_cloud.faults.answers import REFUSED_WRITES, UNAVAILABLE, ServiceError, answer, throttled
from local_cloud.faults.kinds import (
    FAULT,
    CallFault,
    Fault,
    InvalidEnvironment,
    LateAnswer,
    MissingImage,
    Outage,
    RefusedWrites,
    SpotInterruption,
    Throttle,
)
from local_cloud.recorder import describe

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

    from local_cloud.batch.scheduler import Scheduler

PATH = "/_faults"
READING = ("GET", "HEAD", "OPTIONS")


@dataclass(eq=False)
class Active:
    """A fault under way. `undo` ends what it did to Batch."""

    id: str
    fault: Fault
    random: random.Random
    strikes: int = 0
    undo: Callable[[], None] = lambda: None
    timer: threading.Timer | None = None
    began: float = field(default_factory=time.monotonic)

    def shown(self) -> dict[str, Any]:
        lasts = self.fault.seconds
        left = None if lasts is None else max(0.0, lasts - (time.monotonic() - self.began))
        return {
            "id": self.id,
            **self.fault.model_dump(),
            "strikes": self.strikes,
            "remaining_seconds": None if left is None else round(left, 1),
        }


class Faults:
    """WSGI middleware: control at `/_faults`, every other call as the faults under way let it."""

    def __init__(self, app: WSGIApplication, scheduler: Scheduler) -> None:
        self._app = app
        self._scheduler = scheduler
        self._active: dict[str, Active] = {}
        self._ids = itertools.count(1)
        self._lock = threading.Lock()

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        path = environ["PATH_INFO"]
        if path == PATH or path.startswith(f"{PATH}/"):
            return self._control(Request(environ))(environ, start_response)
        calls = [one for one in list(self._active.values()) if isinstance(one.fault, CallFault)]
        if not calls:
            return self._app(environ, start_response)
        call = describe(environ)
        delay = 0.0
        for one in calls:
            if not self._strikes(one, call, environ):
                continue
            if isinstance(one.fault, LateAnswer):
                delay += one.fault.delay_seconds
            elif isinstance(one.fault, Outage) and one.fault.how == "drop":
                drop(environ)
            else:
                error = error_of(one.fault, call["service"])
                protocol = protocol_of(call["service"], environ.get("CONTENT_TYPE"))
                return answer(protocol, error)(environ, start_response)
        answered = self._app(environ, start_response)
        time.sleep(delay)
        return answered

    def _strikes(self, one: Active, call: dict[str, Any], environ: WSGIEnvironment) -> bool:
        """Whether a fault of calls meets this one."""
        fault = one.fault
        assert isinstance(fault, CallFault)  # noqa: S101
        if not fault.covers(call["service"], call["operation"], call["resources"] or []):
            return False
        if isinstance(fault, RefusedWrites) and environ["REQUEST_METHOD"] in READING:
            return False
        with self._lock:
            if isinstance(fault, Throttle) and one.random.random() >= fault.share:
                return False
            one.strikes += 1
        return True

    def _control(self, request: Request) -> Response:
        try:
            if not ip_address(request.remote_addr or "").is_loopback:
                raise Forbidden("faults are switched from the local cloud's own machine only")
            parts = [part for part in request.path.removeprefix(PATH).split("/") if part]
            return self._dispatch(request, parts)
        except HTTPException as error:
            return json_response({"message": error.description}, error.code or 500)

    def _dispatch(self, request: Request, parts: list[str]) -> Response:
        match request.method, parts:
            case "GET", []:
                shown = [one.shown() for one in list(self._active.values())]
                return json_response({"faults": shown}, 200)
            case "GET", ["jobs", job_id]:
                return json_response(self._job(job_id), 200)
            case "POST", []:
                return json_response(self._begin(request.get_data()).shown(), 201)
            case "DELETE", []:
                for fault_id in list(self._active):
                    self._end(fault_id)
                return Response(status=204)
            case "DELETE", [fault_id]:
                if not self._end(fault_id):
                    raise NotFound(f"no fault {fault_id} is under way")
                return Response(status=204)
            case _:
                raise MethodNotAllowed(description=f"no {request.method} of {request.path}")

    def _begin(self, body: bytes) -> Active:
        try:
            fault = FAULT.validate_json(body)
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(str(part) for part in first["loc"]) or "fault"
            raise BadRequest(f"{where}: {first['msg']}, got {first['input']!r}") from error
        seed = fault.seed if isinstance(fault, Throttle) else 0
        one = Active(str(next(self._ids)), fault, random.Random(seed))
        self._do(one)
        self._active[one.id] = one
        if fault.seconds is not None:
            one.timer = threading.Timer(fault.seconds, self._end, (one.id,))
            one.timer.daemon = True
            one.timer.start()
        return one

    def _end(self, fault_id: str) -> bool:
        one = self._active.pop(fault_id, None)
        if one is None:
            return False
        if one.timer is not None:
            one.timer.cancel()
        one.undo()
        return True

    def _do(self, one: Active) -> None:
        """Begin what a fault does to Batch itself."""
        match one.fault:
            case InvalidEnvironment(compute_environment=name, reason=reason):
                environment = find_environment(name)
                if environment is None:
                    raise NotFound(f"no compute environment {name!r} to make INVALID")

                def set_reason(value: str | None) -> None:
                    environment.invalid_reason = value
                    self._scheduler.environments_changed()

                set_reason(reason)
                one.undo = lambda: set_reason(None)
            case MissingImage(image=image):
                self._scheduler.missing_images.add(image)
                one.undo = lambda: self._scheduler.missing_images.discard(image)
            case SpotInterruption() as asked:

                def struck() -> None:
                    one.strikes += 1

                reclaim = SpotReclaim(
                    self._scheduler, struck=struck, **asked.model_dump(exclude={"kind", "seconds"})
                )
                reclaim.begin()
                one.undo = reclaim.end

    def _job(self, job_id: str) -> dict[str, Any]:
        for backend in batch():
            with self._scheduler.lock:
                job = backend.find_job(job_id)
                if job is not None:
                    attempt = job.running
                    pids = attempt.command_pids() if attempt is not None else []
                    return {"job_id": job.id, "status": job.status, "pids": pids}
        raise NotFound(f"no job {job_id!r}")


def batch() -> list[Any]:
    """The Batch of every account and region that was ever used."""
    return [backend for regions in batch_backends.values() for backend in regions.values()]


def find_environment(name: str) -> Any:
    for backend in batch():
        if environment := backend.get_compute_environment(name):
            return environment
    return None


def error_of(fault: CallFault, service: str | None) -> ServiceError:
    if isinstance(fault, RefusedWrites):
        return REFUSED_WRITES[fault.code]
    if isinstance(fault, Throttle) and service:
        return throttled(service)
    return UNAVAILABLE


def protocol_of(service: str | None, content_type: str | None) -> str:
    """What a caller of this service speaks; JSON where the service is not known."""
    if not service:
        return "json"
    model = get_service_model(service)
    try:
        return determine_request_protocol(model, content_type)
    except NotImplementedError:
        return str(model.protocol)


def drop(environ: WSGIEnvironment) -> None:
    """Close the connection without an answer."""
    with suppress(OSError):
        environ["werkzeug.socket"].shutdown(socket.SHUT_RDWR)
    raise ConnectionResetError


def json_response(body: dict[str, Any], status: int) -> Response:
    return Response(json.dumps(body), status=status, content_type="application/json")
