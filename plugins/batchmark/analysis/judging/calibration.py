"""Evaluates a calibration run: each target's noise, and an A/A test of its own jobs."""

from __future__ import annotations

from collections.abc import Collection

from pydantic import Field

from batchmark.analysis.judging.noise import NoiseTable, RowName, measure_noise
from batchmark.analysis.judging.significance import ENOUGH_REPEATS
from batchmark.analysis.judging.verdict import Contestant, judge
from batchmark.analysis.pooling import TargetJobs, group_jobs
from batchmark.analysis.samples import RowSamples, row_key
from batchmark.core.errors import NoiseError
from batchmark.core.record import Record
from batchmark.core.run import CollectedRun


class SelfCheck(Record):
    """An A/A test: a target's odd repeats against its even ones, judged like two targets.

    Each half is judged by its own scatter, because the table's noise comes from both halves and
    would explain any difference between them.
    """

    rows: int = Field(ge=1, description="number of rows compared")
    different: tuple[RowName, ...] = Field(description="rows falsely called different")


class Calibration(Record):
    table: NoiseTable
    self_check: SelfCheck | None = Field(description="null with too few jobs for two halves")
    notices: tuple[str, ...] = Field(description="caveats to read before any figure")


class CalibrationReport(Record):
    run_id: str
    calibrations: tuple[Calibration, ...]
    refused: tuple[str, ...] = Field(description="targets without a calibration, and why")


def calibrate(run: CollectedRun, *, region: str | None) -> CalibrationReport:
    """Measure the noise of every target that has enough jobs."""
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
            notice = f"The GPU target {target.name} ran on the CPU: no figure here is a GPU's."
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
    """Select a row's samples from some of the repeats."""
    measured = [(job, row) for job, row in samples.measured if job.planned.repeat in repeats]
    return RowSamples(f"{row_key(samples.row)} {sorted(repeats)}", measured=measured)


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
