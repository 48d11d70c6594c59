"""Reads EC2's and ECS's metadata about the machine and the container."""

from __future__ import annotations

import contextlib
import json
import os
import urllib.request
from pathlib import Path
from typing import Any, Literal

from batchmark_job.machine.host import text_of

IMDS_URL = "http://169.254.169.254"
# The SDKs' variable; the local cloud sets it, as the address above would lead nowhere.
IMDS_VARIABLE = "AWS_EC2_METADATA_SERVICE_ENDPOINT"
HTTP_TIMEOUT_SECONDS = 1.0  # the default of the AWS SDKs

Category = Literal[
    "ami-id",
    "events/recommendations/rebalance",
    "instance-type",
    "placement/availability-zone",
    "spot/instance-action",
]


def on_ec2(root: Path = Path("/")) -> bool:
    """Return whether the firmware is EC2's (Nitro or Xen); elsewhere, metadata calls hang."""
    if text_of(root / "sys/class/dmi/id/sys_vendor").strip() == "Amazon EC2":
        return True
    return text_of(root / "sys/hypervisor/uuid").lower().startswith("ec2")


def imds_url(root: Path = Path("/")) -> str | None:
    """Return the instance metadata URL set in the environment, or EC2's own on EC2, or None."""
    return os.environ.get(IMDS_VARIABLE) or (IMDS_URL if on_ec2(root) else None)


def instance_metadata(category: Category, url: str | None = None) -> str | None:
    """Return a value from the instance metadata service (version 2), or None if there is none."""
    url = url or imds_url()
    if url is None:
        return None
    lifetime = {"X-aws-ec2-metadata-token-ttl-seconds": "60"}
    token = _http(f"{url}/latest/api/token", lifetime, method="PUT")
    if token is None:
        return None
    return _http(f"{url}/latest/meta-data/{category}", {"X-aws-ec2-metadata-token": token})


def image_digest() -> str | None:
    digest = ecs_metadata().get("ImageID")
    return digest if isinstance(digest, str) and digest else None


def ecs_metadata(path: Literal["", "/task"] = "") -> dict[str, Any]:
    """Return the ECS agent's metadata about this container or its task, or {} without an agent.

    Source: task metadata endpoint version 4, whose address the agent puts into the environment.
    """
    url = os.environ.get("ECS_CONTAINER_METADATA_URI_V4")
    if not url or not url.startswith("http"):
        return {}
    body = _http(f"{url}{path}", {})
    with contextlib.suppress(ValueError):
        answer = json.loads(body or "null")
        return answer if isinstance(answer, dict) else {}
    return {}


def _http(url: str, headers: dict[str, str], method: str = "GET") -> str | None:
    request = urllib.request.Request(url, headers=headers, method=method)  # noqa: S310
    # Neither address is behind a proxy.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=HTTP_TIMEOUT_SECONDS) as response:
            text: str = response.read().decode()
    except (OSError, ValueError):
        return None
    return text.strip() or None
