"""The ECS agent's word to a container about itself, where jobs are containers."""

from __future__ import annotations

import json
import re
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from werkzeug.wrappers import Response

from local_cloud.batch.docker_options import MIB, SHARES_PER_VCPU
from local_cloud.batch.docker_runtime import METADATA_PATH, PULL_STARTED, PULL_STOPPED

if TYPE_CHECKING:
    from collections.abc import Iterable
    from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

    from local_cloud.batch.runtime import Runtime

PATH = re.compile(METADATA_PATH + r"/(?P<task_id>[0-9a-f]{32})(?P<of_task>/task)?")


class TaskMetadata:
    """WSGI middleware: version 4 of the task metadata endpoint, `/v4/TASK` and `/v4/TASK/task`."""

    def __init__(self, app: WSGIApplication, runtime: Runtime) -> None:
        self._app = app
        self._runtime = runtime

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        asked = PATH.fullmatch(environ.get("PATH_INFO", ""))
        if asked is None:
            return self._app(environ, start_response)
        inspected = self._runtime.inspect(asked["task_id"])
        if inspected is None:
            missing = f"V4 container metadata handler: no task {asked['task_id']}\n"
            answer = Response(missing, status=HTTPStatus.NOT_FOUND)
        else:
            described = container(inspected)
            answer = Response(
                json.dumps(task(inspected, described) if asked["of_task"] else described),
                content_type="application/json",
            )
        return answer(environ, start_response)


def container(inspected: dict[str, Any]) -> dict[str, Any]:
    """A container, from the engine's own description."""
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
    """A task of one container. Without a pull there are no times of one."""
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
