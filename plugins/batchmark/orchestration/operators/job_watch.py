"""Watches all jobs that a triggerer is waiting for, with as few calls to Batch as possible."""

from __future__ import annotations

import asyncio
import contextvars
import logging
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import NamedTuple
from weakref import WeakValueDictionary

from batchmark.aws.batch_jobs import DESCRIBE_JOBS_LIMIT, describe_jobs
from batchmark.aws.job_description import JobDescription
from batchmark.orchestration.aws_clients import AwsAccess, AwsClients

Describe = Callable[[list[str]], Awaitable[dict[str, JobDescription]]]

log = logging.getLogger(__name__)


class Answer(NamedTuple):
    """Batch's response about a job; both fields are None if Batch doesn't know the job."""

    job: JobDescription | None = None
    problem: str | None = None  # why Batch gave no answer


class JobWatch:
    """Describes each awaited job once per interval, up to a hundred jobs per call.

    Calls are spread over the interval, so a job's first description arrives within two intervals.
    The watch runs in its own asyncio task as long as there are waiters; cancelling one waiter
    doesn't affect the others.
    """

    def __init__(
        self,
        describe: Describe,
        interval_seconds: float,
        *,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._describe = describe
        self._interval_seconds = interval_seconds
        self._sleep = sleep
        self._clock = clock
        self._waiting: defaultdict[str, list[asyncio.Future[Answer]]] = defaultdict(list)
        self._rounds: asyncio.Task[None] | None = None

    async def next(self, job_id: str) -> Answer:
        waiter: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._waiting[job_id].append(waiter)
        if self._rounds is None or self._rounds.done():
            # In a context of its own, or its log would go to the first waiter's task.
            self._rounds = asyncio.create_task(self._run(), context=contextvars.Context())
        try:
            return await waiter
        finally:
            self._forget(job_id, waiter)

    def _forget(self, job_id: str, waiter: asyncio.Future[Answer]) -> None:
        waiters = self._waiting.get(job_id, [])
        if waiter in waiters:
            waiters.remove(waiter)
        if not waiters:
            self._waiting.pop(job_id, None)

    async def _run(self) -> None:
        while self._waiting:
            began = self._clock()
            job_ids = list(self._waiting)
            calls = range(0, len(job_ids), DESCRIBE_JOBS_LIMIT)
            for number, start in enumerate(calls, start=1):
                await self._ask(job_ids[start : start + DESCRIBE_JOBS_LIMIT])
                due = began + self._interval_seconds * number / len(calls)
                await self._sleep(max(0.0, due - self._clock()))

    async def _ask(self, job_ids: list[str]) -> None:
        answers: dict[str, JobDescription] = {}
        problem = None
        try:
            answers = await self._describe(job_ids)
        except Exception as error:  # whatever it is: all jobs of this process depend on this task
            log.warning("Batch could not describe %d jobs: %s", len(job_ids), error)
            problem = str(error) or repr(error)
        for job_id in job_ids:
            answer = Answer(answers.get(job_id), problem)
            for waiter in self._waiting.pop(job_id, []):
                if not waiter.done():
                    waiter.set_result(answer)


_watches: WeakValueDictionary[tuple[AwsAccess, float, int], JobWatch] = WeakValueDictionary()


def shared_watch(clients: AwsClients, interval_seconds: float) -> JobWatch:
    """Return the watch that the running event loop uses for these clients' jobs.

    The watch has its own thread, so that other blocking calls can't delay it; aiobotocore would
    parse the answers on the event loop.
    """
    loop = asyncio.get_running_loop()
    key = (clients.access, interval_seconds, id(loop))
    watch = _watches.get(key)
    if watch is None:
        thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="job-watch")

        async def describe(job_ids: list[str]) -> dict[str, JobDescription]:
            return await loop.run_in_executor(thread, partial(_describe, clients, job_ids))

        watch = _watches[key] = JobWatch(describe, interval_seconds)
    return watch


def _describe(clients: AwsClients, job_ids: list[str]) -> dict[str, JobDescription]:
    # The next round repeats a failed call; when throttled, the client lowers its rate.
    return describe_jobs(clients("batch", attempts=2), job_ids)
