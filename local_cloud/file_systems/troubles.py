"""Faults under way that strike file systems; `local_cloud.faults` begins and ends them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fnmatch import fnmatchcase


@dataclass(eq=False)
class Trouble:
    """What happens to the file systems whose ids have this glob, to so many at most."""

    kind: str
    file_system: str = "*"
    reason: str = ""
    delay_seconds: float = 0.0
    free_mib: int = 0
    times: int | None = None
    on_strike: Callable[[], None] = lambda: None


UNDER_WAY: list[Trouble] = []


def strike(kind: str, file_system_id: str) -> Trouble | None:
    """The first trouble of this kind that strikes a file system; it counts as a strike."""
    for trouble in UNDER_WAY:
        if (
            trouble.kind == kind
            and trouble.times != 0
            and fnmatchcase(file_system_id, trouble.file_system)
        ):
            if trouble.times is not None:
                trouble.times -= 1
            trouble.on_strike()
            return trouble
    return None
