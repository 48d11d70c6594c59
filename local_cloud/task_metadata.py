"""The ECS task metadata endpoint, for jobs that are containers."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from http import HTTPStatus
from typing import Any
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

from werkzeug.wrappers import Response

from local_cloud.batch.running.docker_options import MIB, SHARES_PER_VCPU
from local_cloud.batch.running.docker_runtime import METADATA_PATH, PULL_STARTED, PULL_STOPPED
from local_cloud.batch.running.runtime import Runtime

PATH = re.compile(METADATA_PATH + r"/(?P<task_id>[0-9a-f]{32})(?P<of_task>/task)?")


class TaskMetadata:
    """WSGI middleware: version 4 of the task metadata endpoint, `/v4/TASK` and `/v4/TASK/task`."""

    def __init__(self, app: WSGIApplication, runtime: Runtime) -> None:
        self._app = app
        self._runtime = runtime

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        match = PATH.fullmatch(environ.get("PATH_INFO", ""))
        if match is None:
            return self._app(environ, start_response)
        inspected = self._runtime.inspect(match["task_id"])
        if inspected is None:
            missing = f"V4 container metadata handler: no task {match['task_id']}\n"
            answer = Response(missing, status=HTTPStatus.NOT_FOUND)
        else:
            described = container(inspected)
            answer = Response(
                json.dumps(task(inspected, described) if match["of_task"] else described),
                content_type="application/json",
            )
        return answer(environ, start_response)


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
