"""Decodes history files in a separate process with a memory limit.

pyarrow has no memory limit: a wrong size in a file is noticed only when the data is unpacked, and
some damaged files crash the process. With a separate process, only the damaged file is lost.
"""

from __future__ import annotations

import resource
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from threading import Lock
from typing import Self, TypeAlias

import pyarrow as pa

from batchmark.history.parquet import FileLocation

# On top of what the process has at its start; the largest file that is read takes about 170 MB.
MOST_MEMORY_BYTES = 240 * 2**20
MOST_SECONDS = 120.0
SLACK_BYTES = 8 * 2**20

Decode: TypeAlias = Callable[[bytes, FileLocation], pa.Table]


class FileReader:
    """A thread-safe context manager that decodes one file at a time.

    On Linux, it uses a forked process, which starts within milliseconds. Elsewhere, files are
    decoded in the calling process, without limits.
    """

    def __init__(self, decode: Decode) -> None:
        self._decode = decode
        self._lock = Lock()
        self._process: BaseProcess | None = None
        self._connection: Connection | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def read(self, body: bytes, location: FileLocation) -> pa.Table:
        """Call `decode` on a file and return its table.

        Raises:
            ArrowInvalid: the file can't be decoded, or not within the memory and time limits.
            Exception: any error from `decode`, if the system isn't Linux.
        """
        if sys.platform != "linux":
            return self._decode(body, location)
        with self._lock:
            answer = self._answer(body, location) if self._connection else None
            # A process that has read many files may have little memory left for this one.
            answer = answer or self._answer(body, location)
        if answer is None:
            raise pa.ArrowInvalid(
                f"reading it takes more than {MOST_MEMORY_BYTES / 1e6:.0f} MB or {MOST_SECONDS:g} "
                "s, or crashes the reader"
            )
        if isinstance(answer, str):
            raise pa.ArrowInvalid(answer)
        return pa.ipc.open_stream(answer).read_all()

    def _answer(self, body: bytes, location: FileLocation) -> bytes | str | None:
        """Return a serialized table or an error message; None if the process died or hung."""
        connection = self._connection or self._start()
        try:
            connection.send(location)
            connection.send_bytes(body)
            if connection.poll(MOST_SECONDS):
                return connection.recv() or connection.recv_bytes()
        except (EOFError, OSError):
            pass
        self._end()
        return None

    def _start(self) -> Connection:
        fork = get_context("fork")
        self._connection, other = fork.Pipe()
        self._process = fork.Process(
            target=_serve, args=(other, self._connection, self._decode), daemon=True
        )
        self._process.start()
        other.close()
        return self._connection

    def _end(self) -> None:
        if self._process is not None and self._connection is not None:
            self._connection.close()
            self._process.kill()
            self._process.join()
            self._process.close()
        self._process = self._connection = None


def _serve(connection: Connection, parents: Connection, decode: Decode) -> None:
    parents.close()  # else the parent's end would go unseen
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    _limit_address_space(SLACK_BYTES)
    # pyarrow's pool has reserved up to 1 GiB that a limit would not stop it from filling. So all of
    # it is allocated first, in the largest possible parts, and never touched.
    reserved = []
    for exponent in range(40, 21, -1):
        with suppress(MemoryError):
            while True:
                reserved.append(pa.allocate_buffer(2**exponent))
    _limit_address_space(MOST_MEMORY_BYTES)
    with suppress(EOFError, OSError, MemoryError):
        while True:
            location, body = connection.recv(), connection.recv_bytes()
            try:
                answer = _serialized(decode(body, location))
            except MemoryError:
                raise
            except Exception as error:  # pyarrow's errors of foreign files are of many classes
                connection.send(str(error) or type(error).__name__)
            else:
                connection.send(None)
                connection.send_bytes(answer)


def _serialized(table: pa.Table) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    return sink.getvalue()


def _limit_address_space(more: int) -> None:
    """Limit the process to `more` bytes above its current address space."""
    pages, *_ = Path("/proc/self/statm").read_text().split()
    most = int(pages) * resource.getpagesize() + more
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (most if hard < 0 else min(most, hard), hard))
