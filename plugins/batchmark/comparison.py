"""What a run says of each GPU target against each CPU target, row by row.

Only rows that both targets measured are compared; all others are listed with the reason.
Durations are in seconds; a speedup is CPU time / GPU time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import AwareDatetime, Field

from batchmark import report_words
from batchmark.estimate import MINIMUM_SAMPLES, Estimate, Median, ratio
from batchmark.figures import parameters
from batchmark.fingerprint import Fingerprint
from batchmark.noise import NoiseTable, RowNoise
from batchmark.pooling import Span, TargetJobs, TargetRecord, fell_back, group_jobs
from batchmark.record import Record
from batchmark.run import CollectedJob, CollectedRun, LostJob
from batchmark.series import Provenance, RowKey, Series, Side
from batchmark.verdict import Contestant, judge
from batchmark_job.result import Parameter

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

SPANS: tuple[Span, ...] = ("process", "batch_job")

Verdict = Literal["gpu_target_faster", "cpu_target_faster", "undecided"]


class Row(Record):
    """One point of the grid that both targets measured."""

    workload: str
    parameters: dict[str, Parameter]
    dtype: str
    gpu: Side
    cpu: Side
    speedup: Estimate
    verdict: Verdict = Field(
        description="undecided where the interval holds 1 or is missing, where noise from job to "
        "job may explain the difference, and where both ran on the same CPU"
    )
    noise: RowNoise
    warnings: tuple[str, ...] = ()


class UncomparedRow(Record):
    """A point of the grid that at most one target measured."""

    workload: str
    parameters: dict[str, Parameter]
    dtype: str
    reason: str
    gpu: Side | None
    cpu: Side | None
    gpu_provenance: tuple[Provenance, ...]
    cpu_provenance: tuple[Provenance, ...]


class TotalTime(Record):
    """Whole jobs: start-up, inputs, first calls and every sample."""

    span: Span = Field(
        description="process: its start to the last row's end; batch_job: startedAt to stoppedAt"
    )
    gpu_seconds: Estimate | None
    cpu_seconds: Estimate | None
    speedup: Estimate | None
    reason: str | None = Field(default=None, description="why there is no speedup")


class UsedCalibration(Record):
    """Which noise table a target's rows were held against; `runs/<run>/` keeps it."""

    target: str
    run_id: str
    created_at: AwareDatetime
    jobs: int


class Pair(Record):
    """A GPU target against a CPU target on one suite and dtype."""

    label: str
    suite: str
    dtype: str
    gpu: TargetRecord
    cpu: TargetRecord
    cpu_fallback: bool = Field(description="the GPU target's jobs ran on the CPU")
    refused: str | None = Field(description="why nothing in this pair is compared")
    rows: tuple[Row, ...]
    uncompared: tuple[UncomparedRow, ...]
    totals: tuple[TotalTime, ...]
    calibrations: tuple[UsedCalibration, ...] = Field(
        description="of the rows whose noise is known by calibration"
    )
    notes: tuple[str, ...]


class Comparison(Record):
    run_id: str
    notices: tuple[str, ...] = Field(description="to be read before any figure")
    pairs: tuple[Pair, ...]
    lost: tuple[LostJob, ...]


def compare(run: CollectedRun, calibrations: Iterable[NoiseTable] = ()) -> Comparison:
    """Compare every GPU target with every CPU target, for each suite and dtype.

    A calibration is used for the target, suite and dtype that it names, in the environment it was
    made in.

    Raises:
        ComparisonError: a result document lists the same row twice.
    """
    tables = {(table.suite, table.dtype, table.target): table for table in calibrations}
    pairs = []
    for (suite, dtype), targets in group_jobs(run).items():
        known = {target.name: tables.get((suite, dtype, target.name)) for target in targets}
        gpu_targets = [target for target in targets if target.device == "cuda"]
        cpu_targets = [target for target in targets if target.device == "cpu"]
        pairs += [
            _pair(suite, dtype, gpu, cpu, known) for gpu in gpu_targets for cpu in cpu_targets
        ]
    return Comparison(
        run_id=run.run_id, notices=tuple(_notices(run, pairs)), pairs=tuple(pairs), lost=run.lost
    )


def _notices(run: CollectedRun, pairs: Sequence[Pair]) -> Iterable[str]:
    for lost in run.lost:
        yield from _kept(lost)
    gpu_jobs = [job for job in run.jobs if job.planned.device == "cuda"]
    names = list(dict.fromkeys(job.planned.target for job in gpu_jobs if fell_back(job)))
    if names:
        everywhere = all(fell_back(job) for job in gpu_jobs)
        yield (
            f"The GPU target{'s' * (len(names) > 1)} {', '.join(names)} ran on the CPU: no CUDA "
            f"device was found. No figure {'here' if everywhere else 'shown for it'} is a GPU's."
        )
    if not pairs:
        devices = {record.planned.device for record in run.jobs}
        devices |= {lost.planned.device for lost in run.lost}
        missing = [
            name for device, name in (("cuda", "GPU"), ("cpu", "CPU")) if device not in devices
        ]
        if missing:
            yield (
                f"Nothing to compare: the run has no {' and no '.join(missing)} target. "
                "Choose at least one of each."
            )
        else:
            yield "Nothing to compare: no suite has both a GPU target and a CPU target."


def _pair(
    suite: str,
    dtype: str,
    gpu: TargetJobs,
    cpu: TargetJobs,
    known: Mapping[str, NoiseTable | None],
) -> Pair:
    tables = {target.name: _fitting(known[target.name], target) for target in (gpu, cpu)}
    fitting = [table for table in tables.values() if table]
    refused = gpu.refusal() or cpu.refusal()
    rows: list[Row] = []
    uncompared: list[UncomparedRow] = []
    if not refused:
        for key in dict.fromkeys((*gpu.series, *cpu.series)):
            row = _row(key, gpu, cpu, tables)
            if isinstance(row, Row):
                rows.append(row)
            else:
                uncompared.append(row)
    return Pair(
        label=f"{report_words.target(gpu.name, fell_back=gpu.fell_back)} against {cpu.name}",
        suite=suite,
        dtype=dtype,
        gpu=gpu.record(),
        cpu=cpu.record(),
        cpu_fallback=gpu.fell_back,
        refused=refused,
        rows=tuple(rows),
        uncompared=tuple(uncompared),
        totals=() if refused else tuple(_total(span, gpu, cpu) for span in SPANS),
        calibrations=() if refused else tuple(_used(table) for table in fitting),
        notes=() if refused else tuple(_notes(gpu, cpu, known)),
    )


def _row(
    key: RowKey, gpu: TargetJobs, cpu: TargetJobs, tables: Mapping[str, NoiseTable | None]
) -> Row | UncomparedRow:
    gpu_series = gpu.series.get(key, Series(gpu.name))
    cpu_series = cpu.series.get(key, Series(cpu.name))
    gpu_problem, cpu_problem = gpu.problem(key), cpu.problem(key)
    gpu_side = None if gpu_problem else gpu_series.side
    cpu_side = None if cpu_problem else cpu_series.side
    row = (gpu_series if key in gpu.series else cpu_series).row
    if gpu_side and cpu_side and gpu_series.median and cpu_series.median:
        verdict, noise = _verdict(key, gpu, cpu, tables)
        return Row(
            workload=row.workload,
            parameters=row.parameters,
            dtype=row.dtype,
            gpu=gpu_side,
            cpu=cpu_side,
            speedup=ratio(cpu_series.median, gpu_series.median),
            verdict=verdict,
            noise=noise,
            warnings=(*gpu.warnings(key), *cpu.warnings(key)),
        )
    return UncomparedRow(
        workload=row.workload,
        parameters=row.parameters,
        dtype=row.dtype,
        reason="; ".join(filter(None, (gpu_problem, cpu_problem))),
        gpu=gpu_side,
        cpu=cpu_side,
        gpu_provenance=gpu_series.provenance,
        cpu_provenance=cpu_series.provenance,
    )


def _verdict(
    key: RowKey, gpu: TargetJobs, cpu: TargetJobs, tables: Mapping[str, NoiseTable | None]
) -> tuple[Verdict, RowNoise]:
    sides = []
    for target in (gpu, cpu):
        table, series = tables[target.name], target.series[key]
        known = table.find(series) if table else None
        sides.append(Contestant(target.name, series, known))
    judgement = judge(*sides)
    noise = judgement.noise
    if gpu.fell_back and _cpu_model(gpu) == _cpu_model(cpu):
        note = f"undecided: both ran on the same CPU, {_cpu_model(cpu)}"
        return "undecided", noise.model_copy(update={"note": note})
    if judgement.faster is None:
        return "undecided", noise
    return "gpu_target_faster" if judgement.faster == "first" else "cpu_target_faster", noise


def _fitting(table: NoiseTable | None, target: TargetJobs) -> NoiseTable | None:
    """The target's calibration, if nothing that matters has changed since."""
    return None if table is None or _changes(table, target) else table


def _changes(table: NoiseTable, target: TargetJobs) -> str:
    if not target.jobs:
        return ""
    return table.fingerprint.differences(Fingerprint.of(target.jobs[0].document))


def _cpu_model(target: TargetJobs) -> str:
    return target.jobs[0].document.environment.cpu_model


def _total(span: Span, gpu: TargetJobs, cpu: TargetJobs) -> TotalTime:
    gpu_median, cpu_median = gpu.total(span), cpu.total(span)
    speedup = None
    reason = _different_work(gpu, cpu) or _different_work(cpu, gpu)
    if not (gpu_median and cpu_median):
        reason = "a target has no job that ran to its end"
    elif not reason:
        speedup = ratio(cpu_median, gpu_median)
    return TotalTime(
        span=span,
        gpu_seconds=_estimate(gpu_median),
        cpu_seconds=_estimate(cpu_median),
        speedup=speedup,
        reason=reason,
    )


def _estimate(median: Median | None) -> Estimate | None:
    return median.estimate() if median else None


def _different_work(target: TargetJobs, other: TargetJobs) -> str | None:
    """Whole jobs compare only where both targets measured the same rows."""
    measured = {key for key, series in target.series.items() if series.measured}
    complete = {
        key for key, series in other.series.items() if series.measured and not series.unmeasured
    }
    if extra := len(measured - complete):
        rows = "a row" if extra == 1 else f"{extra} rows"
        return f"{target.name} measured {rows} that {other.name} did not, so jobs don't compare"
    return None


def _notes(
    gpu: TargetJobs, cpu: TargetJobs, known: Mapping[str, NoiseTable | None]
) -> Iterable[str]:
    fewest = min(len(gpu.jobs), len(cpu.jobs))
    if fewest < MINIMUM_SAMPLES:
        jobs = "only one job" if fewest == 1 else f"only {fewest} jobs"
        effect = (
            "intervals hold the spread within a job, not from job to job"
            if fewest == 1
            else "intervals come out too narrow where jobs differ"
        )
        yield (
            f"A target has {jobs}: {effect}. Run with {MINIMUM_SAMPLES} repeats or more, which "
            "whole jobs need for an interval."
        )
    for target in (gpu, cpu):
        if table := known[target.name]:
            yield _calibration_note(table, target)
        yield from _interruption_notes(target)


def _interruption_notes(target: TargetJobs) -> Iterable[str]:
    """What was measured On-Demand in place of Spot, and what interrupted attempts left."""
    for job in target.jobs:
        repeat = f"{target.name}, repeat {job.planned.repeat}"
        if job.replaced_job_id:
            yield (
                f"{repeat}: measured On-Demand by job {job.job_id}; Spot job "
                f"{job.replaced_job_id} lost its host in its last attempt."
            )
        yield from _kept(job)


def _kept(job: CollectedJob | LostJob) -> Iterable[str]:
    for attempt in job.interrupted:
        yield (
            f"{job.planned.target}, repeat {job.planned.repeat}: attempt {attempt.job_attempt} of "
            f"job {attempt.job_id} was interrupted; what it had measured ({attempt.measured_rows} "
            f"rows) is kept in {attempt.document_uri} and not part of the figures."
        )


def _calibration_note(table: NoiseTable, target: TargetJobs) -> str:
    """Which calibration a target has, and what of it applies."""
    which = f"{target.name}: its noise calibration of {table.created_at:%Y-%m-%d}"
    if changes := _changes(table, target):
        return f"{which} does not apply, {changes}. Run noise_calibration again."
    measured = [series for series in target.series.values() if series.measured]
    lacking = [series.row for series in measured if table.find(series) is None]
    which += f" ({table.jobs} jobs, run {table.run_id})"
    if not lacking:
        return f"{which} has all of its rows."
    first = lacking[0]
    return (
        f"{which} lacks {len(lacking)} of its {len(measured)} rows, or knows them with other code: "
        f"{first.workload} {parameters(first.parameters)} {first.dtype}"
        f"{' and others' * (len(lacking) > 1)}."
    )


def _used(table: NoiseTable) -> UsedCalibration:
    return UsedCalibration(
        target=table.target,
        run_id=table.run_id,
        created_at=table.created_at,
        jobs=table.jobs,
    )
