"""A socket in front of the engine, by which it can die for one local cloud and come back."""

import socket
import socketserver
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path

from tests.containers.own_engine import answers
from tests.waiting import wait_for


class EngineProxy:
    """A process that passes on what arrives at `path` to the engine's own socket."""

    def __init__(self, engine: str, path: Path) -> None:
        self._command = [sys.executable, "-m", "tests.containers.engine_proxy", engine, str(path)]
        self.path = path
        self.come_back()

    def come_back(self) -> None:
        self.path.unlink(missing_ok=True)
        self._process = subprocess.Popen(self._command)
        wait_for(lambda: answers(self.path), "answer of the engine")

    def die(self) -> None:
        """Refuse new connections, and break those there are."""
        self._process.kill()
        self._process.wait()


class PassOn(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        with socket.socket(socket.AF_UNIX) as engine:
            engine.connect(sys.argv[1])
            back = threading.Thread(target=pass_on, args=(engine, self.request))
            back.start()
            pass_on(self.request, engine)
            back.join()


def pass_on(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)


if __name__ == "__main__":
    socketserver.ThreadingUnixStreamServer(sys.argv[2], PassOn).serve_forever()
