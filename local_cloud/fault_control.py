"""Injects faults into calls and jobs, and serves the API that controls them."""

from __future__ import annotations

import itertools
import json
import random
import socket
import threading
import time
from collections.abc import Iterable
from contextlib import suppress
from ipaddress import ip_address
from typing import Any
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

from pydantic import ValidationError
from werkzeug.exceptions import (
    BadRequest,
    Conflict,
    Forbidden,
    HTTPException,
    MethodNotAllowed,
    NotFound,
)
from werkzeug.wrappers import Request, Response

from local_cloud.batch.jobs.job import Job
from local_cloud.batch.running.attempt import Attempt
from local_cloud.batch.scheduling.scheduler import Scheduler
from local_cloud.calls import describe
from local_cloud.clock import later
from local_cloud.faults import errors
from local_cloud.faults.kinds import (
    FAULT,
    CallFault,
    ExpiredCredentials,
    FileSystemFull,
    InvalidEnvironment,
    LateAnswer,
    NoCapacity,
    Outage,
    RefusedWrites,
    SpotInterruption,
    Throttle,
)
from local_cloud.faults.under_way import UNDER_WAY, Active, active_faults
from local_cloud.file_systems import folders
from local_cloud.file_systems import models as file_systems
from local_cloud.log_pages import find_job

PATH = "/_faults"
READING = ("GET", "HEAD", "OPTIONS")


class Faults:
    """WSGI middleware that injects faults into calls, and serves the control API at `/_faults`."""

    def __init__(self, app: WSGIApplication, scheduler: Scheduler) -> None:
        self._app = app
        self._scheduler = scheduler
        scheduler.on_running = self._on_running
        self._ids = itertools.count(1)
        self._lock = threading.Lock()

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        path = environ["PATH_INFO"]
        if path == PATH or path.startswith(f"{PATH}/"):
            return self._control(Request(environ))(environ, start_response)
        in_calls = list(active_faults(CallFault))
        if not in_calls:
            return self._app(environ, start_response)
        call = describe(environ)
        delay = 0.0
        for active, fault in in_calls:
            if not self._strikes(active, fault, call, environ):
                continue
            if isinstance(fault, LateAnswer):
                delay += fault.delay_seconds
            elif isinstance(fault, Outage) and fault.how == "drop":
                drop(environ)
            else:
                error = error_of(fault, call["service"])
                protocol = errors.protocol_of(call["service"], environ.get("CONTENT_TYPE"))
                return errors.response(protocol, error)(environ, start_response)
        answer = self._app(environ, start_response)
        time.sleep(delay)
        return answer

    def _strikes(
        self, active: Active, fault: CallFault, call: dict[str, Any], environ: WSGIEnvironment
    ) -> bool:
        """Return whether a fault applies to this call; if so, count it as applied."""
        if not fault.covers(call["service"], call["operation"], call["resources"] or []):
            return False
        if isinstance(fault, RefusedWrites) and environ["REQUEST_METHOD"] in READING:
            return False
        with self._lock:
            if isinstance(fault, Throttle) and active.random.random() >= fault.share:
                return False
            active.strikes += 1
        return True

    def _control(self, request: Request) -> Response:
        try:
            if not is_loopback(request.remote_addr):
                raise Forbidden(
                    "faults can be controlled only from the machine that runs the local cloud"
                )
            parts = [part for part in request.path.removeprefix(PATH).split("/") if part]
            return self._dispatch(request, parts)
        except HTTPException as error:
            return json_response({"message": error.description}, error.code or 500)

    def _dispatch(self, request: Request, parts: list[str]) -> Response:
        match request.method, parts:
            case "GET", []:
                shown = [active.shown() for active in list(UNDER_WAY.values())]
                return json_response({"faults": shown}, 200)
            case "GET", ["jobs", job_id]:
                return json_response(self._job(job_id), 200)
            case "POST", ["jobs", job_id, "nodes", node, "kill"] if node.isdecimal():
                return json_response(self._kill_node(job_id, int(node)), 200)
            case "POST", []:
                return json_response(self._begin(request.get_data()).shown(), 201)
            case "DELETE", []:
                for fault_id in list(UNDER_WAY):
                    self._end(fault_id)
                return Response(status=204)
            case "DELETE", [fault_id]:
                if not self._end(fault_id):
                    raise NotFound(f"there is no active fault {fault_id}")
                return Response(status=204)
            case _:
                raise MethodNotAllowed(
                    description=f"{request.method} is not supported on {request.path}"
                )

    def _begin(self, body: bytes) -> Active:
        try:
            fault = FAULT.validate_json(body)
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(str(part) for part in first["loc"]) or "fault"
            raise BadRequest(f"{where}: {first['msg']}, got {first['input']!r}") from error
        seed = fault.seed if isinstance(fault, Throttle) else 0
        active = Active(str(next(self._ids)), fault, random.Random(seed))
        try:
            if isinstance(fault, FileSystemFull):
                folders.check_permitted()
            UNDER_WAY[active.id] = active
            self._apply(active)
        except Exception as error:
            self._end(active.id)  # undo what it did before it failed
            if isinstance(error, folders.NotPermittedError):
                raise Conflict(f"file_system_full: {error}") from error
            raise
        if fault.seconds is not None:
            active.timer = later(fault.seconds, self._end, active.id)
        return active

    def _end(self, fault_id: str) -> bool:
        active = UNDER_WAY.pop(fault_id, None)
        if active is None:
            return False
        if active.timer is not None:
            active.timer.cancel()
        active.undo()
        return True

    def _apply(self, active: Active) -> None:
        """Apply the immediate effects of a fault on Batch or FSx, if it has any."""
        match active.fault:
            case InvalidEnvironment() | NoCapacity():
                self._scheduler.environments_changed()
                active.undo = self._scheduler.environments_changed
            case FileSystemFull():
                active.undo = file_systems.make_room
                file_systems.fill_all()
            case SpotInterruption() as fault:
                with self._scheduler.lock:
                    for job, attempt in self._scheduler.attempts.items():
                        self._reclaim_later(active, fault, job, attempt)

    def _on_running(self, job: Job, attempt: Attempt) -> None:
        for active, fault in active_faults(SpotInterruption):
            self._reclaim_later(active, fault, job, attempt)

    def _reclaim_later(
        self, active: Active, fault: SpotInterruption, job: Job, attempt: Attempt
    ) -> None:
        """Schedule a Spot reclaim of a running attempt's instance if the fault covers it."""
        if fault.covers(job.submission.name, attempt.record.compute_environment):
            later(fault.after_seconds, self._reclaim, active, fault, job, attempt)

    def _reclaim(self, active: Active, fault: SpotInterruption, job: Job, attempt: Attempt) -> None:
        with self._scheduler.lock:
            has_ended = self._scheduler.attempts.get(job) is not attempt
            is_over = active.id not in UNDER_WAY or active.is_spent
            if has_ended or is_over or not attempt.announce_reclaim(fault.notice_seconds):
                return
            active.strikes += 1
        later(fault.notice_seconds, attempt.lose_host, fault.shutdown_seconds)

    def _job(self, job_id: str) -> dict[str, Any]:
        with self._scheduler.lock:
            job, attempt = self._find(job_id)
            by_node = attempt.command_pids() if attempt is not None else {}
            pids = [pid for found in by_node.values() for pid in found]
            shown = {"job_id": job.id, "status": job.status, "pids": pids}
            return {**shown, "nodes": by_node} if job.submission.is_multi_node else shown

    def _kill_node(self, job_id: str, node: int) -> dict[str, Any]:
        with self._scheduler.lock:
            job, attempt = self._find(job_id)
            if attempt is None or not attempt.kill_node(node):
                raise Conflict(f"node {node} of job {job_id} ({job.status}) is not running")
            return {"job_id": job.id, "node": node}

    def _find(self, job_id: str) -> tuple[Job, Attempt | None]:
        job = find_job(job_id)
        if job is None:
            raise NotFound(f"there is no job {job_id!r}")
        return job, self._scheduler.attempts.get(job)


def is_loopback(address: str | None) -> bool:
    try:
        return ip_address(address or "").is_loopback
    except ValueError:
        return False


def error_of(fault: CallFault, service: str | None) -> errors.ServiceError:
    if isinstance(fault, RefusedWrites):
        return errors.REFUSED_WRITES[fault.code]
    if isinstance(fault, ExpiredCredentials):
        return errors.expired(service)
    if isinstance(fault, Throttle) and service:
        return errors.throttled(service)
    return errors.UNAVAILABLE


def drop(environ: WSGIEnvironment) -> None:
    """Close the connection without a response."""
    with suppress(OSError):
        environ["werkzeug.socket"].shutdown(socket.SHUT_RDWR)
    raise ConnectionResetError


def json_response(body: dict[str, Any], status: int) -> Response:
    return Response(json.dumps(body), status=status, content_type="application/json")
