"""The active faults, queried by the code they affect; `fault_control` starts and ends them."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeVar

from local_cloud.faults.kinds import Fault, Kind

AnyKind = TypeVar("AnyKind", bound=Kind)


@dataclass(eq=False)
class Active:
    """An active fault. `undo` reverts its effects on Batch or FSx."""

    id: str
    fault: Fault
    random: random.Random = field(default_factory=random.Random)
    strikes: int = 0
    undo: Callable[[], None] = lambda: None
    timer: threading.Timer | None = None
    began: float = field(default_factory=time.monotonic)

    @property
    def is_spent(self) -> bool:
        """Whether the fault has already been applied as often as `times` allows."""
        times: int | None = getattr(self.fault, "times", None)
        return times is not None and self.strikes >= times

    def shown(self) -> dict[str, Any]:
        lasts = self.fault.seconds
        left = None if lasts is None else max(0.0, lasts - (time.monotonic() - self.began))
        return {
            "id": self.id,
            **self.fault.model_dump(),
            "strikes": self.strikes,
            "remaining_seconds": None if left is None else round(left, 1),
        }


UNDER_WAY: dict[str, Active] = {}  # by id, oldest first


def active_faults(kind: type[AnyKind]) -> Iterator[tuple[Active, AnyKind]]:
    """Yield the active faults of the given kind."""
    for active in list(UNDER_WAY.values()):
        if isinstance(active.fault, kind):
            yield active, active.fault


def strike(
    kind: type[AnyKind], covers: Callable[[AnyKind], bool] = lambda _: True
) -> AnyKind | None:
    """Return the first unspent fault of this kind that covers the target; count it as applied."""
    for active, fault in active_faults(kind):
        if not active.is_spent and covers(fault):
            active.strikes += 1
            return fault
    return None
