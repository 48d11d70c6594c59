"""Handles SIGTERM and SIGINT at once, even during a library call that takes a minute."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
from typing import NoReturn

from batchmark_job.errors import say

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)
STAY_SECONDS = 600.0  # Spot gives two minutes' notice


class Interruption:
    """A thread that waits for the stop signals, which all other threads block.

    A Python signal handler would run only after the current library call returns; this thread runs
    in the meantime, even in process 1 of a container. A second signal ends the process immediately.
    """

    def __init__(self) -> None:
        self.on_stop: Callable[[signal.Signals], int] | None = None
        self._stay_seconds = 0.0

    def watch(self) -> None:
        """Start waiting; call this first, so that later threads inherit the blocked signals."""
        signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)
        threading.Thread(target=self._first, name="first signal", daemon=True).start()

    def host_ends_soon(self) -> None:
        """Act as if SIGTERM had arrived, but don't exit until the host's shutdown sends a real one.

        Batch then sees a lost host and retries the job elsewhere. Exiting earlier would count as
        the job's own failure, or send its next attempt to the same host.
        """
        self._stay_seconds = STAY_SECONDS
        os.kill(os.getpid(), signal.SIGTERM)

    def _first(self) -> None:
        received = signal.Signals(signal.sigwait(STOP_SIGNALS))
        threading.Thread(target=self._second, name="second signal", daemon=True).start()
        exit_code = 128 + received
        try:
            if self.on_stop is None:
                say(
                    f"batchmark-job: received {received.name} before the first row; nothing to "
                    "write"
                )
            else:
                exit_code = self.on_stop(received)
        except Exception:
            traceback.print_exc()
        finally:
            time.sleep(self._stay_seconds)
            _exit(exit_code)

    def _second(self) -> None:
        _exit(128 + signal.sigwait(STOP_SIGNALS))


def _exit(code: int) -> NoReturn:
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
