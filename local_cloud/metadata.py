"""Serves the EC2 and ECS metadata that tells jobs about their host and task."""

from __future__ import annotations

import json
import re
import secrets
import time
from collections.abc import Callable, Iterable
from datetime import datetime
from http import HTTPStatus
from typing import Any
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

from werkzeug.wrappers import Request, Response

from local_cloud.batch.running.docker_options import MIB, SHARES_PER_VCPU
from local_cloud.batch.running.docker_runtime import PULL_STARTED, PULL_STOPPED
from local_cloud.batch.running.environment_variables import HOST_METADATA_PATH, TASK_METADATA_PATH
from local_cloud.batch.running.runtime import Runtime

TASK = r"/(?P<task_id>[0-9a-f]{32})"
OF_HOST = re.compile(HOST_METADATA_PATH + TASK + r"(?P<rest>/.*)")
OF_TASK = re.compile(TASK_METADATA_PATH + TASK + r"(?P<of_task>/task)?")
TOKEN_PATH = "/latest/api/token"  # noqa: S105 - a path
NOTICE_PATH = "/latest/meta-data/spot/instance-action"
TOKEN_SECONDS = range(1, 21_601)


class HostMetadata:
    """WSGI middleware that serves EC2 instance metadata, version 2, which requires a token.

    It serves only Spot interruption notices. All other metadata is missing, because this machine is
    not an EC2 instance and has no instance type, zone or image.

    Source: EC2 User Guide, "Use the Instance Metadata Service" and "Spot Instance interruption
    notices".

    Args:
        reclaim_time: returns when an ECS task's host will be reclaimed, or None if it won't be.
        runs: returns whether an ECS task is running; requests for any other task id get 404. Only
            the task itself knows its id.
    """

    def __init__(
        self,
        app: WSGIApplication,
        reclaim_time: Callable[[str], datetime | None],
        runs: Callable[[str], bool],
    ) -> None:
        self._app = app
        self._reclaim_time, self._runs = reclaim_time, runs
        self._tokens: dict[tuple[str, str], float] = {}  # expiry times, by task and token

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        match = OF_HOST.fullmatch(environ.get("PATH_INFO", ""))
        if match is None:
            return self._app(environ, start_response)
        return self._answer(Request(environ), match)(environ, start_response)

    def _answer(self, request: Request, match: re.Match[str]) -> Response:
        task_id = match["task_id"]
        if not self._runs(task_id):
            return Response(status=HTTPStatus.NOT_FOUND)
        if (request.method, match["rest"]) == ("PUT", TOKEN_PATH):
            return self._new_token(request, task_id)
        if request.method not in ("GET", "HEAD"):
            return Response(status=HTTPStatus.METHOD_NOT_ALLOWED)
        token = request.headers.get("X-aws-ec2-metadata-token", "")
        if self._tokens.get((task_id, token), 0.0) < time.monotonic():
            return Response(status=HTTPStatus.UNAUTHORIZED)
        reclaimed_at = self._reclaim_time(task_id)
        if match["rest"] != NOTICE_PATH or reclaimed_at is None:
            return Response(status=HTTPStatus.NOT_FOUND)
        notice = {"action": "terminate", "time": f"{reclaimed_at:%Y-%m-%dT%H:%M:%SZ}"}
        return Response(json.dumps(notice), content_type="application/json")

    def _new_token(self, request: Request, task_id: str) -> Response:
        if "X-Forwarded-For" in request.headers:
            return Response(status=HTTPStatus.FORBIDDEN)
        asked = request.headers.get("X-aws-ec2-metadata-token-ttl-seconds", "")
        if not asked.isdecimal() or int(asked) not in TOKEN_SECONDS:
            return Response(status=HTTPStatus.BAD_REQUEST)
        token = secrets.token_urlsafe(40)
        now = time.monotonic()
        self._tokens = {known: end for known, end in self._tokens.items() if end >= now}
        self._tokens[task_id, token] = now + int(asked)
        return Response(token, headers={"X-aws-ec2-metadata-token-ttl-seconds": asked})


class TaskMetadata:
    """WSGI middleware that serves ECS task metadata, version 4: `/v4/TASK` and `/v4/TASK/task`.

    Args:
        address: returns an ECS task's own IP address, or None if it has none.
    """

    def __init__(
        self, app: WSGIApplication, runtime: Runtime, address: Callable[[str], str | None]
    ) -> None:
        self._app = app
        self._runtime = runtime
        self._address = address

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        match = OF_TASK.fullmatch(environ.get("PATH_INFO", ""))
        if match is None:
            return self._app(environ, start_response)
        found = self._describe(match["task_id"], of_task=bool(match["of_task"]))
        if found is None:
            missing = f"V4 container metadata handler: no task {match['task_id']}\n"
            answer = Response(missing, status=HTTPStatus.NOT_FOUND)
        else:
            answer = Response(json.dumps(found), content_type="application/json")
        return answer(environ, start_response)

    def _describe(self, task_id: str, *, of_task: bool) -> dict[str, Any] | None:
        """Describe a task or its container, or return None if the task is unknown.

        For a task that runs as a process, only the address is known.
        """
        inspected = self._runtime.inspect(task_id)
        address = self._address(task_id) or address_in(inspected or {})
        networks = {"Networks": [{"NetworkMode": "awsvpc", "IPv4Addresses": [address]}]}
        own = networks if address else {}
        if inspected is not None:
            described = {**container(inspected), **own}
            return task(inspected, described) if of_task else described
        if address is None:
            return None
        described = {"DockerId": task_id, "Name": "default", "KnownStatus": "RUNNING", **own}
        return {"LaunchType": "EC2", "Containers": [described]} if of_task else described


def address_in(inspected: dict[str, Any]) -> str | None:
    """Return a container's address on its network, or None if it uses the host's network."""
    networks = (inspected.get("NetworkSettings") or {}).get("Networks") or {}
    found = [network.get("IPAddress") for network in networks.values()]
    return next(filter(None, found), None)


def container(inspected: dict[str, Any]) -> dict[str, Any]:
    config, host, state = inspected["Config"], inspected["HostConfig"], inspected["State"]
    return {
        "DockerId": inspected["Id"],
        "Name": "default",
        "DockerName": inspected["Name"].removeprefix("/"),
        "Image": config["Image"],
        "ImageID": inspected["Image"],
        "Labels": config["Labels"],
        "DesiredStatus": "RUNNING",
        "KnownStatus": "RUNNING" if state["Running"] else "STOPPED",
        "Limits": {"CPU": host["CpuShares"], "Memory": host["Memory"] // MIB},
        "CreatedAt": inspected["Created"],
        "StartedAt": state["StartedAt"],
        "Type": "NORMAL",
    }


def task(inspected: dict[str, Any], described: dict[str, Any]) -> dict[str, Any]:
    """Return a one-container task's metadata, with pull times only if it pulled an image."""
    labels = inspected["Config"]["Labels"]
    limits = described["Limits"]
    times = {"PullStartedAt": labels.get(PULL_STARTED), "PullStoppedAt": labels.get(PULL_STOPPED)}
    return {
        "DesiredStatus": described["DesiredStatus"],
        "KnownStatus": described["KnownStatus"],
        "LaunchType": "EC2",
        "Limits": {"CPU": limits["CPU"] / SHARES_PER_VCPU, "Memory": limits["Memory"]},
        "Containers": [described],
        **{name: time for name, time in times.items() if time is not None},
    }
