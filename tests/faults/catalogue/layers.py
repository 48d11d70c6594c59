"""What may happen to a run that stands a file system up for itself, by the product's own DAG.

Each ends with the layer gone: no file system, none named to nodes, no job.
"""

from __future__ import annotations

from tests.faults.bench import COLLAPSE, DAG_LAYERED, STAND_UP, TASK, Bench, Run
from tests.faults.fault import Fault, Runs
from tests.faults.layer import NODES
from tests.faults.outcome import REMOVED, Outcome

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
NOT_COLLECTED = "not collected"
# Of the DAG; fresh jobs of suspects, which there are none of, run as `run_benchmark` does.
TASKS = (
    "check_environment",
    "plan_jobs",
    STAND_UP,
    TASK,
    "collect_results",
    "find_suspects",
    "find_agreeing",
    "detect_regressions",
    "compare",
    "open_alerts",
    "publish_report",
    "publish_alerts",
    "announce_regressions",
    COLLAPSE,
)
BEFORE_LAYER = ("check_environment", "plan_jobs")


def start(bench: Bench, name: str, *, nodes: tuple[int, ...] = (2,), **told: object) -> Run:
    conf = SMALL | {"node_counts": list(nodes)}
    return bench.start(f"layer-{name}", NODES, dag_id=DAG_LAYERED, conf=conf, **told)


def creation_fails(bench: Bench) -> Run:
    fault = bench.begin("file_system_creation_fails", reason="no capacity in us-east-1a")
    run = start(bench, "creation-fails", gated=False)
    bench.finish(run)
    bench.end(fault)
    return run


def link_fails(bench: Bench) -> Run:
    """The file system is up, and its link to S3 is not."""
    fault = bench.begin("association_misconfigured", reason="no access to the bucket")
    run = start(bench, "link-fails", gated=False)
    bench.finish(run)
    bench.end(fault)
    return run


def standing_up_fails(bench: Bench) -> Runs:
    return {"creating": creation_fails(bench), "linking": link_fails(bench)}


FAULTS = (
    Fault(
        "standing up fails",
        standing_up_fails,
        {
            "creating": Outcome(
                "upstream_failed",
                jobs=0,
                kept=False,
                lost=NOT_COLLECTED,
                says="is FAILED: no capacity in us-east-1a. What was made of it is gone.",
                others=f"{STAND_UP} failed",
                layer=REMOVED,
            ),
            "linking": Outcome(
                "upstream_failed",
                jobs=0,
                kept=False,
                lost=NOT_COLLECTED,
                says="is MISCONFIGURED: no access to the bucket. What was made of it is gone.",
                others=f"{STAND_UP} failed",
                layer=REMOVED,
            ),
        },
        layered=True,
    ),
)
