"""Workers: short-lived processes that run one piece of work each.

Usually, a worker measures one implementation of one row. Workers are forked from a server that has
loaded the libraries but hasn't started any threads or initialised CUDA. Between requests, a worker
is suspended (SIGSTOP) along with all its threads, so that an idle library's threads can't disturb
the measurement of another. If a worker dies, no other process is affected.
"""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import multiprocessing
import os
import signal
import sys
import tempfile
import threading
import traceback
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from multiprocessing import forkserver
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple, NoReturn, Protocol

import psutil

from batchmark_job.errors import JobError
from batchmark_job.machine.host import python_path
from batchmark_job.machine.memory import kills_for_memory

PRELOAD = "batchmark_job.measuring.preload"
SILENCE_SECONDS = 120.0  # minimum silence before a worker counts as hung
STDERR_LINES = 3  # lines of a lost worker's stderr given as the reason
STDERR_BYTES = 4000  # judgment: read from the end; room for long lines, or a crash's dump
PR_SET_PDEATHSIG = 1  # prctl(2)
# Read when libraries are loaded; values already set are kept (docs/decisions/0018).
SETTINGS = {
    # How long an OpenBLAS thread spins for work, as a power of 2 of clock cycles: 0.4 ms, not 26
    # ms.
    "OPENBLAS_THREAD_TIMEOUT": "20",
    # Makes torch ask for huge pages, as NumPy does by itself: a blur of 2048² takes 5 % less time.
    "THP_MEM_ALLOC_ENABLE": "1",
}

Tell = Callable[[str, Any], None]
Hear = Callable[[str, Any], None]


class Usage(NamedTuple):
    cpu_seconds: float
    memory_bytes: int  # resident now


class StepError(Exception):
    """Raised if a step fails in its worker; the message is a single line.

    `lost` means that the process has ended, `hung` that it was killed because it did not respond.
    """

    def __init__(
        self, reason: str, *, out_of_memory: bool = False, lost: bool = False, hung: bool = False
    ) -> None:
        super().__init__(reason)
        self.out_of_memory, self.lost, self.hung = out_of_memory, lost, hung


class Worker(Protocol):
    """A process that holds an object and runs its methods on request."""

    def get_ready(self) -> None:
        """Wait until the worker has created its object; several workers can do so concurrently.

        Raises:
            StepError: the object could not be created, or the process was lost.
        """

    def ask(self, step: str, **arguments: Any) -> Any:
        """Call one of the object's methods and return its result.

        Raises:
            StepError: the method failed, or the process was lost.
        """
        self.begin(step, **arguments)
        return self.answer()

    def begin(self, step: str, **arguments: Any) -> None:
        """Call a method without waiting for its result, so that several workers can run at once."""

    def answer(self, within_seconds: float | None = None) -> Any:
        """Wait for the result of the call that begin() made.

        Raises:
            StepError: as for ask(), or the worker reported nothing for `within_seconds`.
        """

    def end(self) -> None:
        """End the process if it is still running."""


class WorkerSource(Protocol):
    """Starts workers, in this container or in others."""

    def start(self, make: Callable[..., Any], *arguments: Any, hear: Hear = ...) -> Worker:
        """Start a worker whose object is created by make(tell, *arguments).

        Everything that the object reports through `tell` is passed to `hear` as (kind, value).
        """

    def wait_for_ended(self) -> None:
        """Wait until ended workers have released all their resources."""


def ignore(kind: str, value: Any) -> None: ...


class ForkedWorkers(WorkerSource):
    """This container's workers, forked from a server that ends with this process."""

    def __init__(
        self, silence_seconds: float = SILENCE_SECONDS, modules: Sequence[str] = ()
    ) -> None:
        """Start the server.

        Args:
            silence_seconds: a worker that is silent for this long counts as hung.
            modules: modules for the server to load in addition to those that every job needs.
        """
        self.context = multiprocessing.get_context("forkserver")
        self.context.set_forkserver_preload([*modules, PRELOAD])
        self.silence_seconds = silence_seconds
        self.live: set[ForkedWorker] = set()
        self.ending: list[ForkedWorker] = []
        self.ended_seconds = 0.0  # of CPU time
        self.server_bytes = 0  # peak resident size of the server
        self.counting = threading.Lock()  # so that no worker counts as both live and ended
        self.closed = threading.Event()
        with _environment(), _signals_kept():
            forkserver.ensure_running()

    def start(self, make: Callable[..., Any], *arguments: Any, hear: Hear = ignore) -> ForkedWorker:
        return ForkedWorker(self, hear, (make, arguments, True))

    def run(self, function: Callable[..., Any], *arguments: Any, hear: Hear = ignore) -> Any:
        """Run function(tell, *arguments) in a new worker, and return its result.

        Raises:
            StepError: the function failed, or the process was lost.
            JobError: the function raised it.
        """
        worker = ForkedWorker(self, hear, (function, arguments, False))
        try:
            return worker.answer()
        finally:
            worker.end()

    def usage(self) -> Usage:
        """Return all workers' CPU time, and the total memory of the workers and the server.

        Pages that a worker shares with the server are counted once.
        """
        # The kernel may have reclaimed pages of the idle server that its workers still hold.
        server = forkserver._forkserver._forkserver_pid  # type: ignore[attr-defined]
        shared = self.server_bytes = max(self.server_bytes, _resident_bytes(server))
        with self.counting:
            live = [worker.usage() for worker in self.live]
            seconds = self.ended_seconds + sum(usage.cpu_seconds for usage in live)
        return Usage(seconds, shared + sum(max(0, use.memory_bytes - shared) for use in live))

    def close(self) -> None:
        """Kill all workers; any thread may call this, but one waiting for a worker then hangs."""
        self.closed.set()
        for worker in list(self.live):
            worker.kill()
        self.wait_for_ended()

    def wait_for_ended(self) -> None:
        """Wait for killed workers to exit: freeing memory occupies a core that timed calls need."""
        while self.ending:
            self.ending.pop().tidy_up()


class ForkedWorker(Worker):
    """The parent process's handle for one worker."""

    def __init__(self, workers: ForkedWorkers, hear: Hear, task: tuple[Any, ...]) -> None:
        self._workers, self._hear = workers, hear
        self._kills_before = kills_for_memory()
        handle, name = tempfile.mkstemp(prefix="batchmark-worker-", suffix=".err")
        os.close(handle)
        self._stderr = Path(name)
        self._pipe, theirs = workers.context.Pipe()
        self._process = workers.context.Process(target=_serve, args=(theirs, name), daemon=False)
        with _signals_kept():
            self._process.start()
        theirs.close()
        self.pid = int(self._process.pid or 0)
        self._cpu_seconds = 0.0  # as last seen
        with workers.counting:
            workers.live.add(self)
        self._send(task)

    def get_ready(self) -> None:
        self.answer()

    def begin(self, step: str, **arguments: Any) -> None:
        self._workers.wait_for_ended()
        self._signal(signal.SIGCONT)
        self._send((step, arguments))

    def usage(self) -> Usage:
        with contextlib.suppress(psutil.Error):
            times = psutil.Process(self.pid).cpu_times()
            self._cpu_seconds = times.user + times.system
        return Usage(self._cpu_seconds, _resident_bytes(self.pid))

    def end(self) -> None:
        if self not in self._workers.live:
            return
        with self._workers.counting:
            self._workers.ended_seconds += self.usage().cpu_seconds
            self._workers.live.discard(self)
        self.kill()
        self._workers.ending.append(self)

    def tidy_up(self) -> None:
        self._process.join()
        self._pipe.close()
        with contextlib.suppress(OSError):
            if written := self._stderr.read_text(errors="replace"):
                print(written, end="", file=sys.stderr, flush=True)
            self._stderr.unlink()

    def kill(self) -> None:
        self._signal(signal.SIGKILL)

    def _send(self, message: tuple[Any, ...]) -> None:
        with contextlib.suppress(OSError):  # the worker is lost, as answer() will find
            self._pipe.send(message)

    def answer(self, within_seconds: float | None = None) -> Any:
        """Wait for the result, then suspend the process again."""
        silence = self._workers.silence_seconds if within_seconds is None else within_seconds
        try:
            while True:
                if not self._pipe.poll(silence):
                    self.kill()
                    reason = f"it hung: no response for {silence:.3g} s{self._said()}"
                    raise StepError(reason, lost=True, hung=True)
                kind, *values = self._pipe.recv()
                match kind, values:
                    case "told", (what, value):
                        self._hear(what, value)
                    case "answer", (value,):
                        self._signal(signal.SIGSTOP)
                        return value
                    case "failed", (reason, out_of_memory):
                        self._signal(signal.SIGSTOP)
                        raise StepError(reason, out_of_memory=out_of_memory)
                    case "raised", (error,):
                        raise error
        except (EOFError, OSError) as error:
            raise self._lost() from error

    def _lost(self) -> StepError:
        if self._workers.closed.is_set():
            threading.Event().wait()  # an interruption is writing and ends the process
        self._process.join()
        code = self._process.exitcode or 0
        if code == -signal.SIGKILL and kills_for_memory() > self._kills_before:
            reason = "out of memory: the kernel killed its process"
            return StepError(reason, out_of_memory=True, lost=True)
        how = (
            f"was killed by {signal.Signals(-code).name}"
            if code < 0
            else f"exited with code {code}"
        )
        return StepError(f"its process {how}{self._said()}", lost=True)

    def _said(self) -> str:
        """Return the last lines of the worker's stderr, to be appended to a message."""
        with contextlib.suppress(OSError), self._stderr.open("rb") as file:
            file.seek(max(0, self._stderr.stat().st_size - STDERR_BYTES))
            text = file.read().decode(errors="replace")
            lines = [line.strip() for line in text.split("\n") if line.strip()]
            # faulthandler's dump begins with the signal's name and the innermost frames.
            dumps = [n for n, line in enumerate(lines) if line.startswith("Fatal Python error")]
            last = lines[dumps[0] :][:STDERR_LINES] if dumps else lines[-STDERR_LINES:]
            return f": {' | '.join(last)}" if last else ""
        return ""

    def _signal(self, number: signal.Signals) -> None:
        if self._process.exitcode is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)


@contextlib.contextmanager
def _environment() -> Iterator[None]:
    """Within the context, set variables for the server: import path and libraries' settings."""
    before = dict(os.environ)
    os.environ["PYTHONPATH"] = python_path()
    os.environ.update({name: before.get(name, value) for name, value in SETTINGS.items()})
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


@contextlib.contextmanager
def _signals_kept() -> Iterator[None]:
    """On exit, block signals again that starting multiprocessing's resource tracker unblocks."""
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)


def _resident_bytes(pid: int | None) -> int:
    with contextlib.suppress(psutil.Error):
        return int(psutil.Process(pid).memory_info().rss)
    return 0


def _serve(pipe: Connection, stderr: str) -> NoReturn:
    """Run a function, or create an object and call its methods until the pipe closes; then exit."""
    code = 1
    try:
        with open(stderr, "wb", buffering=0) as file:
            os.dup2(file.fileno(), 2)
        faulthandler.enable()
        _go_first()
        _answer_questions(pipe)
        code = 0
    except EOFError:
        code = 0  # the parent closed the pipe
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _answer_questions(pipe: Connection) -> None:
    from batchmark_job.machine import memory
    from batchmark_job.workloads.own.errors import where_raised

    def tell(kind: str, value: Any) -> None:
        pipe.send(("told", kind, value))

    def answer(question: Callable[[], Any]) -> None:
        try:
            reply: tuple[Any, ...] = ("answer", question())
        except JobError as error:
            reply = "raised", error
        except (Exception, SystemExit) as error:  # a user's code may call sys.exit()
            reason = memory.describe_error(error) + where_raised(error)
            reply = "failed", reason, memory.is_out_of_memory(error)
        sys.stdout.flush()
        pipe.send(reply)

    tell("imported", import_module(PRELOAD).LOADED_AT)
    held: list[Any] = []

    def begin() -> Any:
        make, arguments, keep = pipe.recv()
        made = make(tell, *arguments)
        if keep:
            held.append(made)
        return None if keep else made

    answer(begin)
    while held:
        step, arguments = pipe.recv()
        answer(lambda: getattr(held[0], step)(**arguments))  # noqa: B023


def _go_first() -> None:
    """Make this worker die with the server, and be the OOM killer's first victim.

    The server ends once no process holds its pipe open, so this worker closes its copy: a
    stopped worker would hold the pipe open forever.
    """
    with contextlib.suppress(OSError, AttributeError, TypeError):
        os.close(forkserver._forkserver._forkserver_alive_fd)  # type: ignore[attr-defined]
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000")
