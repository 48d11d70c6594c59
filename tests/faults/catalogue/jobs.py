"""Faults of the jobs themselves, and of where they are to run."""

from __future__ import annotations

from functools import partial

from batchmark.core.names import slug
from tests.faults.bench import Bench, sigkill
from tests.faults.fault import Fault, Runs
from tests.faults.outcome import NO_JOB, Outcome
from tests.faults.targets import MISSING_IMAGE

NEVER_FITS = "MISCONFIGURATION:JOB_RESOURCE_REQUIREMENT"
NO_IMAGE = "CannotPullContainerError"
NO_PROFILE = "The instance profile does not exist"


def told(run_id: str, bench: Bench, **instructions: object) -> Runs:
    """A job that does as it is told."""
    run = bench.start(run_id, gated=False, **instructions)
    bench.finish(run)
    return {"": run}


def on_target(target: str, bench: Bench) -> Runs:
    """A job of a target on which nothing can run; its gate is never what it waits for."""
    run = bench.start(target, target, gated=False)
    bench.finish(run)
    return {"": run}


def on_invalid_environment(bench: Bench) -> Runs:
    bench.begin(
        "invalid_environment",
        compute_environment="fault-invalid-environment",
        reason=f"CLIENT_ERROR - {NO_PROFILE}",
    )
    return on_target("invalid-environment", bench)


def without_image(bench: Bench) -> Runs:
    bench.begin("missing_image", image=MISSING_IMAGE)
    return on_target("missing-image", bench)


def killed(bench: Bench) -> Runs:
    runs = {point: f"sigkill-job-{point}" for point in ("starting", "running", "ending")}
    starting = bench.start(runs["starting"])
    running = bench.start(runs["running"])
    ending = bench.start(runs["ending"], lingers=True)
    sigkill(bench.wait_for_pid(bench.wait_for_job(starting, "STARTING", "RUNNING")["jobId"]))
    sigkill(bench.wait_for_pid(bench.wait_until_watched(running)["jobId"]))
    job = bench.wait_until_watched(ending)
    ending.open()
    bench.wait_for_documents(ending, 1)
    sigkill(bench.wait_for_pid(job["jobId"]))
    ended = {"starting": starting, "running": running, "ending": ending}
    for run in ended.values():
        bench.finish(run)
    return ended


def while_s3_refuses_writes(bench: Bench) -> Runs:
    run = bench.start("s3-refuses-writes")
    bench.wait_until_watched(run)
    folder = f"arn:aws:s3:::{bench.config.bucket}/raw/{slug(run.run_id)}/*"
    fault = bench.begin("refused_writes", seconds=20, resources=[folder])
    run.open()
    bench.wait(lambda: bench.faults()[fault]["strikes"], "refused write", 15)
    bench.finish(run)
    return {"": run}


def bad_document(kind: str, says: str) -> Fault:
    return Fault(
        f"result document {kind.replace('_', ' ')}",
        partial(told, f"document-{kind}", document=kind),
        {"": Outcome("failed", kept=False, says=says, lost=says)},
    )


FAULTS = (
    Fault(
        "job exits non-zero",
        partial(told, "exits-3", document="none", exit_code=3),
        {"": Outcome("failed", kept=False, says="exit code 3", lost="exit code 3")},
        quick=True,
    ),
    Fault(
        "job never fits",
        partial(on_target, "never-fits"),
        {
            "": Outcome(
                "failed",
                kept=False,
                says="MISCONFIGURATION:JOB_RESOURCE_REQUIREMENT",
                lost="MISCONFIGURATION:JOB_RESOURCE_REQUIREMENT",
            )
        },
        quick=True,
    ),
    Fault(
        "queue disabled",
        partial(on_target, "disabled-queue"),
        {"": Outcome("failed", jobs=0, kept=False, says="is DISABLED", lost=NO_JOB)},
    ),
    Fault(
        "environment INVALID",
        on_invalid_environment,
        {"": Outcome("failed", kept=False, says=NO_PROFILE, lost=NO_PROFILE)},
    ),
    Fault(
        "image missing",
        without_image,
        {
            "": Outcome(
                "failed",
                kept=False,
                says="CannotPullContainerError",
                lost="CannotPullContainerError",
            )
        },
    ),
    Fault(
        "SIGKILL of the job",
        killed,
        {
            "starting": Outcome("failed", kept=False, says="exit code 137", lost="exit code 137"),
            "running": Outcome("failed", kept=False, says="exit code 137", lost="exit code 137"),
            "ending": Outcome("failed", kept=True, says="exit code 137"),
        },
    ),
    Fault("S3 refuses writes for 20 s", while_s3_refuses_writes, {"": Outcome()}),
    bad_document("truncated", "not a result document: invalid JSON"),
    bad_document("other_version", "schema_version 99"),
    bad_document("other_job", "has job_id '11111111-0000-0000-0000-000000000000'"),
    bad_document("huge", "has 190.7 MiB"),
    bad_document("deep", "not a result document: invalid JSON"),
    bad_document("overflowing", "breaks schema 2: environment.memory_bytes"),
    bad_document("doubled", "it has the row stand_in {'size': 1} float32 twice"),
)
