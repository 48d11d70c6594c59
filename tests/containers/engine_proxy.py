"""A socket in front of the engine, by which it can die for one local cloud and come back."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from pathlib import Path

CHUNK_BYTES = 65536


class EngineProxy:
    """A context manager: passes on what arrives at `path` to the engine's own socket."""

    def __init__(self, engine: str, path: Path) -> None:
        self._engine = engine
        self.path = path
        self._listener: socket.socket | None = None
        self._connections: set[socket.socket] = set()
        self.come_back()

    def __enter__(self) -> EngineProxy:
        return self

    def __exit__(self, *_: object) -> None:
        self.die()

    @property
    def url(self) -> str:
        return f"unix://{self.path}"

    def come_back(self) -> None:
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(str(self.path))
        listener.listen()
        self._listener = listener
        threading.Thread(target=self._accept, args=(listener,), daemon=True).start()

    def die(self) -> None:
        """Refuse new connections, and break those there are."""
        if self._listener is None:
            return
        self.path.unlink()
        _break(self._listener)
        self._listener = None
        for connection in list(self._connections):
            _break(connection)
        self._connections.clear()

    def _accept(self, listener: socket.socket) -> None:
        with suppress(OSError):
            while True:
                client, _ = listener.accept()
                engine = socket.socket(socket.AF_UNIX)
                engine.connect(self._engine)
                self._connections |= {client, engine}
                for ends in ((client, engine), (engine, client)):
                    threading.Thread(target=_pass_on, args=ends, daemon=True).start()


def _pass_on(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(CHUNK_BYTES):
            target.sendall(data)
    with suppress(OSError):
        target.shutdown(socket.SHUT_WR)


def _break(connection: socket.socket) -> None:
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
    connection.close()
