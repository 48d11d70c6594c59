"""Runs a job's command and kills all its descendants at the end, like a container's init.

The server starts it as `python -I -S launcher.py COMMAND…`. It imports little, because every job
waits for its imports. The server holds the other end of the launcher's standard input. Once that
end is closed, to kill the job or because the server has exited, the launcher kills everything that
the job started. It passes SIGTERM on to the command.
"""

import _thread
import contextlib
import ctypes
import os
import signal
import sys

PR_SET_CHILD_SUBREAPER = 36  # linux/prctl.h


def adopt_orphans() -> None:
    """Become the parent of the command's orphaned descendants (Linux only)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def start(command: list[str]) -> int:
    """Start the command in its own session and return its process id."""
    pid = os.fork()
    if pid:
        return pid
    os.setsid()
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
    with open(os.devnull, "rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    try:
        os.execvp(command[0], command)  # noqa: S606 - the command comes from a job definition
    except OSError as error:
        sys.stderr.write(f"exec: {command[0]!r}: {error.strerror}\n")
        sys.stderr.flush()
        os._exit(126 if isinstance(error, PermissionError) else 127)


def kill(pid: int) -> None:
    """Kill the process and its group, if they still exist."""
    for end in (os.kill, os.killpg):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            end(pid, signal.SIGKILL)


def children() -> list[int]:
    """Return the process ids of this process's children, or none on systems without /proc."""
    found = []
    for entry in os.listdir("/proc") if os.path.isdir("/proc") else []:
        if entry.isdigit():
            with contextlib.suppress(OSError), open(f"/proc/{entry}/stat") as stat:
                parent = stat.read().rpartition(")")[2].split()[1]
                if int(parent) == os.getpid():
                    found.append(int(entry))
    return found


def wait_for(pid: int) -> int:
    """Wait for the command to end; return its exit code, or 128 + n after signal n."""
    while True:
        ended, status = os.waitpid(-1, 0)
        if ended == pid:
            code = os.waitstatus_to_exitcode(status)
            return code if code >= 0 else 128 - code


def reap_rest() -> None:
    """Kill and reap the command's remaining descendants, one generation at a time."""
    with contextlib.suppress(ChildProcessError):
        while True:
            if os.waitpid(-1, os.WNOHANG) == (0, 0):
                for pid in children():
                    kill(pid)
                os.waitpid(-1, 0)


def main() -> None:
    adopt_orphans()
    # Blocked here and in every thread, so that sigwait misses none.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    pid = start(sys.argv[1:])

    def pass_on_sigterm() -> None:
        while signal_number := signal.sigwait({signal.SIGTERM}):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal_number)

    def kill_when_abandoned() -> None:
        while os.read(0, 1):
            pass
        kill(pid)

    _thread.start_new_thread(pass_on_sigterm, ())
    _thread.start_new_thread(kill_when_abandoned, ())
    code = wait_for(pid)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)
    reap_rest()
    os._exit(code)


if __name__ == "__main__":
    main()
