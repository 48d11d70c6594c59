"""A calibration run: each target's noise, and whether its own jobs pass for equal (A/A)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field
from rich.markup import escape
from rich.table import Table

from batchmark import figures
from batchmark.exceptions import NoiseError
from batchmark.noise import JOBS_A_SIDE, NoiseTable, RowName, measure_noise
from batchmark.pooling import group_jobs
from batchmark.record import Record
from batchmark.series import Series, row_key
from batchmark.significance import ENOUGH_REPEATS
from batchmark.verdict import Contestant, judge

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from rich.console import Console

    from batchmark.pooling import TargetJobs
    from batchmark.run import CollectedRun

MOST_NAMES = 3
TOO_LARGE = 10  # changes beyond this share need no figure


class SelfCheck(Record):
    """A target's odd repeats against its even ones, by the rule for two targets.

    Each half is held against its own scatter: noise that both halves were measured for would
    explain any difference between them.
    """

    rows: int = Field(ge=1, description="compared")
    different: tuple[RowName, ...] = Field(description="of these, falsely")


class Calibration(Record):
    table: NoiseTable
    self_check: SelfCheck | None = Field(description="null with too few jobs for two halves")
    notices: tuple[str, ...] = Field(description="to be read before any figure")


class CalibrationReport(Record):
    run_id: str
    calibrations: tuple[Calibration, ...]
    refused: tuple[str, ...] = Field(description="targets without a calibration, and why")


def calibrate(run: CollectedRun, *, region: str | None) -> CalibrationReport:
    """Measure the noise of every target that has enough jobs.

    Raises:
        ComparisonError: a result document lists the same row twice.
    """
    calibrations: list[Calibration] = []
    refused: list[str] = []
    for (suite, dtype), targets in group_jobs(run).items():
        for target in targets:
            try:
                table = measure_noise(
                    target,
                    suite=suite,
                    dtype=dtype,
                    region=region,
                    run_id=run.run_id,
                )
            except NoiseError as error:
                refused.append(str(error))
                continue
            notices = (
                [f"The GPU target {target.name} ran on the CPU: no figure here is a GPU's."]
                if target.fell_back
                else []
            )
            calibrations.append(
                Calibration(table=table, self_check=_check(target, table), notices=tuple(notices))
            )
    return CalibrationReport(
        run_id=run.run_id,
        calibrations=tuple(calibrations),
        refused=tuple(refused),
    )


def part(series: Series, repeats: Collection[int]) -> Series:
    """The same row in some of its jobs."""
    measured = [(job, row) for job, row in series.measured if job.planned.repeat in repeats]
    return Series(f"{row_key(series.row)} {sorted(repeats)}", measured=measured)


def _check(target: TargetJobs, table: NoiseTable) -> SelfCheck | None:
    repeats = [job.planned.repeat for job in target.jobs]
    odd, even = repeats[::2], repeats[1::2]
    rows = 0
    different: list[RowName] = []
    for series in target.series.values():
        halves = part(series, odd), part(series, even)
        fewest = min(len(half.measured) for half in halves)
        if fewest < ENOUGH_REPEATS or table.find(series) is None:
            continue
        rows += 1
        first, second = (Contestant(target.name, half) for half in halves)
        if judge(first, second).faster:
            different.append(RowName.of(series.row))
    return SelfCheck(rows=rows, different=tuple(different)) if rows else None


def render_calibration(report: CalibrationReport, console: Console) -> None:
    for calibration in report.calibrations:
        for notice in calibration.notices:
            console.print(f"[bold]{escape(notice)}[/bold]")
        console.print(noise_rows(calibration.table))
        for left_out in calibration.table.left_out:
            console.print(escape(f"left out: {_name(left_out.row)}: {left_out.reason}"))
        if check := calibration.self_check:
            names = some([_name(row) for row in check.different])
            console.print(
                f"A/A: odd repeats against even ones, {len(check.different)} of {check.rows} rows "
                f"called different{escape(names and f' ({names})')}\n"
            )
    for reason in report.refused:
        console.print(f"[bold]No calibration:[/bold] {escape(reason)}")


def noise_rows(table: NoiseTable) -> Table:
    """The table for a terminal."""
    shown = Table(
        "Row",
        "Code",
        "Median",
        "Noise from job to job",
        *(f"{jobs} a side" for jobs in JOBS_A_SIDE),
        title=escape(
            f"{table.target}, suite {table.suite}: noise over {table.jobs} jobs (1 sd, at most "
            "this at 95 %), and the smallest change that a comparison finds 95 times in 100"
        ),
    )
    for row in table.series:
        shown.add_row(
            escape(_name(row.row)),
            escape(", ".join(row.implementations)),
            figures.seconds(row.median_seconds),
            f"{figures.percent(row.floor)} ({figures.percent(row.floor_upper)})",
            *(_change(row.smallest_detectable_change[jobs]) for jobs in JOBS_A_SIDE),
        )
    return shown


def some(names: Sequence[str]) -> str:
    """The first three, and how many more there are."""
    more = len(names) - MOST_NAMES
    return ", ".join(names[:MOST_NAMES]) + (f" and {more} more" if more > 0 else "")


def _name(row: RowName) -> str:
    return f"{row.workload} {figures.parameters(row.parameters)} {row.dtype}"


def _change(share: float) -> str:
    return figures.percent(share) if share < TOO_LARGE else f"over {TOO_LARGE}{figures.TIMES}"
