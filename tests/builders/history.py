"""Runs as the result bucket holds them, for the tests of the history."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from batchmark.history.store import HistoryStore
from batchmark.job_identity import slug
from batchmark.run import CollectedRun
from batchmark.store import COLLECTED, PRICES
from tests.unit.run_builders import PRICES as TABLE
from tests.unit.run_builders import build_rows, build_run, build_told_job

if TYPE_CHECKING:
    from batchmark.run import CollectedJob

BUCKET = "batchmark-results"
REGION = "us-east-1"
RUN_ID = "scheduled__2026-11-20T03:00:00+00:00"
NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)
SIZES = {("matmul", "size", 1000): 0.001, ("matmul", "size", 5000): 0.02}


def finished(job: CollectedJob, at: datetime) -> CollectedJob:
    """The job, so that it finished then."""
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


def run_of(*jobs: CollectedJob, run_id: str = RUN_ID) -> CollectedRun:
    """A run of these jobs, whose documents lie where they were planned to."""
    named = []
    for job in jobs:
        plan = job.planned
        prefix = f"s3://{BUCKET}/raw/{slug(run_id)}/{plan.target}/{plan.suite}/{plan.repeat}/"
        update: dict[str, Any] = {
            "planned": plan.model_copy(update={"result_prefix": prefix}),
            "document": job.document.model_copy(update={"run_id": run_id}),
            "document_uri": f"{prefix}{job.job_id}.{job.job_attempt}.json",
        }
        named.append(job.model_copy(update=update))
    return build_run(*named).model_copy(update={"run_id": run_id})


def two_targets(day: int = 0, slowdown: float = 1.0, **fields: Any) -> CollectedRun:
    """A GPU and a CPU target at two sizes, so many days after the first run."""
    at = NOON + timedelta(days=day)
    medians = {key: slowdown * seconds for key, seconds in SIZES.items()}
    jobs = [
        finished(build_told_job(target, build_rows(medians, seed=day), **fields), at)
        for target in ("g5.xlarge", "c5.2xlarge")
    ]
    return run_of(*jobs, run_id=f"scheduled__{at:%Y-%m-%dT%H:%M:%S}+00:00")


class ResultBucket:
    """moto's bucket, and every call that changes it or reads an object."""

    def __init__(self, s3: Any) -> None:
        self.s3 = s3
        s3.create_bucket(Bucket=BUCKET)
        self.calls: list[tuple[str, str]] = []
        s3.meta.events.register("provide-client-params.s3", self._record)

    def _record(self, params: dict[str, Any], model: Any, **_: object) -> None:
        self.calls.append((model.name, params.get("Key") or params.get("Prefix", "")))

    @property
    def history(self) -> HistoryStore:
        return HistoryStore(self.s3, BUCKET)

    def put(self, key: str, body: bytes | str) -> None:
        self.s3.put_object(Bucket=BUCKET, Key=key, Body=body)

    def collect(self, run: CollectedRun) -> CollectedRun:
        """What jobs and tasks leave of a run before its rows are appended."""
        for job in run.jobs:
            self.put(job.document_uri.removeprefix(f"s3://{BUCKET}/"), job.document.to_json())
        self.put(f"runs/{slug(run.run_id)}/{COLLECTED}", run.model_dump_json())
        self.put(f"runs/{slug(run.run_id)}/{PRICES}", TABLE.model_dump_json())
        return run

    def append(self, run: CollectedRun) -> tuple[str, ...]:
        return self.history.append(self.collect(run), TABLE)

    def objects(self, folder: str = "") -> dict[str, bytes]:
        listed = self.s3.list_objects_v2(Bucket=BUCKET, Prefix=folder).get("Contents", [])
        return {item["Key"]: self.history.get(item["Key"]) for item in listed}

    def called(self, operation: str) -> list[str]:
        return [key for name, key in self.calls if name == operation]
