"""Explains exit codes according to the conventions of shells and container engines."""

from __future__ import annotations

import signal

BY_SIGNALS = 128  # from here on, exit codes are of what a signal ended
_OF_SHELLS = {
    126: "the command can't be executed: check that it is an executable program",
    127: "the command was not found",
}
_OF_SIGNALS = {
    signal.SIGINT: "interrupted from outside",
    signal.SIGILL: "illegal instruction for this CPU",
    signal.SIGABRT: "the program aborted itself",
    signal.SIGBUS: "bus error, often too little shared memory",
    signal.SIGFPE: "arithmetic error such as a division by zero",
    signal.SIGKILL: "killed, usually out of memory",
    signal.SIGSEGV: "segmentation fault",
    signal.SIGTERM: "terminated from outside",
}
# The host's operator sends these, too, so such an end says nothing about the command.
FROM_OUTSIDE = {
    BY_SIGNALS + one for one in (signal.SIGHUP, signal.SIGINT, signal.SIGKILL, signal.SIGTERM)
}


def exit_code(code: int, *, was_stopped: bool = False) -> str:
    """Describe an exit code, such as "exit code 137 (killed, usually out of memory)".

    Exit code 0 gets no explanation. With `was_stopped`, neither does a signal from outside, because
    the stop is reported elsewhere.
    """
    meaning = _meaning(code, was_stopped=was_stopped)
    return f"exit code {code} ({meaning})" if meaning else f"exit code {code}"


def _meaning(code: int, *, was_stopped: bool) -> str:
    if was_stopped and code in FROM_OUTSIDE:
        return ""
    if code in _OF_SHELLS:
        return _OF_SHELLS[code]
    try:
        by = signal.Signals(code - BY_SIGNALS)
    except ValueError:
        return "the command's own error" if code else ""
    return _OF_SIGNALS.get(by, f"ended by {by.name}")
