"""Coordinates replicas in separate containers: an array job's children or a Kubernetes job's pods.

They all mount a folder on their host, in which the first replica listens on a socket. The others
lend it their workers, so that only the first one measures and writes. The first one notices at once
when another ends.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from multiprocessing.connection import Client, Connection, Listener
from pathlib import Path
from typing import Any, NamedTuple

from batchmark_job.errors import CannotMeasureError, InputError, say
from batchmark_job.formatting import count
from batchmark_job.measuring.processes.workers import ForkedWorkers, Hear, StepError, Worker, ignore

FOLDER = "BATCHMARK_SHARING_FOLDER"
SOCKET, OVER = "socket", "over"
# (question number, order, arguments); the answer has the same number
QUESTIONS = itertools.count(1)
MEETING_SECONDS = 900.0  # for all to join: each pulls an image first
RETRY_SECONDS = 0.05
GRACE_SECONDS = 5.0  # for an answer under way
CLOCK_SECONDS = 5.0  # largest difference of two clocks: the duration of a greeting


class Place(NamedTuple):
    """This process's number among the replicas, and the folder where they meet."""

    number: int  # from 0; the first one leads
    folder: Path

    @classmethod
    def of(cls, replicas: int, environment: Mapping[str, str]) -> Place:
        """Find this process's place from environment variables set by Batch or Kubernetes.

        Raises:
            InputError: no folder is set, or this replica's number is out of range.
        """
        array, completion = (
            environment.get(name) for name in ("AWS_BATCH_JOB_ARRAY_INDEX", "JOB_COMPLETION_INDEX")
        )
        number = int(array or completion or 0)
        if number >= replicas:
            raise InputError(f"this is replica {number + 1}, but --replicas is {replicas}")
        folder = environment.get(FOLDER)
        if folder is None:
            raise InputError(
                f"{FOLDER} is not set: set it to a folder that all replicas mount from their host"
            )
        if array is not None:
            job = environment["AWS_BATCH_JOB_ID"].partition(":")[0]
        else:
            job = environment.get("AWS_BATCH_JOB_ID") or socket.gethostname().rpartition("-")[0]
        return cls(number, Path(folder) / hashlib.sha256(job.encode()).hexdigest()[:16])


class ReplicaRendezvous:
    """Starts each group's first worker in this container, and the rest in the other containers."""

    def __init__(self, place: Place, replicas: int, here: ForkedWorkers) -> None:
        """Start listening for the other containers.

        Raises:
            InputError: the folder can't be used.
        """
        self._here, self._others = here, replicas - 1
        self._folder = place.folder
        self._came: dict[int, Connection] = {}
        self._started = 0
        self._all_came = threading.Event()
        try:
            place.folder.mkdir(parents=True, exist_ok=True)
            for left in (SOCKET, OVER):  # left by an earlier attempt
                (place.folder / left).unlink(missing_ok=True)
            self._listening = contextlib.ExitStack()
            address = self._listening.enter_context(_address(place.folder))
            listener = Listener(address, "AF_UNIX", backlog=replicas)
            self._listener = self._listening.enter_context(listener)
        except OSError as error:
            raise InputError(
                f"{FOLDER} is {place.folder.parent}, which can't be used ({error.strerror}): mount "
                "a folder that the job's user can write to"
            ) from error
        threading.Thread(target=self._receive, name="meeting", daemon=True).start()

    def start(self, make: Callable[..., Any], *arguments: Any, hear: Hear = ignore) -> Worker:
        """Start a group's first worker here, and each further worker in the next container.

        Raises:
            CannotMeasureError: a container does not join in time.
        """
        self._wait_for_all()
        place, self._started = self._started, (self._started + 1) % (self._others + 1)
        if place == 0:
            return self._here.start(make, *arguments, hear=hear)
        return RemoteWorker(self._came[place], make, arguments)

    def wait_for_ended(self) -> None:
        self._here.wait_for_ended()

    def close(self) -> None:
        """Release the other containers, and tell latecomers that the job is over."""
        with contextlib.suppress(OSError):
            (self._folder / OVER).touch()
        for connection in list(self._came.values()):
            connection.close()
        self._listening.close()

    def _receive(self) -> None:
        with contextlib.suppress(OSError):  # the listener was closed
            while len(self._came) < self._others:
                connection = self._listener.accept()
                with contextlib.suppress(EOFError, ConnectionError):  # the replica ended right away
                    number, clock = connection.recv()
                    if abs(time.perf_counter() - clock) <= CLOCK_SECONDS:
                        self._came[number] = connection
            self._all_came.set()

    def _wait_for_all(self) -> None:
        if not self._all_came.wait(MEETING_SECONDS):
            missing = [str(n + 1) for n in range(1, self._others + 1) if n not in self._came]
            raise CannotMeasureError(
                f"only {len(self._came) + 1} of {count(self._others + 1, 'replica')} joined "
                f"within {MEETING_SECONDS:g} s; missing: {', '.join(missing)}"
            )


class RemoteWorker(Worker):
    def __init__(
        self, connection: Connection, make: Callable[..., Any], arguments: tuple[Any, ...]
    ) -> None:
        self._connection = connection
        self._asked = 0
        self._send("start", make, *arguments)

    def get_ready(self) -> None:
        self._send("get_ready")
        self._receive(None)

    def begin(self, step: str, **arguments: Any) -> None:
        self._send("begin", step, arguments)

    def answer(self, within_seconds: float | None = None) -> Any:
        self._send("answer", within_seconds)
        return self._receive(within_seconds)

    def end(self) -> None:
        """End the worker, and wait up to GRACE_SECONDS until it has freed its resources."""
        self._send("end")
        with contextlib.suppress(StepError):
            self._receive(0.0)

    def _send(self, *question: Any) -> None:
        self._asked = next(QUESTIONS)
        with contextlib.suppress(OSError):  # the replica is lost, as the answer will show
            self._connection.send((self._asked, *question))

    def _receive(self, within_seconds: float | None) -> Any:
        seconds = None if within_seconds is None else within_seconds + GRACE_SECONDS
        number = 0
        try:
            while number < self._asked:  # the answer to a question that timed out
                if not self._connection.poll(seconds):
                    raise StepError("its container is not responding", lost=True, hung=True)
                number, answer = self._connection.recv()
        except (EOFError, OSError) as error:
            raise StepError("its container stopped", lost=True) from error
        if isinstance(answer, StepError):
            raise answer
        return answer


def lend_workers(place: Place, workers: ForkedWorkers) -> None:
    """Lend this container's workers to the first replica until it releases them.

    Raises:
        CannotMeasureError: the first replica is late, has already ended, or ends unexpectedly.
    """
    connection = _connect(place)
    connection.send((place.number, time.perf_counter()))
    say(f"batchmark-job: replica {place.number + 1} is controlled by the first replica")
    worker: Worker | None = None
    with contextlib.suppress(EOFError, ConnectionError):
        while True:
            number, order, *arguments = connection.recv()
            if order == "start":
                make, *rest = arguments
                worker = workers.start(make, *rest)
                continue
            assert worker is not None  # noqa: S101
            if order == "begin":
                step, named = arguments
                worker.begin(step, **named)
                continue
            answer = _answer(worker, order, arguments)
            if order == "end":
                workers.wait_for_ended()
            connection.send((number, answer))
    if not (place.folder / OVER).exists():
        raise CannotMeasureError("the first replica ended unexpectedly")


def _answer(worker: Worker, order: str, arguments: list[Any]) -> Any:
    try:
        return getattr(worker, order)(*arguments)
    except StepError as error:
        return error


def _connect(place: Place) -> Connection:
    ends = time.monotonic() + MEETING_SECONDS
    while time.monotonic() < ends:
        with contextlib.suppress(OSError), _address(place.folder) as address:
            return Client(address, "AF_UNIX")
        if (place.folder / OVER).exists():
            raise CannotMeasureError("the first replica ended before this one joined")
        time.sleep(RETRY_SECONDS)
    raise CannotMeasureError(f"the first replica did not start within {MEETING_SECONDS:g} s")


@contextlib.contextmanager
def _address(folder: Path) -> Iterator[str]:
    """Yield a short path to the socket, because socket addresses are limited to 107 bytes."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{handle}/{SOCKET}"
    finally:
        os.close(handle)
