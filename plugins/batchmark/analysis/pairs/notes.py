"""Notes that explain or qualify a comparison's figures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from batchmark.analysis.judging.noise import NoiseTable
from batchmark.analysis.judging.significance import INTERVAL_LEVEL, LEVEL
from batchmark.analysis.owners_checks import size_of
from batchmark.analysis.pairs.compared_rows import Row
from batchmark.analysis.pooling import TargetJobs, fell_back
from batchmark.analysis.samples import WarningKind, row_key
from batchmark.analysis.sides import PricedTarget
from batchmark.core import formatting
from batchmark.core.intervals import MINIMUM_SAMPLES, Estimate
from batchmark.core.row_values import ToldMetric
from batchmark.core.run import CollectedJob, CollectedRun, LostJob
from batchmark_job.result.confidence import CONFIDENCE_TEXT
from batchmark_job.result.own_job import START, UNKNOWN
from batchmark_job.result.values import Parameter

# Each stated once per pair, after "In n of m rows".
WARNINGS: Mapping[WarningKind, str] = {
    "incomplete": "some jobs have no result",
    "throttled": "samples were taken while the device was throttled",
    "disturbed": "other work took CPU time from a job",
    "unsettled": (
        "samples spread widely or cluster around several values: run again with nothing else on "
        "the machine, or with more repeats"
    ),
    "above_ceiling": (
        "a rate exceeds the ceiling measured in the same jobs, so one of the two is wrong: run "
        "again with nothing else on the machine; if it comes back, check the operations and bytes "
        "that the workload counts"
    ),
    "rivals": "jobs chose different implementations of nearly equal speed",
}


def run_notices(run: CollectedRun, *, compared: bool) -> Iterable[str]:
    """Yield notes to read before any figure; `compared` says whether there is a pair or study."""
    yield from run.notes
    # The documents of users' own jobs report it.
    doubts = Counter(job.doubt for job in run.jobs if job.doubt and not job.document.own_job)
    for doubt, number in doubts.items():
        yield f"{number} of {formatting.count(len(run.jobs), 'job')}: {doubt}"
    for lost in run.lost:
        yield from _interrupted_attempts(lost)
    gpu_jobs = [job for job in run.jobs if job.planned.device == "cuda"]
    names = list(dict.fromkeys(job.planned.target for job in gpu_jobs if fell_back(job)))
    elsewhere = _one_machine_outside_ec2(run.jobs)
    if names:
        everywhere = all(fell_back(job) for job in gpu_jobs)
        not_a_gpu = (
            f"None of the figures {'here' if everywhere else 'shown for it'} describe a GPU."
        )
        yield (
            f"The GPU target{'s' * (len(names) > 1)} {', '.join(names)} ran on the CPU: no CUDA "
            f"device was found. {(everywhere and elsewhere) or not_a_gpu}"
        )
    elif elsewhere:
        yield elsewhere
    if not compared:
        yield _nothing_to_compare(run)


def _one_machine_outside_ec2(jobs: Sequence[CollectedJob]) -> str | None:
    """Say that figures don't describe the targets' instances if all come from another machine."""
    if any(job.planned.own_job and job.planned.own_job.existing for job in jobs):
        return None
    machines = {
        (one.instance_type, one.cpu_model, one.cpu_threads)
        for one in (job.document.environment for job in jobs)
    }
    if len(machines) != 1:
        return None
    ((instance_type, model, threads),) = machines
    if instance_type is not None or model == UNKNOWN:
        return None
    targets = list(dict.fromkeys(job.planned.target for job in jobs))
    ran = {1: "The target", 2: "Both targets"}.get(len(targets), "All targets")
    return (
        f"{ran} ran on one machine ({model}, {formatting.count(threads, 'thread')}), not on EC2: "
        f"none of the figures here describe {' or '.join(f'a {name}' for name in targets)}."
    )


def _nothing_to_compare(run: CollectedRun) -> str:
    devices = {job.planned.device for job in run.jobs}
    devices |= {lost.planned.device for lost in run.lost}
    missing = [name for device, name in (("cuda", "GPU"), ("cpu", "CPU")) if device not in devices]
    if missing:
        return (
            f"Nothing to compare: the run has no {' and no '.join(missing)} target. "
            "Choose at least one of each."
        )
    return "Nothing to compare: no suite has both a GPU target and a CPU target."


def pair_notes(gpu: PricedTarget, cpu: PricedTarget, rows: Sequence[Row]) -> Iterable[str]:
    """Yield notes on the limits of a pair's figures."""
    fewest = min(len(target.pooled.jobs) for target in (gpu, cpu))
    if any(job.document.own_job for job in gpu.pooled.jobs):
        yield from _few_own_jobs(gpu.pooled, cpu.pooled, rows)
    elif fewest < MINIMUM_SAMPLES:
        yield few_jobs_note(fewest)
    for target in (gpu, cpu):
        if target.calibration:
            yield _calibration_note(target.calibration, target.pooled)
        yield from _interruption_notes(target.pooled)
    if not gpu.pooled.fell_back and (note := undecided_intervals(rows, dollars=True)):
        yield note
    yield from _warnings(gpu.pooled, cpu.pooled, rows)


def _few_own_jobs(gpu: TargetJobs, cpu: TargetJobs, rows: Sequence[Row]) -> Iterable[str]:
    """Warn if too few jobs had the usual start (cold or warm); a queue's first job may differ."""
    jobs: Counter[Parameter | None] = Counter()
    for row in rows:
        jobs[row.parameters.get(START)] += row.gpu.jobs + row.cpu.jobs
    main = max(jobs, key=lambda start: (jobs[start], start == "warm"), default=None)
    found = [
        (side.jobs, _jobs_of_size(target, row))
        for row in rows
        if row.parameters.get(START) == main
        for target, side in ((gpu, row.gpu), (cpu, row.cpu))
    ]
    if found and (fewest := min(found))[0] < MINIMUM_SAMPLES:
        yield few_whole_jobs_note(
            fewest[0], of=fewest[1], start=None if main is None else str(main)
        )


def _jobs_of_size(target: TargetJobs, row: Row) -> int:
    """Count a target's valid jobs of the same size as a row, cold and warm together."""
    size = size_of(row.parameters)
    return sum(
        len(samples.measured)
        for samples in target.samples.values()
        if size_of(samples.row.parameters) == size and not ToldMetric.of(samples.row.parameters)
    )


def few_whole_jobs_note(jobs: int, *, of: int | None = None, start: str | None = None) -> str:
    """Return a note that a target ran a user's own job too few times; a job is only one sample.

    Args:
        jobs: number of valid jobs with this kind of start.
        of: total number of valid jobs of this size on this target.
        start: how their instances started, cold or warm; None if unknown.
    """
    text = f"A target has {_only(jobs)} to go by"
    if start and of and of > jobs:
        text += f": {jobs} of {of} ran on {start} instances"
        needed = f"more repeats: with fewer than {MINIMUM_SAMPLES} such jobs"
    else:
        needed = f"at least {MINIMUM_SAMPLES} repeats: with fewer"
    return f"{text}. Use {needed}, times have no interval, and no target is judged better."


def _only(jobs: int) -> str:
    return "only one job" if jobs == 1 else f"only {jobs} jobs"


def few_jobs_note(jobs: int) -> str:
    """Return a note on what a target's few jobs leave unknown and how many repeats would help."""
    return (
        f"A target has {_only(jobs)}, so the intervals of its times do not include differences "
        f"between jobs, but those of speedups do. Use at least {MINIMUM_SAMPLES} repeats: with "
        "fewer, whole jobs have no interval."
    )


def undecided_intervals(rows: Sequence[Row], *, dollars: bool) -> str | None:
    """Explain why rows whose interval excludes 1× lack a verdict; return None if there are none."""
    count = sum(
        (row.verdict == "undecided" and not row.same_cpu and _excludes_one(row.speedup))
        or (dollars and row.cheaper == "undecided" and _excludes_one(row.efficiency.estimate))
        for row in rows
    )
    if not count:
        return None
    return (
        f"In {count} of {formatting.count(len(rows), 'row')}, the {CONFIDENCE_TEXT} interval "
        "excludes 1×, which is not enough for a verdict: by chance alone, this happens in 1 of "
        f"{round(1 / INTERVAL_LEVEL)} rows. Because a run can have many rows, the threshold for "
        f"a verdict is 1 in {round(1 / LEVEL)}."
    )


def _excludes_one(estimate: Estimate | None) -> bool:
    interval = estimate and estimate.interval
    return bool(interval and not interval.low <= 1 <= interval.high)


def _warnings(gpu: TargetJobs, cpu: TargetJobs, rows: Sequence[Row]) -> Iterable[str]:
    """Yield a note on each kind of warning, saying how many rows have it."""
    kinds = Counter(
        kind
        for key in map(row_key, rows)
        for kind in {
            warning.kind for target in (gpu, cpu) for warning in target.samples[key].warnings()
        }
    )
    for kind, text in WARNINGS.items():
        if count := kinds[kind]:
            yield f"In {count} of {formatting.count(len(rows), 'row')} {text}."


def summary(gpu: TargetJobs, cpu: TargetJobs, rows: Sequence[Row]) -> str | None:
    """State in how many rows each target is faster or cheaper; return None if there are no rows.

    If the GPU target ran on the CPU, state that instead.
    """
    if not rows:
        return None
    if gpu.fell_back:
        noise = " Any difference is noise, as both ran on the same one." if rows[0].same_cpu else ""
        return (
            "Both targets ran on a CPU: neither speedup nor efficiency says anything about a GPU."
            f"{noise}"
        )

    def count(word: str, gpu_rows: int, cpu_rows: int) -> str:
        text = f"{gpu.name} is {word} in {gpu_rows}, {cpu.name} in {cpu_rows}"
        undecided = len(rows) - gpu_rows - cpu_rows
        return f"{text} ({undecided} not known yet)" if undecided else text

    faster = [row.verdict for row in rows]
    parts = [count("faster", faster.count("gpu_target_faster"), faster.count("cpu_target_faster"))]
    cheaper = [row.cheaper for row in rows]
    if any(cheaper):
        counts = cheaper.count("gpu_target_cheaper"), cheaper.count("cpu_target_cheaper")
        parts.append(count("cheaper", *counts))
    return f"Of {formatting.count(len(rows), 'row')}, {'; '.join(parts)}."


def _interruption_notes(target: TargetJobs) -> Iterable[str]:
    """List jobs that ran On-Demand instead of Spot, and the results of interrupted attempts."""
    for job in target.jobs:
        if job.replaced_job_id:
            yield (
                f"{target.name}, repeat {job.planned.repeat}: measured by On-Demand job "
                f"{job.job_id} because Spot job {job.replaced_job_id} lost its host in its last "
                "attempt."
            )
        yield from _interrupted_attempts(job)


def _interrupted_attempts(job: CollectedJob | LostJob) -> Iterable[str]:
    for attempt in job.interrupted:
        yield (
            f"{job.planned.target}, repeat {job.planned.repeat}: attempt {attempt.job_attempt} of "
            f"job {attempt.job_id} was interrupted; its measurements ({attempt.measured_rows} "
            f"rows) are kept in {attempt.document_uri} but not included in the figures."
        )


def _calibration_note(table: NoiseTable, target: TargetJobs) -> str:
    """Return a note on which calibration a target has and which rows it covers."""
    which = f"{target.name}: its noise calibration from {table.created_at:%Y-%m-%d}"
    if changes := table.changes_since(target):
        return f"{which} does not apply: {changes}. Run noise_calibration again."
    measured = [samples for samples in target.samples.values() if samples.measured]
    lacking = [samples.row for samples in measured if table.find(samples) is None]
    which += f" ({formatting.count(table.jobs, 'job')}, run {table.run_id})"
    if not lacking:
        return f"{which} covers all of its rows."
    first = lacking[0]
    return (
        f"{which} does not cover {len(lacking)} of its {len(measured)} rows or covers them only "
        "with different code: "
        f"{formatting.row(first.workload, first.parameters, first.dtype)}"
        f"{' and others' * (len(lacking) > 1)}."
    )
