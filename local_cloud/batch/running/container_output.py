"""Copies a container's stdout or stderr to the job's log as it is written."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Iterator
from datetime import datetime
from itertools import islice
from typing import Any

from docker.errors import APIError, DockerException
from requests.exceptions import RequestException
from urllib3.exceptions import HTTPError

from local_cloud.batch.running.log_stream import MAX_EVENT_BYTES, LogStream

ENGINE_ERRORS = (DockerException, RequestException)
# After a container's end its remaining output is copied, for as long as more arrives.
DRAIN_SECONDS = 60.0

log = logging.getLogger(__name__)


class ContainerOutput:
    """The output stream `name` (stdout or stderr) of docker-py's `container`.

    The two streams are read separately; otherwise, they would be interleaved within long lines.
    """

    def __init__(self, container: Any, name: str, log_stream: LogStream) -> None:
        self._container = container
        self._wanted = {"stdout": name == "stdout", "stderr": name == "stderr"}
        self._log_stream = log_stream
        self._copied = 0
        self._last: bytes | None = None
        self._reader = threading.Thread(target=self.follow, daemon=True)

    def start(self) -> None:
        self._reader.start()

    def follow(self) -> None:
        """Copy the output until the container ends."""
        try:
            self._write(self._frames(follow=True))
        except (*ENGINE_ERRORS, HTTPError) as error:
            log.warning("a job's output was interrupted: %s", message_of(error))

    def finish(self) -> None:
        """Copy the remaining output after the container has ended.

        Right after a container exits, an engine can end the stream before it has sent the last
        lines.
        """
        copied = -1
        while self._reader.is_alive() and copied != self._copied:
            copied = self._copied
            self._reader.join(DRAIN_SECONDS)
        if self._reader.is_alive():
            log.warning(
                "a job's output was cut off: no more output arrived within %.0f s", DRAIN_SECONDS
            )
            return
        try:
            last = list(self._frames(tail=1))
            if last and last[-1] != self._last:
                self._write(islice(self._frames(), self._copied, None))
        except (*ENGINE_ERRORS, HTTPError) as error:
            log.warning("the end of a job's output was lost: %s", message_of(error))

    def _frames(self, **options: Any) -> Iterator[bytes]:
        frames: Iterator[bytes] = self._container.logs(
            **self._wanted, stream=True, timestamps=True, **{"follow": False, **options}
        )
        return frames

    def _write(self, frames: Iterable[bytes]) -> None:
        for written_at, line in lines(self._counted(frames)):
            self._log_stream.write(line, written_at=written_at)

    def _counted(self, frames: Iterable[bytes]) -> Iterator[bytes]:
        for frame in frames:
            self._copied, self._last = self._copied + 1, frame
            yield frame


def lines(frames: Iterable[bytes]) -> Iterator[tuple[int, bytes]]:
    """Split timestamped frames into lines, yielding each with its time in epoch milliseconds.

    Joins lines that the engine split at its buffer size; splits lines too long for an event.
    """
    written_at, pending = 0, b""
    for frame in frames:
        stamp, _, data = frame.partition(b" ")
        if not pending:
            written_at = milliseconds(stamp.decode())
        pending += data
        while len(pending) > MAX_EVENT_BYTES:
            yield written_at, pending[:MAX_EVENT_BYTES]
            pending = pending[MAX_EVENT_BYTES:]
        if pending.endswith(b"\n"):
            yield written_at, pending
            pending = b""
    if pending:
        yield written_at, pending


def milliseconds(time: str) -> int:
    return int(datetime.fromisoformat(time).timestamp() * 1000)


def message_of(error: Exception) -> str:
    """Return an error's message; one sent by the engine is put in the ECS agent's format."""
    explanation = error.explanation if isinstance(error, APIError) else None
    return f"Error response from daemon: {explanation}" if explanation else str(error)
