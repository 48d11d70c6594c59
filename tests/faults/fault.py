"""What a fault is: how to inflict it, and what must come of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.faults.outcome import Outcome

if TYPE_CHECKING:
    from tests.faults.bench import Bench
    from tests.faults.run import Run

# By the point of the job's way at which the fault strikes; where there is but one, the run alone.
Runs = dict[str, "Run"]


@dataclass(frozen=True)
class Fault:
    """A fault with the outcome it must have at each point; its name is "" where there is but one.

    `inflict` returns the runs it struck, by point, when they have ended. One that is `alone`
    disturbs the whole stack, so that no other is inflicted meanwhile. The layered ones come one
    after the other, as they share the only layer. The quick ones are part of `make test-rest`.
    """

    name: str
    inflict: Callable[[Bench], Run | Runs]
    expected: Mapping[str, Outcome]
    alone: bool = False
    layered: bool = False
    quick: bool = False
