"""Evaluates a calibration run: measures each target's noise and runs an A/A test on its jobs."""

from __future__ import annotations

from collections.abc import Collection

from pydantic import Field

from batchmark.analysis.judging.noise import NoiseTable, RowName, measure_noise
from batchmark.analysis.judging.significance import ENOUGH_REPEATS
from batchmark.analysis.judging.verdict import Contestant, judge
from batchmark.analysis.pooling import TargetJobs, group_jobs
from batchmark.analysis.samples import RowSamples
from batchmark.core.errors import NoiseError
from batchmark.core.record import Record
from batchmark.core.run import CollectedRun


class SelfCheck(Record):
    """An A/A test that compares a target's odd and even repeats as if they were two targets.

    Each half is judged by its own scatter, because the noise table was measured on both halves and
    would explain away any difference between them.
    """

    rows: int = Field(ge=1, description="number of rows compared")
    different: tuple[RowName, ...] = Field(description="rows wrongly judged to differ")


class Calibration(Record):
    table: NoiseTable
    self_check: SelfCheck | None = Field(description="null if there are too few jobs to split")
    notices: tuple[str, ...] = Field(description="caveats to read before the figures")


class CalibrationReport(Record):
    run_id: str
    calibrations: tuple[Calibration, ...]
    refused: tuple[str, ...] = Field(description="reasons why some targets have no calibration")


def calibrate(run: CollectedRun, *, region: str | None) -> CalibrationReport:
    """Measure each target's noise and run its A/A test, or state why that is impossible."""
    calibrations: list[Calibration] = []
    refused: list[str] = []
    for (suite, dtype), targets in group_jobs(run).items():
        for target in targets:
            try:
                table = measure_noise(
                    target, suite=suite, dtype=dtype, region=region, run_id=run.run_id
                )
            except NoiseError as error:
                refused.append(str(error))
                continue
            notice = (
                f"The GPU target {target.name} ran on the CPU, so none of the figures describe a "
                "GPU."
            )
            calibrations.append(
                Calibration(
                    table=table,
                    self_check=_check(target, table),
                    notices=(notice,) * target.fell_back,
                )
            )
    return CalibrationReport(
        run_id=run.run_id, calibrations=tuple(calibrations), refused=tuple(refused)
    )


def samples_of_repeats(samples: RowSamples, repeats: Collection[int]) -> RowSamples:
    """Select a row's samples from these repeats only."""
    measured = [(job, row) for job, row in samples.measured if job.planned.repeat in repeats]
    return RowSamples(measured=measured)


def _check(target: TargetJobs, table: NoiseTable) -> SelfCheck | None:
    repeats = [job.planned.repeat for job in target.jobs]
    odd, even = repeats[::2], repeats[1::2]
    rows = 0
    different: list[RowName] = []
    for samples in target.samples.values():
        halves = samples_of_repeats(samples, odd), samples_of_repeats(samples, even)
        fewest = min(len(half.measured) for half in halves)
        if fewest < ENOUGH_REPEATS or table.find(samples) is None:
            continue
        rows += 1
        first, second = (Contestant(target.name, half) for half in halves)
        if judge(first, second).faster:
            different.append(RowName.of(samples.row))
    return SelfCheck(rows=rows, different=tuple(different)) if rows else None
