"""A group: the replicas of a row in fresh processes, at once or one after the other."""

from __future__ import annotations

import contextlib
import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from batchmark_job.machine import mps, nvml
from batchmark_job.measuring.limits import PATIENCE
from batchmark_job.measuring.problem import Problem
from batchmark_job.measuring.processes.answers import LastLook
from batchmark_job.measuring.processes.workers import Hear, StepError, Worker, Workers
from batchmark_job.result import ReplicaOutcome, SharingMode
from batchmark_job.sharing import steps
from batchmark_job.sharing.answers import Lost, Ran, Started
from batchmark_job.sharing.point import SharingPoint
from batchmark_job.sharing.schedule import Window, split

_Answer = TypeVar("_Answer")

WINDOWS = 5  # of a group, each a sample
WARMUP_SHARE = 1 / (WINDOWS + 1)  # of its time: a window that does not count
STEPS_IN_WINDOW = 2  # of each replica, at least, where patience allows it
LEAD_SECONDS = 0.1  # from the order to start until all start
LEAD_SECONDS_EACH = 0.005
LEAST_PATIENCE_SECONDS = 10.0  # with a replica that should have ended its last step
PATIENCE_STEPS = 10


@dataclass(frozen=True)
class Task:
    """What each replica does."""

    problem: Problem
    implementation: int
    threads: int | None


@dataclass
class Group:
    """What a group's replicas did, by their numbers."""

    started: list[Started] = field(default_factory=list)
    ran: list[Ran | Lost] = field(default_factory=list)
    spans: list[Window] = field(default_factory=list)  # in which each replica was measured
    windows: list[Window] = field(default_factory=list)
    device_memory_bytes: int | None = None
    mig_enabled: bool | None = None
    last_look: LastLook | None = None


def measure(
    task: Task,
    point: SharingPoint,
    seconds: float,
    workers: Workers,
    hear: Hear,
    gpu_uuid: str | None,
) -> Group:
    """Run a group for about so many seconds; all its processes have ended then.

    Raises:
        StepError: a replica did not start.
        CannotMeasureError: MPS is not there.
    """
    with _environment(point, gpu_uuid) as environment:
        runner = _Runner(task, point, seconds, workers, hear, gpu_uuid, environment)
        return runner.in_turn() if point.mode is SharingMode.EXCLUSIVE else runner.together()


@contextlib.contextmanager
def _environment(point: SharingPoint, gpu_uuid: str | None) -> Iterator[Mapping[str, str]]:
    """What the replicas' environment has to hold, with MPS running meanwhile if they need it."""
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
    workers: Workers
    hear: Hear
    gpu_uuid: str | None
    environment: Mapping[str, str]

    def together(self) -> Group:
        threads_of_one = self.point.mode is SharingMode.STREAMS
        processes = 1 if threads_of_one else self.point.replicas
        group = Group(mig_enabled=self._ask_gpu(nvml.Gpu.mig_enabled))
        before = self._memory_used()
        live = [self._start(self.point.replicas // processes) for _ in range(processes)]
        try:
            for number, worker in enumerate(live, 1):
                group.started += self._get_ready(worker, number)
            group.device_memory_bytes = _difference(before, self._memory_used())
            seconds = self._long_enough(group.started)
            lead = LEAD_SECONDS + LEAD_SECONDS_EACH * processes
            begins = time.perf_counter() + lead
            measured = Window(begins + WARMUP_SHARE * seconds, begins + seconds)
            for number, worker in enumerate(live):
                self._begin(worker, begins, measured, disturbs=number == 0)
            patience = self._patience(group.started)
            for worker in live:
                left = measured.end - time.perf_counter() + patience
                group.ran += self._answer(worker, left, self.point.replicas // processes)
            group.spans = [measured] * self.point.replicas
            group.windows = split(measured, WINDOWS)
            self._look_back(live, group)
        finally:
            for worker in live:
                worker.end()
        return group

    def in_turn(self) -> Group:
        """Each replica's process starts when the one before has ended."""
        group, count = Group(mig_enabled=self._ask_gpu(nvml.Gpu.mig_enabled)), self.point.replicas
        for number in range(count):
            before = self._memory_used()
            worker = self._start(1)
            try:
                started = self._get_ready(worker, number + 1)
                used = _difference(before, self._memory_used())
                group.device_memory_bytes = max(
                    filter(None, (group.device_memory_bytes, used)), default=used
                )
                seconds = self._long_enough(started, count)
                begins = time.perf_counter() + LEAD_SECONDS
                measured = Window(begins + WARMUP_SHARE * seconds, begins + seconds)
                self._begin(worker, begins, measured, disturbs=False)
                patience = self._patience(started)
                left = measured.end - time.perf_counter() + patience
                group.started += started
                group.ran += self._answer(worker, left, 1)
                group.spans.append(measured)
                group.windows += split(measured, -(-WINDOWS // count))
                if number == 0:
                    self._look_back([worker], group)
            finally:
                worker.end()
        return group

    def _start(self, count: int) -> Worker:
        task, limits = self.task, self.point.limits
        return self.workers.start(
            steps.start_replicas,
            *(task.problem, task.implementation, task.threads, count),
            dict(self.environment),
            limits.memory_bytes if self.point.mode is SharingMode.MPS else None,
            hear=self.hear,
        )

    def _get_ready(self, worker: Worker, number: int) -> list[Started]:
        try:
            worker.get_ready()
            started: list[Started] = worker.ask("started")
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

    def _answer(self, worker: Worker, within: float, replicas: int) -> list[Ran | Lost]:
        try:
            ran: list[Ran] = worker.answer(max(0.0, within))
        except StepError as error:
            return [Lost(_outcome(error), str(error))] * replicas
        return list(ran)

    def _look_back(self, live: list[Worker], group: Group) -> None:
        """By the first replica that ran undisturbed."""
        for worker, ran in zip(live, group.ran, strict=False):
            if isinstance(ran, Ran):
                group.last_look = worker.ask("look_back")
                return

    def _long_enough(self, started: list[Started], parts: int = 1) -> float:
        """The group's time, or its part, or as much more as slow steps need."""
        typical = statistics.median(each.step_seconds for each in started)
        needed = STEPS_IN_WINDOW * (WINDOWS + 1) * typical
        return min(max(self.seconds, needed), PATIENCE * self.seconds) / parts

    def _patience(self, started: list[Started]) -> float:
        """How long to wait for the last steps, once the time is over."""
        slowest = max(each.step_seconds for each in started)
        return max(LEAST_PATIENCE_SECONDS, PATIENCE_STEPS * slowest)

    def _memory_used(self) -> int | None:
        """Of the GPU, by all processes."""
        return self._ask_gpu(nvml.Gpu.memory_used_bytes)

    def _ask_gpu(self, question: Callable[[nvml.Gpu], _Answer | None]) -> _Answer | None:
        """None where there is no GPU, or NVML does not answer."""
        if self.gpu_uuid is not None:
            with contextlib.suppress(Exception):
                return question(nvml.find_gpu(self.gpu_uuid))
        return None


def _difference(before: int | None, after: int | None) -> int | None:
    return None if before is None or after is None else max(0, after - before)


def _outcome(error: StepError) -> ReplicaOutcome:
    if error.out_of_memory:
        return ReplicaOutcome.OUT_OF_MEMORY
    if error.hung:
        return ReplicaOutcome.HUNG
    return ReplicaOutcome.CRASHED if error.lost else ReplicaOutcome.FAILED
