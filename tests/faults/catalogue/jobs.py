"""Faults of the jobs themselves, of where they run, and of what tells of a regression."""

from __future__ import annotations

from functools import partial

from batchmark.core.names import slug
from tests.faults.bench import Bench, sigkill
from tests.faults.outcome import COLLECT, DAG_SLOWER, NO_JOB, Fault, Outcome, Run, Runs, lost_for
from tests.faults.targets import MISSING_IMAGE

NO_PROFILE = "The instance profile does not exist"


def told(run_id: str, bench: Bench, **instructions: object) -> Run:
    """A job that does as it is told."""
    return bench.finish(bench.start(run_id, gated=False, **instructions))


def on_target(target: str, bench: Bench) -> Run:
    """A job of a target on which nothing can run; its gate is never what it waits for."""
    return bench.finish(bench.start(target, target, gated=False))


def on_invalid_environment(bench: Bench) -> Run:
    bench.begin(
        "invalid_environment",
        compute_environment="fault-invalid-environment",
        reason=f"CLIENT_ERROR - {NO_PROFILE}",
    )
    return on_target("invalid-environment", bench)


def without_image(bench: Bench) -> Run:
    bench.begin("missing_image", image=MISSING_IMAGE)
    return on_target("missing-image", bench)


def killed(bench: Bench) -> Runs:
    starting = bench.start("sigkill-job-starting")
    running = bench.start("sigkill-job-running")
    ending = bench.start("sigkill-job-ending", lingers=True)
    sigkill(bench.wait_for_pid(bench.wait_for_job(starting, "STARTING", "RUNNING")["jobId"]))
    sigkill(bench.wait_for_pid(bench.wait_until_watched(running)["jobId"]))
    job = bench.wait_until_watched(ending)
    ending.open()
    bench.wait_for_documents(ending, 1)
    sigkill(bench.wait_for_pid(job["jobId"]))
    return bench.finish_all({"starting": starting, "running": running, "ending": ending})


def while_s3_refuses_writes(bench: Bench) -> Run:
    run = bench.start("s3-refuses-writes")
    bench.wait_until_watched(run)
    folder = f"arn:aws:s3:::{bench.config.bucket}/raw/{slug(run.run_id)}/*"
    fault = bench.begin("refused_writes", seconds=20, resources=[folder])
    run.open()
    bench.wait(lambda: bench.faults()[fault]["strikes"], "refused write")
    return bench.finish(run)


def replaced_document(bench: Bench) -> Run:
    """A valid one of its job takes the place of what was collected, which is collected again."""
    run = bench.finish(bench.start("document-replaced", gated=False, exit_code=3))
    bench.replace_document(run)
    bench.airflow.clear_tasks(run.dag_id, run.run_id, [COLLECT], reset_dag_runs=True)
    return bench.finish(run)


def bad_document(kind: str, says: str) -> Fault:
    return Fault(
        f"result document {kind}",
        partial(told, f"document-{kind}", document=kind),
        {"": lost_for(says)},
    )


def sns_refuses(bench: Bench) -> Runs:
    """One message comes with its task's next try, the other by the DAG for what is left."""
    with bench.fault("expired_credentials", services=["sns"]):
        lasting = bench.start("sns-refuses-lasting", dag_id=DAG_SLOWER, gated=False)
        bench.finish(lasting)
    bench.send_pending("after-sns-refused")
    with bench.fault("throttle", share=1, services=["sns"]) as refusing:
        passing = bench.start("sns-refuses-passing", dag_id=DAG_SLOWER, gated=False)
        bench.wait(lambda: bench.faults()[refusing]["strikes"], "refused message")
    return {"lasting": lasting, "passing": bench.finish(passing)}


FAULTS = (
    Fault(
        "job exits non-zero",
        partial(told, "exits-3", document="none", exit_code=3),
        {"": lost_for("exit code 3")},
        quick=True,
    ),
    Fault(
        "job never fits",
        partial(on_target, "never-fits"),
        {"": lost_for("MISCONFIGURATION:JOB_RESOURCE_REQUIREMENT")},
        quick=True,
    ),
    Fault(
        "queue disabled",
        partial(on_target, "disabled-queue"),
        {"": lost_for("is DISABLED", jobs=0, lost=NO_JOB)},
    ),
    Fault("environment INVALID", on_invalid_environment, {"": lost_for(NO_PROFILE)}),
    Fault("image missing", without_image, {"": lost_for("CannotPullContainerError")}),
    Fault(
        "SIGKILL of the job",
        killed,
        {
            "starting": lost_for("exit code 137"),
            "running": lost_for("exit code 137"),
            "ending": Outcome("failed", kept=True, says="exit code 137"),
        },
    ),
    Fault("S3 refuses writes for 20 s", while_s3_refuses_writes, {"": Outcome()}),
    bad_document("truncated", "not a result document: invalid JSON"),
    bad_document("huge", "has 190.7 MiB"),
    Fault(
        "result document replaced",
        replaced_document,
        {"": lost_for("was replaced: its SHA-256 is", says="exit code 3")},
    ),
    Fault("a regression", partial(told, "slower", dag_id=DAG_SLOWER), {"": Outcome(alerts=1)}),
    Fault(
        "SNS refuses",
        sns_refuses,
        {
            "lasting": Outcome(others="publish_alerts failed", alerts=1),
            "passing": Outcome(alerts=1),
        },
        alone=True,
    ),
)
