"""Messages between the launchers of two nodes: JSON, a line each, with heartbeats.

No pickles: whoever reaches the port could have them run code.
"""

from __future__ import annotations

import contextlib
import json
import socket
import threading
import time
from typing import Any

from batchmark_job.errors import one_line

BEAT_SECONDS = 5.0
SILENCE_SECONDS = 60.0
MOST_BYTES = 4 * 2**20  # of a line
BEAT = {"kind": "beat"}


class LostError(Exception):
    """The other side has ended, or gives no sign of life."""


class Lines:
    """A connection to another node. One thread receives; any may send."""

    def __init__(self, connection: socket.socket) -> None:
        connection.settimeout(SILENCE_SECONDS)
        self._connection = connection
        self._file = connection.makefile("rb")
        self._lock, self._reading = threading.Lock(), threading.Lock()
        self._closed = threading.Event()
        threading.Thread(target=self._beat, name="heartbeat", daemon=True).start()

    def send(self, message: dict[str, Any]) -> None:
        """Send, or leave it to `receive` to tell that the other side is gone."""
        with contextlib.suppress(OSError), self._lock:
            self._connection.sendall(json.dumps(message).encode() + b"\n")

    def receive(self) -> dict[str, Any]:
        """The next message that is no heartbeat.

        Raises:
            LostError: there is none, or what came is no message.
        """
        with self._reading:
            try:
                while (message := self._next()) == BEAT:
                    pass
            except LostError:
                self._file.close()
                raise
        return message

    def close(self) -> None:
        self._closed.set()
        with contextlib.suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)
        self._connection.close()
        if self._reading.acquire(blocking=False):  # else `receive` closes it
            self._file.close()
            self._reading.release()

    def _next(self) -> dict[str, Any]:
        try:
            line = self._file.readline(MOST_BYTES)
            message = json.loads(line) if line else None
        except TimeoutError:
            raise LostError(f"was silent for {SILENCE_SECONDS:.0f} s") from None
        except (OSError, ValueError, RecursionError) as error:
            raise LostError(one_line(error)) from error
        if message is None:
            raise LostError("closed the connection")
        if not isinstance(message, dict):
            raise LostError(f"sent {message!r:.100}, which is no message")
        return message

    def _beat(self) -> None:
        while not self._closed.wait(BEAT_SECONDS):
            self.send(BEAT)


def connect(address: str, port: int, seconds: float, proof: bytes) -> Lines:
    """Connect as soon as somebody listens there, and show the proof, without which nobody is heard.

    Raises:
        LostError: nobody did in time.
    """
    end = time.monotonic() + seconds
    while True:
        try:
            connection = socket.create_connection((address, port), timeout=BEAT_SECONDS)
            connection.sendall(proof)
            return Lines(connection)
        except OSError as error:
            if time.monotonic() > end:
                raise LostError(
                    f"did not answer at {address}:{port} within {seconds:.0f} s: {one_line(error)}"
                ) from error
            time.sleep(0.2)
