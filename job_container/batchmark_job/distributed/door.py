"""The main node's port: who shows the job's proof is let in, anybody else is dropped unanswered."""

from __future__ import annotations

import contextlib
import hmac
import selectors
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

PROOF_BYTES = 32
PROOF_SECONDS = 5.0  # for a visitor to show it
MOST_VISITORS = 128  # at once; the one that has waited longest makes room
LOOK_SECONDS = 0.5


@dataclass(eq=False)
class _Visitor:
    connection: socket.socket
    since: float = field(default_factory=time.monotonic)
    shown: bytes = b""


class Door:
    """Listens in one thread, however many come. Of each it reads as many bytes as a proof has.

    Args:
        let_in: is given the connection of each who shows the proof.

    Raises:
        OSError: the address or the port can't be had.
    """

    def __init__(
        self, address: str, port: int, proof: bytes, let_in: Callable[[socket.socket], None]
    ) -> None:
        self._proof, self._let_in = proof, let_in
        self._listener = socket.create_server((address, port), backlog=MOST_VISITORS)
        self._listener.setblocking(False)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._visitors: list[_Visitor] = []  # the first has waited longest
        self._closed = threading.Event()
        self.dropped = 0
        threading.Thread(target=self._watch, name="door", daemon=True).start()

    def close(self) -> None:
        """Let nobody in any more."""
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
        except OSError:  # closed, or one of many connections failed
            self._closed.wait(0.05)
            return
        connection.setblocking(False)
        visitor = _Visitor(connection)
        self._visitors.append(visitor)
        self._selector.register(connection, selectors.EVENT_READ, visitor)
        if len(self._visitors) > MOST_VISITORS:
            self._drop(self._visitors[0])

    def _hear(self, visitor: _Visitor) -> None:
        if visitor not in self._visitors:  # it has just made room
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
            visitor.connection.shutdown(socket.SHUT_RDWR)  # a forked worker may hold it open
        visitor.connection.close()
        self.dropped += 1

    def _forget(self, visitor: _Visitor) -> None:
        self._visitors.remove(visitor)
        self._selector.unregister(visitor.connection)
