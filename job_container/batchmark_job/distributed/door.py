"""The main node's control port, which accepts only authenticated connections from the job."""

from __future__ import annotations

import contextlib
import hmac
import selectors
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

PROOF_BYTES = 32  # of an HMAC-SHA256
PROOF_SECONDS = 5.0  # how long a connection may take to present it
MOST_VISITORS = 128  # connections that may wait at once; beyond that the oldest is dropped
LOOK_SECONDS = 0.5  # how late a silent connection may be dropped, after PROOF_SECONDS


@dataclass(eq=False)
class _Visitor:
    connection: socket.socket
    since: float = field(default_factory=time.monotonic)
    shown: bytes = b""


class AuthenticatingListener:
    """Authenticates incoming connections in one thread, reading at most one proof from each.

    Args:
        proof: bytes that a connection must send first.
        let_in: called with each authenticated connection.

    Raises:
        OSError: the address or port is not available.
    """

    def __init__(
        self, address: str, port: int, proof: bytes, let_in: Callable[[socket.socket], None]
    ) -> None:
        self._proof, self._let_in = proof, let_in
        self._listener = socket.create_server((address, port), backlog=MOST_VISITORS)
        self._listener.setblocking(False)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._visitors: list[_Visitor] = []  # oldest first
        self._closed = threading.Event()
        self.dropped = 0
        threading.Thread(target=self._watch, name="door", daemon=True).start()

    def close(self) -> None:
        """Stop accepting connections."""
        self._closed.set()
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # wakes the thread, which closes it

    def _watch(self) -> None:
        with self._listener, self._selector:
            while not self._closed.is_set():
                for key, _ in self._selector.select(LOOK_SECONDS):
                    if key.data is None:
                        self._receive()
                    else:
                        self._hear(key.data)
                late = time.monotonic() - PROOF_SECONDS
                for visitor in [each for each in self._visitors if each.since < late]:
                    self._drop(visitor)
            for visitor in list(self._visitors):
                self._drop(visitor)

    def _receive(self) -> None:
        try:
            connection, _ = self._listener.accept()
        except OSError:  # closed, or a single connection failed
            self._closed.wait(0.05)
            return
        connection.setblocking(False)
        visitor = _Visitor(connection)
        self._visitors.append(visitor)
        self._selector.register(connection, selectors.EVENT_READ, visitor)
        if len(self._visitors) > MOST_VISITORS:
            self._drop(self._visitors[0])

    def _hear(self, visitor: _Visitor) -> None:
        if visitor not in self._visitors:  # dropped just now to make room
            return
        try:
            said = visitor.connection.recv(PROOF_BYTES - len(visitor.shown))
        except BlockingIOError:
            return
        except OSError:
            said = b""
        visitor.shown += said
        if said and len(visitor.shown) < PROOF_BYTES:
            return
        is_whole = len(visitor.shown) == PROOF_BYTES
        if not (is_whole and hmac.compare_digest(visitor.shown, self._proof)):
            self._drop(visitor)
            return
        self._forget(visitor)
        visitor.connection.setblocking(True)
        self._let_in(visitor.connection)

    def _drop(self, visitor: _Visitor) -> None:
        self._forget(visitor)
        with contextlib.suppress(OSError):
            # shut down first: a forked worker may hold a copy of the socket
            visitor.connection.shutdown(socket.SHUT_RDWR)
        visitor.connection.close()
        self.dropped += 1

    def _forget(self, visitor: _Visitor) -> None:
        self._visitors.remove(visitor)
        self._selector.unregister(visitor.connection)
