"""What may happen to a run that stands a file system up for itself, by the product's own DAG.

Each ends with the layer gone: no file system, none named to nodes, no job.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from batchmark.aws.job_parts import main_node_id
from batchmark.core.names import slug
from batchmark.orchestration.operators.file_system_trigger import KILL_SECONDS
from batchmark_job.distributed.node import CONTROL_PORT
from batchmark_job.result.document import MeasurementStatus
from tests.faults.bench import Bench
from tests.faults.catalogue.components import DOWN_SECONDS, kill_worker
from tests.faults.layer import JOINING_SECONDS, NODES
from tests.faults.outcome import (
    COLLAPSE,
    COLLAPSED,
    COLLECT,
    DAG_LAYERED,
    GUARDED,
    NEVER_THERE,
    REMOVED,
    STAND_UP,
    TASK,
    Fault,
    Outcome,
    Run,
    Runs,
    lost_for,
)
from tests.faults.targets import job_prefix
from tests.stand_ins.stranger import heard, sayings

SMALL = {
    "batch": 2,
    "image": 32,
    "steps": 10,
    "data": ["synthetic", "files"],
    "all_reduce_mib": [],
    "strong_scaling": False,
}
# The real job's: two rows, as files are a fault of their own.
TWO_ROWS = "--data synthetic --batches 2,3"
FIRST_ROW = "[1/2]"
READING = "--data files --batches 2"
NODE_MISSING = f"only 1 node of 2 joined within {JOINING_SECONDS} s; missing: node 1."
LOST_CHILD = "node 1 (127."
MAIN_NODE_KILLED = "Its main node: exit code 137"
HELD_SECONDS = 60
ANSWER_SECONDS = 6
# The report is there and says what is lost.
REPORTED = "publish_report failed, publish_alerts failed"
NOT_COLLECTED = "not collected"
NOTHING_BEGUN = Outcome("skipped", jobs=0, kept=False, lost=NOT_COLLECTED, layer=NEVER_THERE)
NOTHING_COLLECTED = Outcome(kept=False, lost=NOT_COLLECTED, layer=COLLAPSED)
# What comes of a run that is cancelled in each of its tasks. What a job left stays in the bucket.
# Fresh jobs of suspects, which there are none of, run as `run_benchmark` does.
CANCELLED = {
    "check_environment": NOTHING_BEGUN,
    "plan_jobs": NOTHING_BEGUN,
    STAND_UP: NOTHING_BEGUN._replace(layer=REMOVED),
    TASK: NOTHING_COLLECTED._replace(state="failed"),
    COLLECT: NOTHING_COLLECTED,
    **dict.fromkeys(
        (
            *("compare", "find_suspects", "find_agreeing", "detect_regressions", "open_alerts"),
            *("publish_report", "publish_alerts", "announce_regressions", COLLAPSE),
        ),
        Outcome(layer=COLLAPSED),
    ),
}


def start(bench: Bench, name: str, *, nodes: tuple[int, ...] = (2,), **told: object) -> Run:
    conf = SMALL | {"node_counts": list(nodes)}
    return bench.start(f"layer-{name}", NODES, dag_id=DAG_LAYERED, conf=conf, **told)


def creation_fails(bench: Bench) -> Run:
    with bench.fault("file_system_creation_fails", reason="no capacity in us-east-1a"):
        return bench.finish(start(bench, "creation-fails", gated=False))


def link_fails(bench: Bench) -> Run:
    """The file system is up, and its link to S3 is not."""
    with bench.fault("association_misconfigured", reason="no access to the bucket"):
        return bench.finish(start(bench, "link-fails", gated=False))


def rendezvous_never_completes(bench: Bench) -> Run:
    """The second node does not start."""
    with bench.fault("unstarted_node", node=1, job_name=f"{job_prefix(bench.config, NODES)}*"):
        return bench.finish(start(bench, "rendezvous", nodes=(1, 2), gated=False, real=TWO_ROWS))


def stranger_comes(bench: Bench) -> Run:
    """Before the second node does, and says all that it can."""
    run = start(bench, "stranger", gated=False, real=TWO_ROWS)
    job = bench.wait_for_job(run, "RUNNING")
    address = bench.wait_for_address(job["jobId"], CONTROL_PORT)
    for said in sayings(job["jobId"]):
        assert heard(address, CONTROL_PORT, said) == b""
    return bench.finish(run)


def child_dies(bench: Bench) -> Run:
    run = start(bench, "child-dies", gated=False, real=TWO_ROWS)
    job = bench.wait_for_job(run, "RUNNING")
    wait_for_first_row(bench, job)
    bench.kill_node(job["jobId"], 1)
    bench.finish(run)
    (document,) = bench.documents(run)
    first, second = document.measurements
    assert first.status is MeasurementStatus.MEASURED
    assert str(second.reason).startswith(LOST_CHILD), second.reason
    return run


def main_node_dies(bench: Bench) -> Run:
    run = start(bench, "main-node-dies", nodes=(1, 2), gated=False, real=TWO_ROWS)
    alone = bench.wait_for_job(run, "SUCCEEDED")
    job = bench.wait_for_job(run, "RUNNING", but=alone["jobId"])
    wait_for_first_row(bench, job)
    bench.kill_node(job["jobId"], 0)
    return bench.finish(run)


def wait_for_first_row(bench: Bench, job: dict[str, Any]) -> None:
    main = {"jobId": main_node_id(job["jobId"])}
    bench.wait(
        lambda: any(FIRST_ROW in line for line in bench.log_lines(main)), "first row", every=0.5
    )


def file_system_is_full(bench: Bench) -> Runs:
    bench.layer.make_images()
    with bench.fault("file_system_full"):
        importing = bench.finish(start(bench, "full-importing", gated=False))
    return {
        "importing": importing,
        "reading": on_full_file_system(bench, "reading", real=READING),
        "writing": on_full_file_system(bench, "writing", checkpoint_mib=1),
    }


def on_full_file_system(bench: Bench, name: str, **told: object) -> Run:
    """It is full once the images are there; the job has not looked yet."""
    run = start(bench, f"full-{name}", **told)
    bench.wait_for_task(run, "success", task_id=STAND_UP)
    with bench.fault("file_system_full", file_system=bench.layer.file_system_id()):
        return bench.finish(run)


def scheduler_killed(bench: Bench) -> Runs:
    return {
        "before the teardown": killed_as(bench, "before", "running", task_id=COLLECT),
        "in the teardown": killed_as(bench, "in", "deferred", task_id=COLLAPSE),
    }


def killed_as(bench: Bench, name: str, *states: str, task_id: str) -> Run:
    """The scheduler is killed as a task is in such a state, and comes back."""
    run = start(bench, f"scheduler-{name}", gated=False)
    bench.wait_for_task(run, *states, task_id=task_id)
    bench.kill_component("scheduler")
    time.sleep(DOWN_SECONDS)
    bench.restart_component("scheduler")
    return bench.finish(run)


def deletion_refused_once(bench: Bench) -> Run:
    with bench.fault("file_system_deletion_refused", times=1) as fault:
        run = bench.finish(start(bench, "deletion-refused", gated=False))
        assert bench.faults()[fault]["strikes"] == 1
    return run


def worker_killed_in_teardown(bench: Bench) -> Run:
    """Its first try is lost, and another follows."""
    run = start(bench, "teardown-worker", gated=False)
    kill_worker(bench, bench.wait_for_task(run, "running", task_id=COLLAPSE))
    return bench.finish(run)


def teardown_ended_by_user(bench: Bench) -> Run:
    """While FSx refuses to delete."""
    with bench.fault("file_system_deletion_refused", times=None) as fault:
        run = start(bench, "teardown-ended", gated=False)
        bench.wait(lambda: bench.faults()[fault]["strikes"], "refused deletion")
        bench.airflow.fail(bench.wait_for_task(run, "deferred", task_id=COLLAPSE))
    return bench.finish(run)


def cancelled_during(bench: Bench, task_id: str) -> Run:
    run = start(bench, f"cancelled-{task_id}", gated=task_id == TASK)
    held = None
    if task_id == COLLECT:
        bench.wait_for_task(run, "success")
        held = hold_documents(bench, run)
    bench.wait_for_task(run, "running", "deferred", task_id=task_id)
    if held:
        bench.wait(lambda: bench.faults()[held]["strikes"], "read document")
    elif task_id == TASK:
        bench.wait_until_watched(run)
    elif task_id == STAND_UP:
        bench.wait(bench.layer.left, "file system that is being created")
    bench.cancel(run)
    bench.finish(run, open_gates=False)
    if held:
        bench.end(held)
    return run


def cleared_after_cancel(bench: Bench) -> Run:
    """It stands up another file system, and runs its job anew."""
    run = start(bench, "cleared")
    bench.wait_until_watched(run)
    bench.cancel(run)
    bench.finish(run, open_gates=False)
    bench.go_on(run)
    return bench.finish(run)


def cancelled_as_fsx_refuses(bench: Bench) -> Run:
    """FSx deletes nothing for longer than a trigger has to end what it made."""
    with bench.fault("file_system_deletion_refused", times=None) as fault:
        run = start(bench, "cancelled-refused", gated=False)
        bench.wait(bench.layer.left, "file system that is being created")
        bench.cancel(run)
        bench.wait(lambda: bench.faults()[fault]["strikes"], "refused deletion")
        time.sleep(KILL_SECONDS)
    return bench.finish(run, open_gates=False)


def cancelled_as_fsx_answers(bench: Bench) -> Run:
    """Nobody knows yet what was created."""
    with bench.fault(
        "late_answer", operations=["CreateFileSystem"], delay_seconds=ANSWER_SECONDS
    ) as held:
        run = start(bench, "cancelled-unanswered", gated=False)
        bench.wait(lambda: bench.faults()[held]["strikes"], "creation")
        bench.cancel(run)
    return bench.finish(run, open_gates=False)


def hold_documents(bench: Bench, run: Run) -> str:
    """Let nobody get what the run's jobs left for as long as this lasts."""
    folder = f"arn:aws:s3:::{bench.config.bucket}/raw/{slug(run.run_id)}/*"
    return bench.begin(
        "late_answer", operations=["GetObject"], resources=[folder], delay_seconds=HELD_SECONDS
    )


def cancelled(bench: Bench) -> Runs:
    return {task_id: cancelled_during(bench, task_id) for task_id in CANCELLED}


def not_stood_up(says: str) -> Outcome:
    return Outcome(
        "upstream_failed",
        jobs=0,
        kept=False,
        says=says,
        lost=NOT_COLLECTED,
        others=f"{STAND_UP} failed, publish_alerts failed",
        layer=REMOVED,
    )


def layered(
    name: str,
    inflict: Callable[[Bench], Run | Runs],
    expected: Outcome | Mapping[str, Outcome],
    *,
    quick: bool = False,
) -> Fault:
    points = {"": expected} if isinstance(expected, Outcome) else expected
    return Fault(name, inflict, points, layered=True, quick=quick)


ONE_OF_TWO_LOST = Outcome("success, failed", jobs=2, others=REPORTED, layer=COLLAPSED)
FAULTS = (
    layered(
        "file system is not created",
        creation_fails,
        not_stood_up("is FAILED: no capacity in us-east-1a. Everything created for it was deleted"),
    ),
    layered(
        "file system stands up half-way",
        link_fails,
        not_stood_up(
            "is MISCONFIGURED: no access to the bucket. Everything created for it was deleted."
        ),
        quick=True,
    ),
    layered(
        "rendezvous never completes",
        rendezvous_never_completes,
        ONE_OF_TWO_LOST._replace(says=NODE_MISSING, lost=NODE_MISSING),
    ),
    layered("stranger at the main node's port", stranger_comes, Outcome(layer=COLLAPSED)),
    layered(
        "child node dies",
        child_dies,
        Outcome("failed", says=LOST_CHILD, others=REPORTED, layer=COLLAPSED),
    ),
    layered(
        "main node dies",
        main_node_dies,
        ONE_OF_TWO_LOST._replace(says=MAIN_NODE_KILLED, lost=MAIN_NODE_KILLED),
    ),
    layered(
        "file system is full",
        file_system_is_full,
        {
            "importing": not_stood_up("can't be imported: No space left on device"),
            "reading": Outcome(layer=COLLAPSED),
            "writing": lost_for("No space left on device", others=REPORTED, layer=COLLAPSED),
        },
    ),
    layered("DAG run cancelled", cancelled, CANCELLED),
    layered(
        "DAG run cancelled and cleared", cleared_after_cancel, Outcome(jobs=2, layer=COLLAPSED)
    ),
    layered(
        "DAG run cancelled as FSx creates",
        cancelled_as_fsx_answers,
        NOTHING_BEGUN._replace(layer=REMOVED),
    ),
    layered(
        "DAG run cancelled as FSx deletes nothing",
        cancelled_as_fsx_refuses,
        NOTHING_BEGUN._replace(says="can't be deleted yet", layer=GUARDED),
    ),
    layered("deletion refused once", deletion_refused_once, Outcome(layer=COLLAPSED)),
    layered(
        "teardown ended by a user",
        teardown_ended_by_user,
        Outcome(others=f"{COLLAPSE} failed", layer=GUARDED),
    ),
    Fault(
        "SIGKILL of the worker in the teardown",
        worker_killed_in_teardown,
        {"": Outcome(layer=COLLAPSED)},
        alone=True,
    ),
    Fault(
        "SIGKILL of the scheduler around the teardown",
        scheduler_killed,
        {point: Outcome(layer=COLLAPSED) for point in ("before the teardown", "in the teardown")},
        alone=True,
    ),
)
