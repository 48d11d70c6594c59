"""Makes result documents for the sample's jobs, as real jobs would have written them."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, NamedTuple

from batchmark.core.own_jobs import OwnJobPlan
from batchmark.core.run import PlannedJob
from batchmark.core.suites import NO_DTYPE
from batchmark_job.result.document import (
    Conditions,
    Correctness,
    Device,
    Environment,
    Implementation,
    Measurement,
    MeasurementStatus,
    ResultDocument,
    Stopping,
)
from batchmark_job.result.own_job import BETTER, HIGHER, METRIC, START, UNIT, OwnersCheck, OwnJob
from sample import story

# Of a suite's job, besides the calls: the runbook expects jobs of 5 to 10 minutes.
PREPARING_SECONDS = 330.0
COMPUTE_ENVIRONMENT = "sample-{}"
JOB_IMAGE = "registry.example/convert:main"
GIB = 2**30
CPU_MODELS = {
    "g4dn.xlarge": "Intel(R) Xeon(R) Platinum 8259CL CPU @ 2.50GHz",
    "g5.xlarge": "AMD EPYC 7R32",
    "c5.2xlarge": "Intel(R) Xeon(R) Platinum 8275CL CPU @ 3.00GHz",
    "c7i.2xlarge": "Intel(R) Xeon(R) Platinum 8488C",
}
GPU_MODELS = {"g4dn.xlarge": ("Tesla T4", 16), "g5.xlarge": ("NVIDIA A10G", 24)}


class FinishedJob(NamedTuple):
    """A finished job's result document and duration."""

    document: ResultDocument
    seconds: float


def whole_document(
    run_id: str,
    job_id: str,
    planned: PlannedJob,
    started_at: datetime,
    finished_at: datetime,
    **measured: Any,
) -> ResultDocument:
    """Build the document for a job that completed on its first attempt, on the requested device."""
    return ResultDocument(
        run_id=run_id,
        job_id=job_id,
        job_attempt=1,
        target=planned.target,
        suite=planned.suite,
        requested_device=planned.device,
        actual_device=Device(planned.device),
        status="complete",
        started_at=started_at,
        finished_at=finished_at,
        **measured,
    )


def ran(
    run_id: str, week: int, planned: PlannedJob, job_id: str, started_at: datetime
) -> FinishedJob:
    """Make up a planned job's result for a given week of the sample's year."""
    fresh = planned.purpose == "confirmation"
    job = story.Job(run_id, week, planned.target, planned.repeat, fresh)
    if own := planned.own_job:
        cold = planned.repeat == story.JOB_REPEATS + 1
        seconds = job.seconds(int(own.size or 0), cold=cold)
        rows, told = _own_rows(own, seconds, cold=cold), _told(own, seconds, cold=cold)
    else:
        rows, told = _rows(job), None
        calls = sum(sum(row.samples_seconds) for row in rows)
        seconds = PREPARING_SECONDS + 2 * calls
    stopped_at = started_at + timedelta(seconds=seconds)
    document = whole_document(
        run_id,
        job_id,
        planned,
        started_at,
        stopped_at,
        total_seconds=seconds - 1,
        environment=environment(planned.target, week, own=bool(planned.own_job)),
        measurements=tuple(rows),
        own_job=told,
        version=story.version(week) if told else None,
    )
    return FinishedJob(document, seconds)


def environment(name: str, week: int, *, own: bool = False) -> Environment:
    """Build the environment for a job on a target; `own` means that it's the sample's own job."""
    gpu, gpu_gib = GPU_MODELS.get(name, (None, 0))
    threads = 4 if gpu else 8
    images = {"image": JOB_IMAGE, "image_digest": story.digest(story.commit(week))}
    return Environment(
        instance_type=name,
        cpu_model=CPU_MODELS[name],
        cpu_cores=threads // 2,
        cpu_threads=threads,
        compute_threads=threads,
        memory_bytes=16 * GIB,
        gpu_model=gpu,
        gpu_count=1 if gpu else 0,
        gpu_memory_bytes=gpu_gib * GIB if gpu else None,
        driver_version=story.driver(name, week),
        cuda_version="13.0" if gpu else None,
        torch_version=f"2.13.0+{'cu130' if gpu else 'cpu'}",
        python_version="3.11.14",
        kernel="6.12.40-63.114.amzn2023.x86_64",
        compute_environment=COMPUTE_ENVIRONMENT.format(name),
        **images if own else {"image_digest": story.image(name, week)},
    )


def _rows(job: story.Job) -> list[Measurement]:
    gpu = job.target in story.GPUS
    threads = None if gpu else 8
    noisy = story.NOISY.holds(job.target, job.week) and not job.fresh
    return [
        Measurement(
            workload=workload,
            parameters={axis: size},
            dtype="float32",
            status=MeasurementStatus.MEASURED,
            implementation=Implementation(name="torch", version="2.13.0", threads=threads),
            cold_seconds=10 * samples[0],
            samples_seconds=tuple(samples),
            correctness=Correctness(relative_error=1e-6, tolerance=1e-4),
            timer="cuda_events" if gpu else "monotonic",
            stopping=Stopping(criterion="precise", relative_half_width=0.008),
            flops=2 * size**3 if workload == "matmul" else None,
            multimodal=False,
            conditions_during=Conditions(cpu_steal_share=0.12 if noisy else 0.001),
        )
        for (workload, axis, size), samples in job.calls()
    ]


def _own_rows(own: OwnJobPlan, seconds: float, *, cold: bool) -> list[Measurement]:
    place = {str(own.axis): int(own.size or 0), START: "cold" if cold else "warm"}
    rate = {METRIC: "throughput", UNIT: "images/s", BETTER: HIGHER}
    return [
        Measurement(
            workload=own.name,
            parameters=parameters,
            dtype=NO_DTYPE,
            status=MeasurementStatus.MEASURED,
            implementation=Implementation(name="registry.example/convert", version="main"),
            cold_seconds=sample,
            samples_seconds=(sample,),
            check=OwnersCheck(kind="exit_code", passed=True),
        )
        for parameters, sample in (
            (place, seconds),
            (place | rate, (seconds - 3) / int(own.size or 0)),
        )
    ]


def _told(own: OwnJobPlan, seconds: float, *, cold: bool) -> OwnJob:
    told: dict[str, Any] = {
        "image": JOB_IMAGE,
        "command": " ".join(own.command),
        "wrapped": True,
        "exit_code": 0,
        "waiting_seconds": float(story.START_SECONDS) if cold else 12.0,
        "running_seconds": seconds,
        "command_seconds": seconds - 1,
        "start": "cold" if cold else "warm",
        "purchase_option": "on_demand",
        "check": OwnersCheck(kind="exit_code", passed=True),
    }
    return OwnJob(**told)
