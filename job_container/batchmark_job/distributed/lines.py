"""Exchanges JSON messages, one per line, and heartbeats between two nodes.

Messages are not pickled, because unpickling would let anyone who can reach the port run code.
"""

from __future__ import annotations

import contextlib
import json
import socket
import threading
import time
from typing import Any

from batchmark_job.errors import one_line

BEAT_SECONDS = 5.0  # twelve in SILENCE_SECONDS, so that a few late ones lose no node
SILENCE_SECONDS = 60.0  # judgment: survives a stalled network; a lost node idles the others as long
MOST_BYTES = 4 * 2**20  # of a line
BEAT = {"kind": "beat"}
CLOSED = "closed the connection"


class LostError(Exception):
    """The other node did not respond, closed the connection or sent an invalid message."""


def what_it_did(error: Exception) -> str:
    """Return what the other node did to cause the error, to follow its name or "it"."""
    if isinstance(error, LostError):
        return str(error)
    if isinstance(error, TimeoutError):
        return f"sent nothing for {SILENCE_SECONDS:.0f} s"
    if isinstance(error, ConnectionError):  # killed with messages unread, a node resets it
        return CLOSED
    if isinstance(error, OSError):
        return f"can't be reached: {one_line(error)}"
    return f"sent an invalid message: {one_line(error)}"


class NodeConnection:
    """A connection to another node. One thread receives; any thread may send."""

    def __init__(self, connection: socket.socket) -> None:
        connection.settimeout(SILENCE_SECONDS)
        self._connection = connection
        self._file = connection.makefile("rb")
        self._lock, self._reading = threading.Lock(), threading.Lock()
        self._closed = threading.Event()
        threading.Thread(target=self._beat, name="heartbeat", daemon=True).start()

    def send(self, message: dict[str, Any]) -> None:
        """Send a message; if the connection is lost, only `receive` reports it."""
        with contextlib.suppress(OSError), self._lock:
            self._connection.sendall(json.dumps(message).encode() + b"\n")

    def receive(self) -> dict[str, Any]:
        """Return the next message, skipping heartbeats.

        Raises:
            LostError: the connection ended, or an invalid message arrived.
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
        if self._reading.acquire(blocking=False):  # the receiving thread closes it otherwise
            self._file.close()
            self._reading.release()

    def _next(self) -> dict[str, Any]:
        try:
            line = self._file.readline(MOST_BYTES)
            message = json.loads(line) if line else None
        except (OSError, ValueError, RecursionError) as error:
            raise LostError(what_it_did(error)) from error
        if message is None:
            raise LostError(CLOSED)
        if not isinstance(message, dict):
            raise LostError(f"sent {message!r:.100}, which is not a valid message")
        return message

    def _beat(self) -> None:
        while not self._closed.wait(BEAT_SECONDS):
            self.send(BEAT)


def connect(address: str, port: int, seconds: float, proof: bytes) -> NodeConnection:
    """Connect once the address accepts connections, and present the proof of membership.

    Raises:
        LostError: the connection was not accepted in time.
    """
    end = time.monotonic() + seconds
    while True:
        try:
            connection = socket.create_connection((address, port), timeout=BEAT_SECONDS)
            connection.sendall(proof)
            return NodeConnection(connection)
        except OSError as error:
            if time.monotonic() > end:
                raise LostError(
                    f"did not respond at {address}:{port} within {seconds:.0f} s: {one_line(error)}"
                ) from error
            time.sleep(0.2)
