"""What own jobs run on, found out while they run: AWS forgets an instance soon after its end."""

from __future__ import annotations

import asyncio
import logging

from batchmark.aws.boto_clients import Clients
from batchmark.aws.job_description import JobDescription, container_instance
from batchmark.aws.job_hosts import JobHost, host_of

log = logging.getLogger(__name__)


class HostMemory:
    """The hosts of a task's attempts. Nothing that goes wrong with it concerns the job."""

    def __init__(self) -> None:
        self._found: dict[str, asyncio.Task[JobHost | None]] = {}

    def look(self, clients: Clients, job: JobDescription) -> None:
        """Ask for the host of a job that is running, once, in a thread of its own."""
        arn = container_instance(job)
        if arn and arn not in self._found:
            self._found[arn] = asyncio.create_task(_ask(clients, job))

    async def host(self, job: JobDescription) -> JobHost | None:
        """The host of a job that has ended; None if nobody asked while it ran."""
        found = self._found.get(container_instance(job) or "")
        return await found if found else None


async def _ask(clients: Clients, job: JobDescription) -> JobHost | None:
    try:
        return await asyncio.to_thread(host_of, clients, job)
    except Exception:
        log.exception("It is not known what job %s runs on", job["jobId"])
        return None
