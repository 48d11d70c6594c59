"""Builders of own jobs' documents and runs, from what each side would truly take."""

from dataclasses import dataclass, field
from datetime import timedelta

from batchmark.core.own_jobs import OwnJobPlan
from batchmark_job.result.document import Device, Implementation, MeasurementStatus
from batchmark_job.result.own_job import OwnersCheck, OwnJob
from tests.builders.runs import (
    CPU_ENVIRONMENT,
    GPU_ENVIRONMENT,
    LAPTOP_ENVIRONMENT,
    START,
    build_job,
    build_lost,
    build_row,
    build_run,
    noisy,
)

NAME = "thumbnails"
SUITE = f"job-{NAME}"
IMAGE = "registry.example/thumbnails"
PASSED = OwnersCheck(kind="exit_code", passed=True)
LARGE, SMALL = 4096, 64
THROUGHPUT = ("throughput", "images/s", "higher")
LOSS = ("loss", "", "lower")
SIZES = (SMALL, 256, 1024, LARGE)


@dataclass(frozen=True)
class JobOn:
    """A job on one side: the truth that a report should find again."""

    target: str
    start_up: float = 10.0  # seconds
    each: float = 0.05  # seconds, of each of `size` images
    on_cold: float = 20.0  # more seconds where the instance is cold
    spread: float = 0.01
    environment: object = None
    actual_device: Device | None = None
    image: str = f"{IMAGE}:1.0"
    metrics: tuple = (THROUGHPUT,)
    plan: dict = field(default_factory=dict)

    def seconds(self, size, start="warm"):
        return self.start_up + self.each * (size or 100) + self.on_cold * (start == "cold")

    def job(self, size=SMALL, repeat=1, *, start="warm", check=PASSED, told=None, **fields):
        """A job that ran to its end; with a check that did not pass, all its rows failed."""
        seconds = noisy(self.seconds(size, start), count=1, spread=self.spread, seed=repeat)[0]
        seconds = fields.pop("seconds", seconds)
        parameters = {} if size is None else {"size": size}
        if start:
            parameters["start"] = start
        images = size or 100
        values = {THROUGHPUT: (images / seconds,), LOSS: (0.3,)} if told is None else told
        rows = [own_row(seconds, parameters, check, self.image)]
        rows += [
            metric_row(values[metric], metric, parameters, check, self.image)
            for metric in (self.metrics if told is None else told)
        ]
        own = {
            name: fields.pop(name)
            for name in ("bad_lines", "metrics_left_out", "doubts")
            if name in fields
        }
        asked = {
            name: START + timedelta(minutes=repeat, seconds=-before)
            for name, before in (("created_at", 30), ("runnable_at", 29), ("starting_at", 5))
        }
        name = filter(None, (self.target.replace(".", "-"), size, start, repeat))
        gpu = self.target[0] in "gp"
        environment = self.environment or (GPU_ENVIRONMENT if gpu else CPU_ENVIRONMENT)
        if self.environment is not LAPTOP_ENVIRONMENT:
            environment = environment.model_copy(update={"instance_type": self.target})
        job = build_job(
            self.target,
            rows,
            suite=SUITE,
            repeat=repeat,
            batch_seconds=seconds,
            total_seconds=seconds,
            job_id="-".join(map(str, name)),
            environment=environment.model_copy(update={"image": self.image}),
            actual_device=self.actual_device,
            **asked | fields,
        )
        told_of_it = OwnJob(
            image=self.image,
            command="python convert.py",
            wrapped=True,
            exit_code=0 if check.passed else 3,
            waiting_seconds=30.0,
            running_seconds=seconds,
            command_seconds=seconds - 1,
            start=start,
            check=check,
            **own,
        )
        plan = own_plan(size, **self.plan)
        return job.model_copy(
            update={
                "planned": job.planned.model_copy(update={"dtype": "suite", "own_job": plan}),
                "document": job.document.model_copy(update={"own_job": told_of_it}),
            }
        )

    def jobs(self, sizes=(SMALL,), repeats=6, **fields):
        return [
            self.job(size, repeat, **fields) for repeat in range(1, repeats + 1) for size in sizes
        ]

    def lost(self, size, reason, repeat=1):
        lost = build_lost(self.target, reason, repeat=repeat, suite=SUITE)
        planned = lost.planned.model_copy(update={"dtype": "suite", "own_job": own_plan(size)})
        return lost.model_copy(update={"planned": planned})


GPU = JobOn("g5.xlarge", start_up=12.0, each=0.01)
CPU = JobOn("c5.2xlarge", start_up=4.0, each=0.08)


def left_by_try_job(folder, *sides, run_id="run", repeats=3, **fields):
    """The folder raw/ with a run's documents, of which the first of a side started its target."""
    for side in sides:
        jobs = side.jobs((SMALL, 256), repeats, start=None, **fields)
        for job in [side.job(SMALL, repeats + 1, start=None, **fields), *jobs]:
            job_id = f"{run_id}-{job.job_id}"
            found = job.document.model_copy(update={"run_id": run_id, "job_id": job_id})
            size = found.measurements[0].parameters["size"]
            place = f"{run_id}/{side.target}/{SUITE}-size-{size}/{job.planned.repeat}"
            file = folder / "raw" / place / f"{job_id}.1.json"
            file.parent.mkdir(parents=True)
            file.write_text(found.to_json())
    return folder / "raw"


def own_plan(size, **fields):
    values = {"name": NAME, "job_definition": "arn:aws:batch:::job-definition/thumbnails:1"}
    axis = {} if size is None else {"axis": "size", "size": size}
    return OwnJobPlan(**values | axis | fields)


def own_row(seconds, parameters, check=PASSED, image=f"{IMAGE}:1.0"):
    """The row of a whole job."""
    return _row((seconds,), parameters, check, image)


def metric_row(values, metric, parameters, check=PASSED, image=f"{IMAGE}:1.0"):
    """The row of a metric, given as name, unit and which way is better."""
    name, unit, better = metric
    samples = [1 / value if better == "higher" else value for value in values]
    own = {"metric": name, "unit": unit, "better": better}
    return _row(samples, parameters | own, check, image)


def _row(samples, parameters, check, image):
    name, _, version = image.partition(":")
    failed = {} if check.passed else {"status": MeasurementStatus.FAILED, "reason": check.detail}
    return build_row(
        samples,
        workload=NAME,
        parameters=parameters,
        dtype="none",
        implementation=Implementation(name=name, version=version),
        cold_seconds=samples[0],
        correctness=None,
        check=check,
        **failed,
    )


def failed(detail="its check ended with 1", kind="command"):
    return OwnersCheck(kind=kind, passed=False, detail=detail)


def with_output(sha256, **fields):
    return OwnersCheck(kind="checksum", passed=True, output_sha256=sha256, **fields)


def own_run():
    """Jobs of both sides at all sizes."""
    return build_run(*(job for side in (GPU, CPU) for job in side.jobs(SIZES)))
