"""Judges which of two targets is faster on a row, if the data allows a verdict."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from batchmark.analysis.judging.noise import RowNoise, RowScatter, SideNoise, job_medians
from batchmark.analysis.judging.significance import (
    ASSUMED,
    ENOUGH_REPEATS,
    JobNoise,
    Resolution,
    known_or_assumed,
    largest_credible,
    log_spread,
    relative,
)
from batchmark.analysis.samples import RowSamples
from batchmark.core.formatting import difference_text, percent
from batchmark.core.intervals import Estimate, ratio

WEAKEST_FIRST = ("assumed", "repeats", "calibration")


@dataclass(frozen=True)
class Contestant:
    """One target's measured row, with its calibration if one applies."""

    name: str
    samples: RowSamples
    calibration: RowScatter | None = None


@dataclass(frozen=True)
class Judgement:
    faster: Literal["first", "second"] | None
    ratio: Estimate  # the second's time over the first's
    noise: RowNoise
    same_cpu: str | None = None  # its model, if both ran on it because a GPU target fell back


def judge(first: Contestant, second: Contestant) -> Judgement:
    """Decide which contestant is faster, unless chance or noise explains the difference.

    A contestant is faster if the interval of the ratio of medians excludes 1, and the jobs' mean
    log medians differ by more than noise alone does in all but a fraction LEVEL of comparisons.

    Raises:
        ValueError: none of a contestant's jobs measured the row.
    """
    first_median, second_median = first.samples.median, second.samples.median
    if first_median is None or second_median is None:
        raise ValueError(f"{first.name} or {second.name} did not measure the row")
    medians = job_medians(first.samples), job_medians(second.samples)
    noises = [_noise(*side) for side in zip((first, second), medians, strict=True)]
    (first_noise, first_note), (second_noise, second_note) = noises
    resolution = Resolution(first_noise, len(medians[0]), second_noise, len(medians[1]))
    quotient = ratio(second_median, first_median, resolution.margin)
    lead = float(np.mean(np.log(medians[1])) - np.mean(np.log(medians[0])))
    faster: Literal["first", "second"] | None = None
    reason = None
    if abs(lead) <= resolution.critical_difference:
        reason = (
            f"not known yet: equal jobs may differ by up to "
            f"{difference_text(relative(resolution.critical_difference))}"
        )
    elif _excludes_one(quotient, lead):
        faster = "first" if lead > 0 else "second"
    sources = {first_noise.source, second_noise.source}
    return Judgement(
        faster,
        quotient,
        RowNoise(
            lead=lead,
            gpu=_side_noise(first_noise),
            cpu=_side_noise(second_noise),
            floor=relative(max(first_noise.log_sd, second_noise.log_sd)),
            # Without an interval no difference is decided, however large.
            smallest_detectable_change=resolution.smallest_detectable_change
            if quotient.interval
            else relative(math.inf),
            critical_change=relative(resolution.critical_difference),
            source=next(source for source in WEAKEST_FIRST if source in sources),
            note="; ".join(filter(None, (reason, first_note, second_note))) or None,
        ),
    )


def _side_noise(noise: JobNoise) -> SideNoise:
    return SideNoise(
        floor=relative(noise.log_sd),
        degrees=None if math.isinf(noise.degrees) else noise.degrees,
        source=noise.source,
    )


def _noise(side: Contestant, medians: Sequence[float]) -> tuple[JobNoise, str | None]:
    """Estimate a target's job-to-job noise from the best available source, with a note on it."""
    jobs, known = len(medians), side.calibration
    spread = log_spread(medians) if jobs > 1 else 0.0
    note = None
    if known and jobs >= ENOUGH_REPEATS and jobs > known.jobs:
        note = (
            f"{side.name}: uses the noise of its own {jobs} jobs, because the calibration had "
            f"only {known.jobs}"
        )
    elif known:
        most = largest_credible(known.job_noise, jobs) if jobs > 1 else spread
        if spread <= most:
            noise = known_or_assumed(known.job_noise, jobs)
            if noise.source == "assumed":
                note = (
                    f"{side.name}: judged by the assumed noise, because its calibration from "
                    f"{known.jobs} jobs ({percent(known.floor)}) would leave more undecided"
                )
            return noise, note
        note = (
            f"{side.name}: its {jobs} jobs differ by {percent(relative(spread))}, more than its "
            f"calibration allows ({percent(relative(most))}), so the calibration is not used"
        )
    if jobs >= ENOUGH_REPEATS:
        return known_or_assumed(JobNoise(spread, jobs - 1, "repeats"), jobs), note
    return JobNoise(max(ASSUMED.log_sd, spread), ASSUMED.degrees, "assumed"), note


def _excludes_one(quotient: Estimate, lead: float) -> bool:
    """Check whether the ratio's whole interval lies on the side of 1 that the lead indicates."""
    if quotient.interval is None:
        return False
    return quotient.interval.low > 1 if lead > 0 else quotient.interval.high < 1
