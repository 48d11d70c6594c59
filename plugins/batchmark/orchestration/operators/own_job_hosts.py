"""Looks up hosts of users' own jobs while they run, because AWS soon forgets ended instances."""

from __future__ import annotations

import asyncio
import logging

from batchmark.aws.boto_clients import Clients
from batchmark.aws.job_description import JobDescription, container_instance
from batchmark.aws.job_hosts import JobHost, host_of

log = logging.getLogger(__name__)


class HostMemory:
    """Remembers the hosts that a task's attempts ran on. Failed lookups never affect the job."""

    def __init__(self) -> None:
        self._found: dict[str, asyncio.Task[JobHost | None]] = {}

    def look(self, clients: Clients, job: JobDescription) -> None:
        """Start looking up a running job's host in a separate thread, once per host."""
        arn = container_instance(job)
        if arn and arn not in self._found:
            self._found[arn] = asyncio.create_task(_ask(clients, job))

    async def host(self, job: JobDescription) -> JobHost | None:
        """Return a finished job's host, or None if it couldn't be looked up in time."""
        found = self._found.get(container_instance(job) or "")
        return await found if found else None


async def _ask(clients: Clients, job: JobDescription) -> JobHost | None:
    try:
        return await asyncio.to_thread(host_of, clients, job)
    except Exception:
        log.exception("The host of job %s could not be determined", job["jobId"])
        return None
