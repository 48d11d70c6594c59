"""Local clouds whose jobs are containers."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

from local_cloud.batch.running.docker_runtime import OWNER
from tests.clouds import Cloud, running

CONTAINERS = [
    *("--jobs", "containers", "--allow-short-limits", "--stop-grace", "2"),
    *("--vcpus", "4", "--memory", "2048", "--gpus", "2"),
]
FOR_EVER = "import time; time.sleep(600)"
DEAF = f"""import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("ready", flush=True); {FOR_EVER}"""


def containers_of(client: Any, cloud: Cloud) -> list[Any]:
    owner = f"{cloud.endpoint_url} on the host"
    filters = {"label": f"{OWNER}={owner}"}
    return client.containers.list(all=True, filters=filters, ignore_removed=True)


def start(*options: str) -> AbstractContextManager[Cloud]:
    return running(*CONTAINERS, *options)
