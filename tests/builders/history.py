"""Runs and a result bucket for tests of the history."""

import json
from datetime import UTC, datetime, timedelta

import pyarrow as pa

from batchmark.aws.result_bucket import COLLECTED, PRICES, RunStore
from batchmark.core.names import slug
from batchmark.history import __main__ as command_line
from batchmark.history.columns import SCHEMA
from batchmark.history.store import HistoryStore
from tests.builders.runs import PRICES as TABLE
from tests.builders.runs import build_full_job, build_rows, build_run, put_documents

BUCKET = "batchmark-results"
REGION = "us-east-1"
RUN_ID = "scheduled__2026-11-20T03:00:00+00:00"
NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)
START = datetime(2026, 10, 30, 6, 0, tzinfo=UTC)

GPU = {
    "target": "g5.xlarge",
    "instance_type": "g5.xlarge",
    "requested_device": "cuda",
    "actual_device": "cuda",
    "cpu_model": "AMD EPYC 7R32",
    "gpu_model": "NVIDIA A10G",
    "price_usd_per_hour": 1.0,
    "purchase_option": "on_demand",
}
CPU = {
    "target": "c5.2xlarge",
    "instance_type": "c5.2xlarge",
    "requested_device": "cpu",
    "actual_device": "cpu",
    "cpu_model": "Intel Xeon 8124M",
    "gpu_model": None,
    "price_usd_per_hour": 0.36,
    "purchase_option": "on_demand",
}
SIZES = {("matmul", "size", 1000): 0.001, ("matmul", "size", 5000): 0.02}


def run_history(*arguments, bucket=BUCKET):
    """Run `batchmark history` on a bucket; its exit code."""
    return command_line.main([*map(str, arguments), "--bucket", bucket, "--region", REGION])


def table(rows):
    """The history's rows as they are read."""
    schema = SCHEMA.append(pa.field("suite", pa.string()))
    return pa.Table.from_pylist(rows, schema=schema)


def finished(job, at):
    later = at - job.document.finished_at
    document = job.document.model_copy(
        update={"started_at": job.document.started_at + later, "finished_at": at}
    )
    return job.model_copy(
        update={
            "document": document,
            "started_at": job.started_at + later,
            "stopped_at": job.stopped_at + later,
        }
    )


def run_of(*jobs, run_id=RUN_ID):
    named = []
    for job in jobs:
        plan = job.planned
        prefix = f"s3://{BUCKET}/raw/{slug(run_id)}/{plan.target}/{plan.suite}/{plan.repeat}/"
        update = {
            "planned": plan.model_copy(update={"result_prefix": prefix}),
            "document": job.document.model_copy(update={"run_id": run_id}),
            "document_uri": f"{prefix}{job.job_id}.{job.job_attempt}.json",
        }
        named.append(job.model_copy(update=update))
    return build_run(*named).model_copy(update={"run_id": run_id})


def two_targets(day=0, slowdown=1.0, **fields):
    """Return a run of a GPU and a CPU target at two sizes, `day` days after the first run."""
    at = NOON + timedelta(days=day)
    medians = {key: slowdown * seconds for key, seconds in SIZES.items()}
    jobs = [
        finished(build_full_job(target, build_rows(medians, seed=day), **fields), at)
        for target in ("g5.xlarge", "c5.2xlarge")
    ]
    return run_of(*jobs, run_id=f"scheduled__{at:%Y-%m-%dT%H:%M:%S}+00:00")


class ResultBucket:
    """The result bucket behind a client of S3, whose calls are recorded in `calls`."""

    def __init__(self, s3, calls):
        self.s3, self.calls = s3, calls

    @property
    def history(self):
        return HistoryStore(self.s3, BUCKET)

    def put(self, key, body):
        self.s3.put_object(Bucket=BUCKET, Key=key, Body=body)

    def collect(self, run):
        """Store what jobs and tasks leave of a run before its rows are appended."""
        put_documents(RunStore(self.s3, BUCKET, run.run_id), run)
        self.put(f"runs/{slug(run.run_id)}/{COLLECTED}", run.model_dump_json())
        self.put(f"runs/{slug(run.run_id)}/{PRICES}", TABLE.model_dump_json())
        return run

    def append(self, run):
        return self.history.append(self.collect(run), TABLE, slug(run.run_id))

    def objects(self, folder=""):
        keys = RunStore(self.s3, BUCKET, "any").keys(folder)
        return {key: self.history.objects.read(key) for key in keys}

    def called(self, operation):
        return [key for name, key in self.calls if name == operation]


def measured(seconds, machine, *, day=0, size=1000, **fields):
    """A row of the history; `day` decides its run and its month."""
    price = machine["price_usd_per_hour"]
    row = {
        "run_id": f"scheduled__{day:03}",
        "recorded_at": (START + timedelta(days=day)).replace(tzinfo=None),
        "suite": "blog",
        "workload": "matmul",
        "parameters": json.dumps({"size": size}, separators=(",", ":")),
        "dtype": "float32",
        "status": "measured",
        "median_seconds": seconds,
        "relative_spread": 0.02,
        "flops": 2 * size**3,
        "batch_seconds": 100.0,
        "job_cost_usd": None if price is None else 100 * price / 3600,
        **machine,
        **fields,
    }
    return {**row, "month": row["recorded_at"].strftime("%Y-%m")}
