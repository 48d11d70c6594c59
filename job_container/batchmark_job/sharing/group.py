"""Runs a row's replicas as a group in fresh processes, concurrently or one after another."""

from __future__ import annotations

import contextlib
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from batchmark_job.machine import mps, nvml
from batchmark_job.measuring.limits import PATIENCE
from batchmark_job.measuring.problem import Problem
from batchmark_job.measuring.processes.answers import LastLook
from batchmark_job.measuring.processes.workers import Hear, StepError, Tell, Worker, WorkerSource
from batchmark_job.result.sharing import ReplicaOutcome, SharingMode
from batchmark_job.sharing.answers import ReplicaFailure, ReplicaRun, StartedReplica
from batchmark_job.sharing.point import SLOW_CALLS, SharingPoint
from batchmark_job.sharing.schedule import Window, split

if TYPE_CHECKING:
    from batchmark_job.sharing.replicas import Replicas

_Answer = TypeVar("_Answer")

WINDOWS = 5  # windows of a group, each a sample; the first one is dropped
STEPS_IN_WINDOW = 2  # minimum of each replica, if patience allows
# Delay between the order to start and the common start; the longer one if a replica was late.
LEADS_SECONDS = (0.1, 0.4, 1.6)
LEAD_SECONDS_EACH = 0.005
LEAST_PATIENCE_SECONDS = 10.0  # how long to wait for a replica that should have ended its last step
PATIENCE_STEPS = 2 * SLOW_CALLS


@dataclass(frozen=True)
class Task:
    """The task that each replica runs."""

    problem: Problem
    implementation: int
    threads: int | None


@dataclass
class Group:
    """The results of a group's replicas, ordered by replica number."""

    started: list[StartedReplica] = field(default_factory=list)
    ran: list[ReplicaRun | ReplicaFailure] = field(default_factory=list)
    spans: list[Window] = field(default_factory=list)  # in which each replica was measured
    windows: list[Window] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)  # samples: windows with steps
    device_memory_bytes: int | None = None
    mig_enabled: bool | None = None
    last_look: LastLook | None = None
    remark: str | None = None  # remarks for readers of the row

    def was_late(self) -> bool:
        """Return whether any replica was not yet running when its first window began."""
        return any(
            isinstance(one, ReplicaRun) and one.steps.began > span.start
            for one, span in zip(self.ran, self.spans, strict=True)
        )

    def add(self, part: Group) -> None:
        self.started += part.started
        self.ran += part.ran
        self.spans += part.spans
        self.windows += part.windows
        memory = (self.device_memory_bytes, part.device_memory_bytes)
        self.device_memory_bytes = max((each for each in memory if each is not None), default=None)
        self.last_look = self.last_look or part.last_look
        self.remark = part.remark or self.remark


def measure(
    task: Task,
    point: SharingPoint,
    seconds: float,
    workers: WorkerSource,
    hear: Hear,
    gpu_uuid: str | None,
) -> Group:
    """Run a group for about `seconds`, or longer if steps are slow, and return its results.

    Raises:
        StepError: a replica did not start, or could not be checked at the end.
        CannotMeasureError: MPS is not available.
    """
    with _environment(point, gpu_uuid) as environment:
        runner = _Runner(task, point, seconds, workers, hear, gpu_uuid, environment)
        return runner.in_turn() if point.mode is SharingMode.EXCLUSIVE else runner.together()


@contextlib.contextmanager
def _environment(point: SharingPoint, gpu_uuid: str | None) -> Iterator[Mapping[str, str]]:
    """Yield the replicas' extra environment variables, and run MPS within the context if needed."""
    if point.mode is not SharingMode.MPS:
        yield mps.WITHOUT
        return
    limits = point.limits.thread_percentage, point.limits.memory_bytes
    if point.form != "processes":
        mps.find_daemon()
        yield mps.client_environment(None, *limits)
        return
    with mps.daemon(gpu_uuid) as pipes:
        yield mps.client_environment(pipes, *limits)


@dataclass
class _Runner:
    task: Task
    point: SharingPoint
    seconds: float
    workers: WorkerSource
    hear: Hear
    gpu_uuid: str | None
    environment: Mapping[str, str]

    def together(self) -> Group:
        group = self._group()
        self._run(group, self.point.replicas, WINDOWS, self.seconds)
        return group

    def in_turn(self) -> Group:
        """Run one replica at a time, starting each after the previous one's process has ended."""
        group, count = self._group(), self.point.replicas
        for _ in range(count):
            self._run(group, 1, -(-WINDOWS // count), self.seconds / count)
        return group

    def _group(self) -> Group:
        return Group(mig_enabled=self._ask_gpu(nvml.Gpu.mig_enabled))

    def _run(self, group: Group, replicas: int, windows: int, seconds: float) -> None:
        """Run replicas concurrently and add their results to the group; retry if one began late."""
        for lead in LEADS_SECONDS:
            part = self._run_once(len(group.started), replicas, windows, seconds, lead)
            if not part.was_late():
                break
        group.add(part)

    def _run_once(
        self, before: int, replicas: int, windows: int, seconds: float, lead: float
    ) -> Group:
        """Start, measure and end replicas; `before` is the number of replicas that ran earlier."""
        processes = 1 if self.point.mode is SharingMode.STREAMS else replicas
        self.workers.wait_for_ended()
        part, memory_before = Group(), self._memory_used()
        live: list[Worker] = []
        try:
            for _ in range(processes):
                live.append(self._start(replicas // processes))  # noqa: PERF401 - to end them
            for number, worker in enumerate(live, before + 1):
                part.started += self._get_ready(worker, number)
            if self.point.mode is SharingMode.MPS:
                part.remark = mps.check_served(self.environment.get(mps.PIPES))
            memory = self._memory_used()
            if memory is not None and memory_before is not None:
                part.device_memory_bytes = max(0, memory - memory_before)
            seconds = _long_enough(part.started, windows, seconds)
            begins = time.perf_counter() + lead + LEAD_SECONDS_EACH * processes
            measured = Window(begins + seconds / (windows + 1), begins + seconds)
            for number, worker in enumerate(live):
                self._begin(worker, begins, measured, disturbs=number == 0)
            patience = _patience(part.started)
            for worker in live:
                left = measured.end - time.perf_counter() + patience
                part.ran += self._answer(worker, left, replicas // processes)
            if before == 0:
                part.last_look = _look_back(live, part.ran)
        finally:
            for worker in live:
                worker.end()
        part.spans = [measured] * replicas
        part.windows = split(measured, windows)
        return part

    def _start(self, count: int) -> Worker:
        task, limits = self.task, self.point.limits
        return self.workers.start(
            _replicas,
            *(task.problem, task.implementation, task.threads, count),
            dict(self.environment),
            limits.memory_bytes if self.point.mode is SharingMode.MPS else None,
            hear=self.hear,
        )

    def _get_ready(self, worker: Worker, number: int) -> list[StartedReplica]:
        try:
            worker.get_ready()
            started: list[StartedReplica] = worker.ask("started")
        except StepError as error:
            which = "" if self.point.replicas == 1 else f"replica {number}: "
            raise StepError(f"{which}{error}", out_of_memory=error.out_of_memory) from error
        return started

    def _begin(self, worker: Worker, begins: float, measured: Window, *, disturbs: bool) -> None:
        worker.begin(
            "run",
            start=begins,
            end=measured.end,
            disturbance=self.point.disturbance if disturbs else None,
            disturb_at=measured.start,
        )

    def _answer(
        self, worker: Worker, within: float, replicas: int
    ) -> list[ReplicaRun | ReplicaFailure]:
        try:
            ran: list[ReplicaRun | ReplicaFailure] = worker.answer(max(0.0, within))
        except StepError as error:
            return [ReplicaFailure(_outcome(error), str(error))] * replicas
        return ran

    def _memory_used(self) -> int | None:
        """Return the GPU memory used by all processes together, or None if unknown."""
        return self._ask_gpu(nvml.Gpu.memory_used_bytes)

    def _ask_gpu(self, question: Callable[[nvml.Gpu], _Answer | None]) -> _Answer | None:
        """Query the GPU; return None if there is no GPU or NVML does not respond."""
        if self.gpu_uuid is not None:
            with contextlib.suppress(Exception):
                return question(nvml.find_gpu(self.gpu_uuid))
        return None


def _replicas(tell: Tell, *arguments: Any) -> Replicas:
    """Build a worker's replicas, loading the libraries only in the worker."""
    from batchmark_job.sharing.replicas import Replicas

    return Replicas(tell, *arguments)


def _long_enough(started: Sequence[StartedReplica], windows: int, seconds: float) -> float:
    """Return `seconds`, or a longer time if steps are slow; either includes a warm-up window."""
    typical = statistics.median(each.step_seconds for each in started)
    at_worst = typical * len(started)  # in which only one of them progresses at a time
    needed = STEPS_IN_WINDOW * (windows + 1) * at_worst
    return min(max(seconds, needed), PATIENCE * seconds)


def _patience(started: Sequence[StartedReplica]) -> float:
    """Return how long to wait for the last steps once time is up."""
    slowest = max(each.step_seconds for each in started)
    return max(LEAST_PATIENCE_SECONDS, PATIENCE_STEPS * slowest * len(started))


def _look_back(
    live: Sequence[Worker], ran: Sequence[ReplicaRun | ReplicaFailure]
) -> LastLook | None:
    """Run the final checks in the first process that completed its run; return None if none did."""
    for worker, one in zip(live, ran, strict=False):
        if isinstance(one, ReplicaRun):
            found: LastLook = worker.ask("look_back")
            return found
    return None


def _outcome(error: StepError) -> ReplicaOutcome:
    if error.out_of_memory:
        return ReplicaOutcome.OUT_OF_MEMORY
    if error.hung:
        return ReplicaOutcome.HUNG
    return ReplicaOutcome.CRASHED if error.lost else ReplicaOutcome.FAILED
