"""Processes as the engine's machine counts them, which need not be this one."""

from typing import Any

KILL = """
import os
try:
    os.kill({pid}, 9)
except ProcessLookupError:
    print("had ended")
"""


def kill(engine: Any, pid: int, image: str) -> bool:
    """SIGKILL a process of any container, by a container of an image that has Python.

    False if there was no such process any more.
    """
    said = engine.containers.run(
        image,
        entrypoint=["python", "-c", KILL.format(pid=pid)],
        user="0",
        pid_mode="host",
        network_mode="none",
        remove=True,
    )
    return said == b""
