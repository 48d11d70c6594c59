"""Makes the sample's only multi-node run, whose report has a what-if page."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import numpy as np

from batchmark.aws.result_bucket import RunStore
from batchmark.core.config import Config
from batchmark.core.run import CollectedJob, CollectedRun, JobLimits, PlannedJob
from batchmark.runs.result_documents import ExpectedDocument, key_of
from batchmark_job.result.document import (
    Correctness,
    Implementation,
    Measurement,
    MeasurementStatus,
)
from batchmark_job.result.scaling import Scaling, ScalingNode, StepSplit
from batchmark_job.result.scaling_options import ScalingOptions, ScalingRun
from sample import story
from sample.documents import environment, whole_document

COUNTS = (1, 2, 4, 8)  # the form's defaults (result/scaling_options.py), up to 8
INSTANCE = "g5.xlarge"
TARGET = f"{INSTANCE}-nodes"
MIB = 2**20
REDUCED_MIB = (1, 16, 64, 256)  # the form's defaults
# Parts of a training step: a device's computation, and exchanging its gradients.
COMPUTE_SECONDS, HIDDEN_SECONDS, BATCH = 0.16, 0.12, 64
HOP_SECONDS, BYTES_PER_SECOND, GRADIENTS = 20e-6, 1.2e9, 102_228_128
SAMPLES, JOB_SECONDS, JOIN_SECONDS = 30, 400.0, 2.0


def planned(config: Config, name: str) -> list[PlannedJob]:
    """Plan one job per node count; `name` is the name of the run's folder."""
    return [
        PlannedJob(
            target=TARGET,
            device="cuda",
            instance_type=INSTANCE,
            suite="scaling",
            repeat=1,
            dtype="bfloat16",
            result_prefix=f"s3://{config.bucket}/raw/{name}/{TARGET}/scaling-on-{count}/1/",
            limits=JobLimits(submissions=1, attempts=1, timeout_seconds=1800),
            scaling=ScalingOptions(nodes=count, batches=(BATCH,)),
        )
        for count in COUNTS
    ]


def collected(
    store: RunStore, run_id: str, jobs: tuple[PlannedJob, ...], at: datetime
) -> CollectedRun:
    """Make up the jobs' results, store them in the bucket, and return the collected run."""
    found = []
    for plan in jobs:
        job = _job(store, run_id, plan, at)
        store.put(key_of(job.document_uri), job.document.to_json())
        found.append(job)
        at = job.stopped_at
    return CollectedRun(run_id=run_id, jobs=tuple(found))


def _job(store: RunStore, run_id: str, plan: PlannedJob, at: datetime) -> CollectedJob:
    job_id = f"{run_id}-on-{plan.nodes}#0"
    ended = at + timedelta(seconds=JOB_SECONDS)
    document = whole_document(
        run_id,
        job_id,
        plan,
        at,
        ended,
        total_seconds=JOB_SECONDS,
        environment=environment(INSTANCE, story.NODES_WEEK),
        measurements=tuple(_rows(plan.nodes)),
    )
    uri = ExpectedDocument.of(run_id, plan).uri(job_id, 1)
    return CollectedJob(
        planned=plan,
        job_id=job_id,
        job_attempt=1,
        log_group=store.bucket,
        log_stream=job_id,
        log_url=store.object_url(key_of(uri)),
        document_uri=uri,
        document_url=store.object_url(key_of(uri)),
        created_at=at,
        started_at=at,
        stopped_at=ended,
        document=document,
        purchase_option="on_demand",
    )


def _rows(nodes: int) -> list[Measurement]:
    exposed = max(_all_reduce(nodes, GRADIENTS) - HIDDEN_SECONDS, 0.0) if nodes > 1 else 0.0
    split = StepSplit(
        data_seconds=0.0, compute_seconds=COMPUTE_SECONDS, communication_seconds=exposed
    )
    training = {
        "settings": ScalingRun().settings,
        "split": split,
        "losses": (7.0, 6.5, 6.1),
        "gpu_busy_share": 0.97,
        "gradient_bytes": GRADIENTS,
    }
    step = {"batch": BATCH, "image": 224, "data": "synthetic"}
    rows = [_row("resnet50_data_parallel", nodes, COMPUTE_SECONDS + exposed, step, **training)]
    if nodes > 1:
        rows += [
            _row("all_reduce", nodes, _all_reduce(nodes, mib * MIB), {"mib": mib})
            for mib in REDUCED_MIB
        ]
    return rows


def _all_reduce(nodes: int, size: int) -> float:
    """Return how many seconds a ring all-reduce takes."""
    return 2 * (nodes - 1) * (HOP_SECONDS + size / nodes / BYTES_PER_SECOND)


def _row(
    workload: str, nodes: int, seconds: float, parameters: dict[str, Any], **told: Any
) -> Measurement:
    found = tuple(
        ScalingNode(
            index=index,
            host=f"10.0.0.{index + 10}",
            instance_type=INSTANCE,
            device_model="NVIDIA A10G",
            devices=1,
            joined_seconds=JOIN_SECONDS * index,
        )
        for index in range(nodes)
    )
    random = np.random.default_rng([story.SEED, nodes, int(seconds * 1e9)])
    noise = np.exp(random.normal(0, story.CALL_NOISE, SAMPLES))
    samples = tuple(float(one) for one in seconds * noise / np.median(noise))
    return Measurement(
        workload=workload,
        parameters={"nodes": nodes, "devices": 1, **parameters},
        dtype="bfloat16",
        status=MeasurementStatus.MEASURED,
        implementation=Implementation(name="torch", version="2.13.0"),
        cold_seconds=10 * samples[0],
        samples_seconds=samples,
        correctness=Correctness(relative_error=1e-6, tolerance=1e-4),
        items=nodes * BATCH if told else None,
        scaling=Scaling(nodes=found, backend="nccl", **told),
    )
