"""Runs a worker's replicas: just one or, in streams mode, all of them as threads."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Mapping
from typing import Any

import torch

from batchmark_job.machine import memory
from batchmark_job.measuring.marks import process_started_at
from batchmark_job.measuring.prepared import Prepared, measuring_state
from batchmark_job.measuring.problem import Problem
from batchmark_job.measuring.processes.answers import LastLook
from batchmark_job.measuring.processes.workers import Tell
from batchmark_job.result.sharing import Disturbance, ReplicaOutcome
from batchmark_job.sharing.answers import ReplicaFailure, ReplicaRun, StartedReplica
from batchmark_job.sharing.disturbances import disturb
from batchmark_job.sharing.point import SLOW_CALLS
from batchmark_job.sharing.schedule import Steps
from batchmark_job.workloads.own.errors import where_raised
from batchmark_job.workloads.support import torch_calls

LAST_STEP_SECONDS = 5.0  # for a hanging thread, once the others have ended
LIMIT_TRIED = 1.1  # times MPS's limit: memory that a client must not get


class Replicas:
    """Replicas of a task in this process, each with its own inputs, weights and calls."""

    def __init__(
        self,
        tell: Tell,
        problem: Problem,
        index: int,
        threads: int | None,
        count: int,
        environment: Mapping[str, str],
        memory_limit_bytes: int | None,
    ) -> None:
        """Prepare each replica, and run its first steps.

        Args:
            index: index of the implementation.
            count: number of replicas.
            environment: variables to set before CUDA starts, such as the MPS daemon's folder.
            memory_limit_bytes: limit that MPS must enforce on this process.

        Raises:
            RuntimeError: MPS does not enforce the limit.
        """
        os.environ.update(environment)
        self._device, self._workload, self._dtype = problem.device, problem.workload, problem.dtype
        if memory_limit_bytes is not None:
            _check_limit(memory_limit_bytes)
        implementation = problem.implementations()[index]
        self._all: list[Prepared] = []
        self._started: list[StartedReplica] = []
        self._streams = _streams(count) if problem.device == "cuda" else [None] * count
        for stream in self._streams:
            ended: list[float] = []

            def hear(kind: str, value: Any, ended: list[float] = ended) -> None:
                if (kind, value) == ("mark", "first_call"):
                    ended.append(time.time())
                tell(kind, value)

            with torch.cuda.stream(stream):
                prepared = Prepared(hear, problem, implementation, threads, 1)
                first = prepared.first_call()
            began = process_started_at().timestamp()
            self._all.append(prepared)
            self._started.append(
                StartedReplica(first, max(0.0, ended[0] - began), *_gpu(problem.device))
            )

    def started(self) -> list[StartedReplica]:
        return self._started

    def run(
        self, *, start: float, end: float, disturbance: Disturbance | None, disturb_at: float
    ) -> list[ReplicaRun | ReplicaFailure]:
        """Run all replicas' steps concurrently from `start` to `end`.

        Args:
            disturbance: what the first replica does from `disturb_at` on.
        """
        ended: dict[int, ReplicaRun | ReplicaFailure] = {}

        def one(place: int) -> None:
            try:
                disturbed = disturbance if place == 0 else None
                with torch.cuda.stream(self._streams[place]):
                    ended[place] = self._run_one(place, start, end, disturbed, disturb_at)
            except Exception as error:
                full = memory.is_out_of_memory(error)
                outcome = ReplicaOutcome.OUT_OF_MEMORY if full else ReplicaOutcome.FAILED
                ended[place] = ReplicaFailure(
                    outcome, memory.describe_error(error) + where_raised(error)
                )

        places = range(len(self._all))
        hangs = disturbance is Disturbance.HANG and len(places) > 1
        here, elsewhere = (places[:0], places) if hangs else (places[:1], places[1:])
        threads = {
            place: threading.Thread(target=one, args=(place,), daemon=True) for place in elsewhere
        }
        # Process-wide state is set around all threads: each thread would restore it for the others.
        with measuring_state(self._workload, self._dtype), torch_calls.cudnn_search():
            for thread in threads.values():
                thread.start()
            for place in here:
                one(place)
            # the hanging one last: waiting for it takes no other replica's steps
            for place in reversed(elsewhere):
                threads[place].join(LAST_STEP_SECONDS if hangs and place == 0 else None)
        hung = ReplicaFailure(ReplicaOutcome.HUNG, "its thread made no more steps")
        return [ended.get(place, hung) for place in places]

    def _run_one(
        self,
        place: int,
        start: float,
        end: float,
        disturbance: Disturbance | None,
        disturb_at: float,
    ) -> ReplicaRun:
        prepared = self._all[place]
        time.sleep(max(0.0, start - time.perf_counter()))
        began = time.perf_counter()
        healthy = end if disturbance is None else disturb_at
        ends = prepared.steps_until(healthy)
        if disturbance is Disturbance.SLOW:
            ends += prepared.steps_until(end, calls=SLOW_CALLS)
        elif disturbance is not None:
            disturb(disturbance, self._device)
        alone = len(self._all) == 1
        return ReplicaRun(Steps(began, ends), memory.peak_bytes(self._device) if alone else None)

    def look_back(self) -> LastLook:
        """Check the first replica's last output, without making further calls."""
        return self._all[0].look_back(phases=False)


def _streams(count: int) -> list[torch.cuda.Stream | None]:
    """Return a stream for each replica, or the default stream if there is only one replica."""
    if count == 1:
        return [None]
    return [torch.cuda.Stream() for _ in range(count)]  # type: ignore[no-untyped-call]


def _check_limit(limit_bytes: int) -> None:
    try:
        torch.empty(int(LIMIT_TRIED * limit_bytes), dtype=torch.uint8, device="cuda")
    except RuntimeError as error:
        if memory.is_out_of_memory(error):
            torch.cuda.empty_cache()
            return
        raise
    raise RuntimeError(
        f"MPS does not enforce its memory limit: a client limited to {limit_bytes} bytes was able "
        f"to allocate {LIMIT_TRIED:g} times as much"
    )


def _gpu(device: str) -> tuple[str | None, int | None]:
    """Return the GPU's UUID and number of multiprocessors, as CUDA reports them to this process."""
    if device != "cuda":
        return None, None
    properties = torch.cuda.get_device_properties(0)
    return str(properties.uuid), properties.multi_processor_count
