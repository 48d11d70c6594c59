"""What an exit code says, in the words of shells and container engines."""

from __future__ import annotations

import signal

BY_SIGNALS = 128  # from here on, exit codes are of what a signal ended
_OF_SHELLS = {
    126: "the command can't be executed: is it a program, and marked as one",
    127: "the command was not found",
}
_OF_SIGNALS = {
    signal.SIGINT: "interrupted from outside",
    signal.SIGILL: "an instruction that this CPU does not have",
    signal.SIGABRT: "the program aborted itself",
    signal.SIGBUS: "bus error, often for want of shared memory",
    signal.SIGFPE: "a division by zero, or the like",
    signal.SIGKILL: "killed, usually for want of memory",
    signal.SIGSEGV: "segmentation fault",
    signal.SIGTERM: "told to end from outside",
}
# Whoever runs the host sends these, too: such an end says nothing of the command.
FROM_OUTSIDE = {
    BY_SIGNALS + one for one in (signal.SIGHUP, signal.SIGINT, signal.SIGKILL, signal.SIGTERM)
}


def exit_code(code: int, *, was_stopped: bool = False) -> str:
    """Such as "exit code 137 (killed, usually for want of memory)".

    A 0 needs no words, nor does the signal by which something that says so stopped a job.
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
