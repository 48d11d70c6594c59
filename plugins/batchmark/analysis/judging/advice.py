"""Says what would decide rows without a verdict."""

from __future__ import annotations

from collections.abc import Collection

from batchmark.analysis.judging.noise import RowNoise
from batchmark.analysis.judging.significance import repeats_to_detect
from batchmark.core import formatting

FINDABLE = (0.2, 0.1, 0.05)  # relative differences that more repeats are advised for, in turn
MANY_REPEATS = 50  # per side; a job that needs more had better run on another machine


def undecided(noises: Collection[RowNoise], repeats: int, *, short: bool = False) -> str:
    """Say why sides with enough jobs can't be told apart, and what would help."""
    most = max((noise.critical_change for noise in noises), default=0.0)
    floor = max((noise.floor for noise in noises), default=0.0)
    return (
        "Where the result is not known yet, the times of identical jobs may differ by up to "
        f"{formatting.difference_text(most)}: {more_repeats(floor, repeats, short=short)}."
    )


def more_repeats(
    floor: float, repeats: int, *, short: bool = False, least_change: float | None = None
) -> str:
    """Say which difference more repeats would find, and how many that takes.

    Args:
        floor: noise from job to job, relative.
        repeats: jobs per side so far.
        short: whether longer jobs would have less noise.
        least_change: the relative difference that matters; if None, the next one in FINDABLE.
    """
    less_noise = f"use a quieter machine{' or longer jobs' if short else ''}"
    for change in (least_change,) if least_change else FINDABLE:
        needed = repeats_to_detect(change, floor)
        found = f"to find nearly every difference of {100 * change:g} %"
        if needed > MANY_REPEATS:
            return f"{less_noise}: {found} here takes over {MANY_REPEATS} repeats per side"
        if needed > repeats:
            return f"measure {needed} repeats per side {found}, or {less_noise}"
    return f"measure more repeats, or {less_noise}"
