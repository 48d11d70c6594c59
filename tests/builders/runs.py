"""Builders of collected runs, for the tests of comparison, cost and report."""

import json
from datetime import UTC, datetime, timedelta
from hashlib import sha256

import numpy as np

from batchmark.core.prices import PriceTable
from batchmark.core.run import CollectedJob, CollectedRun, LostJob, PlannedJob
from batchmark.runs.result_documents import ExpectedDocument, key_of
from batchmark_job.result.document import (
    Ceiling,
    Conditions,
    Correctness,
    Device,
    Environment,
    Implementation,
    Marks,
    Measurement,
    MeasurementStatus,
    MetricSummary,
    Phases,
    ResultDocument,
    Stopping,
    Trial,
)

START = datetime(2026, 11, 20, 9, 0, tzinfo=UTC)
PRICES = PriceTable(
    region="us-east-1",
    as_of=START.date(),
    source="a table of the tests",
    source_url="https://prices.example/table",
    on_demand={"c5.2xlarge": 0.34, "g4dn.xlarge": 0.526, "g5.xlarge": 1.006, "g6.xlarge": 0.8048},
)

CPU_ENVIRONMENT = Environment(
    instance_type="c5.2xlarge",
    cpu_model="Intel(R) Xeon(R) Platinum 8124M CPU @ 3.00GHz",
    cpu_cores=4,
    cpu_threads=8,
    compute_threads=8,
    memory_bytes=16 * 2**30,
    gpu_model=None,
    gpu_count=0,
    gpu_memory_bytes=None,
    driver_version=None,
    cuda_version=None,
    torch_version="2.13.0+cpu",
    python_version="3.11.14",
    kernel="6.12.40-63.114.amzn2023.x86_64",
    image_digest="sha256:" + "c5" * 32,
)
GPU_ENVIRONMENT = CPU_ENVIRONMENT.model_copy(
    update={
        "instance_type": "g5.xlarge",
        "cpu_model": "AMD EPYC 7R32",
        "cpu_cores": 2,
        "cpu_threads": 4,
        "compute_threads": 4,
        "gpu_model": "NVIDIA A10G",
        "gpu_count": 1,
        "gpu_memory_bytes": 24 * 2**30,
        "driver_version": "580.95.05",
        "cuda_version": "13.0",
        "torch_version": "2.13.0+cu130",
        "image_digest": "sha256:" + "9a" * 32,
    }
)
LAPTOP_ENVIRONMENT = CPU_ENVIRONMENT.model_copy(
    update={
        "instance_type": None,
        "cpu_model": "AMD Ryzen 7 PRO 7840U",
        "cpu_threads": 2,
        "compute_threads": 2,
        "image_digest": None,
        "kernel": "6.1.0-41-amd64",
    }
)
# What jobs are given whose figures are none of a GPU.
ON_LAPTOP = {"environment": LAPTOP_ENVIRONMENT, "actual_device": Device.CPU}
SIMULATED = {"environment": GPU_ENVIRONMENT.model_copy(update={"gpu_model": "simulated T4"})}


def build_row(samples=(), **fields):
    """A measured row of these samples; `status` and `reason` change that."""
    values = {
        "workload": "matmul",
        "parameters": {"size": 1000},
        "dtype": "float32",
        "status": MeasurementStatus.MEASURED,
    }
    if samples:
        values |= {
            "implementation": Implementation(name="torch", version="2.13.0"),
            "cold_seconds": 10 * samples[0],
            "samples_seconds": tuple(samples),
            "correctness": Correctness(relative_error=1e-6, tolerance=1e-4),
        }
    return Measurement(**values | fields)


def build_job(
    target,
    rows,
    *,
    repeat=1,
    suite="blog",
    environment=None,
    actual_device=None,
    status="complete",
    batch_seconds=40.0,
    version=None,
    **fields,
):
    """A job of a GPU target if its name starts with g or p, else of a CPU target."""
    gpu = target[0] in "gp"
    device = "cuda" if gpu else "cpu"
    job_id = fields.get("job_id", f"{target.replace('.', '-')}-{suite}-{repeat}")
    started_at = START + timedelta(minutes=repeat)
    total_seconds = fields.pop("total_seconds", batch_seconds - 2)
    given = {
        name: fields.pop(name) for name in ("marks", "ceilings", "telemetry") if name in fields
    }
    document = ResultDocument(
        run_id="scheduled__2026-11-20",
        job_id=job_id,
        job_attempt=1,
        target=target,
        suite=suite,
        requested_device=device,
        actual_device=actual_device or Device(device),
        status=status,
        started_at=started_at,
        finished_at=started_at + timedelta(seconds=total_seconds),
        total_seconds=total_seconds,
        environment=environment or (GPU_ENVIRONMENT if gpu else CPU_ENVIRONMENT),
        measurements=tuple(rows),
        version=version,
        **given,
    )
    prefix = f"s3://batchmark-results/raw/run/{target}/{suite}/{repeat}/"
    values = {
        "planned": PlannedJob(
            target=target,
            device=device,
            instance_type=target,
            suite=suite,
            repeat=repeat,
            dtype="float32",
            result_prefix=prefix,
            version=version,
        ),
        "job_id": job_id,
        "job_attempt": 1,
        "log_group": "/aws/batch/batchmark",
        "log_stream": f"{target}/default/{job_id}",
        "log_url": f"https://logs.example/{job_id}",
        "document_uri": f"{prefix}{job_id}.1.json",
        "document_url": f"https://results.example/{job_id}.1.json",
        "created_at": START,
        "started_at": started_at,
        "stopped_at": started_at + timedelta(seconds=batch_seconds),
        "document": document,
    }
    return CollectedJob(**values | fields)


def build_marks(started_at, *, gpu, **fields):
    """A job's steps to steady state, after its container started at `started_at`."""
    offsets = {
        "image_pull_started_at": -30.0,
        "image_pull_stopped_at": -4.0,
        "container_started_at": -1.0,
        "process_started_at": 0.4,
        "imported_at": 3.1,
        "device_ready_at": 5.6 if gpu else 3.1,
        "inputs_ready_at": 6.0 if gpu else 3.2,
        "first_call_at": 6.4 if gpu else 3.3,
        "trial_ended_at": 6.8 if gpu else 4.2,
        "steady_at": 7.0 if gpu else 4.5,
    }
    moments = {name: started_at + timedelta(seconds=value) for name, value in offsets.items()}
    return Marks(**moments | fields)


def build_full_job(target, rows, **fields):
    """A job whose document has all that schema version 2 allows."""
    gpu = target[0] in "gp"
    repeat = fields.get("repeat", 1)
    started_at = START + timedelta(minutes=repeat)
    full = {
        "runnable_at": START + timedelta(seconds=1),
        "starting_at": started_at - timedelta(seconds=32),
        "purchase_option": "on_demand",
        "marks": build_marks(started_at, gpu=gpu),
        "ceilings": (
            Ceiling(
                kind="compute",
                dtype="float32",
                rate_per_second=22e12 if gpu else 0.55e12,
                description="torch.mm of 8192 x 8192",
            ),
            Ceiling(
                kind="copy",
                dtype=None,
                rate_per_second=480e9 if gpu else 17e9,
                description="copy of 1 GiB",
            ),
        ),
        "telemetry": (
            MetricSummary(
                metric="cpu_utilization", unit="%", samples=19, minimum=3.1, mean=71.0, maximum=99.9
            ),
            *(
                [
                    MetricSummary(
                        metric="gpu_power", unit="W", samples=19, minimum=61, mean=212, maximum=298
                    )
                ]
                if gpu
                else []
            ),
        ),
    }
    return build_job(target, [full_row(row, gpu=gpu) for row in rows], **full | fields)


def full_row(row, *, gpu):
    if row.status is not MeasurementStatus.MEASURED:
        return row
    chosen = Implementation(name="torch", version="2.13.0", threads=None if gpu else 8)
    rival = Implementation(name="triton" if gpu else "opencv", version="3.5.0")
    size = int(row.parameters["size"])
    during = Conditions(cpu_steal_share=0.002, gpu_power_watts=281.0 if gpu else None)
    seconds = row.samples_seconds[0]
    return row.model_copy(
        update={
            "implementation": chosen,
            "phases": Phases(
                allocate_seconds=1e-4 if gpu else None,
                host_to_device_seconds=8 * size**2 / 12e9 if gpu else None,
                compute_seconds=seconds,
                device_to_host_seconds=4 * size**2 / 12e9 if gpu else None,
            ),
            "flops": 2 * size**3 if row.workload == "matmul" else 60 * size**2,
            "bytes_moved": 12 * size**2,
            "timer": "cuda_events" if gpu else "monotonic",
            "trials": (
                Trial(implementation=chosen, outcome="chosen", median_seconds=seconds, calls=7),
                Trial(
                    implementation=rival, outcome="slower", median_seconds=1.4 * seconds, calls=5
                ),
                Trial(
                    implementation=Implementation(name="scipy", version="1.18.0"),
                    outcome="refused",
                    reason="it has no bfloat16",
                ),
            ),
            "stopping": Stopping(criterion="precise", relative_half_width=0.008),
            "outlier_samples": (3,),
            "multimodal": False,
            "conditions_during": during,
            "peak_memory_bytes": 3 * 4 * size**2,
            "energy_joules": 280.0 * seconds if gpu else None,
        }
    )


def build_lost(target, reason, *, repeat=1, suite="blog", sharing=None):
    planned = build_job(target, [], repeat=repeat, suite=suite).planned
    planned = planned.model_copy(update={"sharing": sharing})
    return LostJob(planned=planned, job_id=None, reason=reason)


def build_run(*jobs, lost=()):
    return CollectedRun(run_id="scheduled__2026-11-20", jobs=jobs, lost=tuple(lost))


def with_digests(run):
    """The run as it is collected: with the SHA-256 of each document."""
    jobs = [
        job.model_copy(
            update={"document_sha256": sha256(job.document.to_json().encode()).hexdigest()}
        )
        for job in run.jobs
    ]
    return run.model_copy(update={"jobs": tuple(jobs)})


def put_documents(store, run):
    """Write the raw documents that the run's jobs left."""
    for job in run.jobs:
        expected = ExpectedDocument.of(run.run_id, job.planned)
        store.put(key_of(expected.uri(job.job_id, job.job_attempt)), job.document.to_json())


def as_older_releases_stored(run):
    """The run's `collected.json` with the documents inside."""
    stored = json.loads(run.model_dump_json())
    for job, text in zip(run.jobs, stored["jobs"], strict=True):
        text["document"] = json.loads(job.document.to_json())
    return json.dumps(stored)


def noisy(median, *, count=30, spread=0.01, seed=0):
    """Samples in seconds with the right-skewed noise that timings have."""
    rng = np.random.default_rng([seed, int(median * 1e9)])
    return [float(value) for value in median * (1 + spread * (rng.gamma(2, 1, count) - 1.68))]


def build_rows(medians, *, seed):
    return [
        build_row(
            noisy(median, seed=seed),
            workload=workload,
            parameters={name: value} if name == "size" else {"size": value, "batch": 1},
        )
        for (workload, name, value), median in medians.items()
    ]


def build_repeats(target, medians, *, repeats=6, build=build_job, **fields):
    """A job for each repeat, with noise of its own."""
    return [
        build(target, build_rows(medians, seed=repeat), repeat=repeat, **fields)
        for repeat in range(1, repeats + 1)
    ]


GPU_MEDIANS = {
    ("matmul", "size", 1000): 0.00021,
    ("matmul", "size", 5000): 0.0129,
    ("matmul", "size", 10000): 0.0964,
    ("image_convolution", "image", 2048): 0.0098,
    ("image_convolution", "image", 4096): 0.0391,
    ("gaussian_blur", "size", 2048): 0.0021,
    ("edge_detection", "size", 512): 0.00034,
}
CPU_MEDIANS = {
    ("matmul", "size", 1000): 0.0047,
    ("matmul", "size", 5000): 0.51,
    ("matmul", "size", 10000): 3.94,
    ("image_convolution", "image", 2048): 0.182,
    ("image_convolution", "image", 4096): 0.731,
    ("gaussian_blur", "size", 2048): 0.0068,
    ("edge_detection", "size", 512): 0.00031,
}
