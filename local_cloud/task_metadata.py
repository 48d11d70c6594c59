"""The ECS task metadata endpoint, for containers, and for processes that are nodes."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from http import HTTPStatus
from typing import Any
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

from werkzeug.wrappers import Response

from local_cloud.batch.running.docker_options import MIB, SHARES_PER_VCPU
from local_cloud.batch.running.docker_runtime import PULL_STARTED, PULL_STOPPED
from local_cloud.batch.running.environment_variables import TASK_METADATA_PATH
from local_cloud.batch.running.runtime import Runtime

PATH = re.compile(TASK_METADATA_PATH + r"/(?P<task_id>[0-9a-f]{32})(?P<of_task>/task)?")


class TaskMetadata:
    """WSGI middleware: version 4 of the task metadata endpoint, `/v4/TASK` and `/v4/TASK/task`.

    Args:
        address: the address that an ECS task has of its own; None if it has none.
    """

    def __init__(
        self, app: WSGIApplication, runtime: Runtime, address: Callable[[str], str | None]
    ) -> None:
        self._app = app
        self._runtime = runtime
        self._address = address

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        match = PATH.fullmatch(environ.get("PATH_INFO", ""))
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
        """A container, or its task; of a process, there is only its address to tell."""
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
    """A container's address on the network that it has joined; None on its machine's."""
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
    """The metadata of a task of one container; times of a pull only if there was one."""
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
