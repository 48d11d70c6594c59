"""SIGKILL of Airflow's parts, each while it submits a job, while one runs and as one ends."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING

from tests.faults.bench import sigkill
from tests.faults.fault import Fault, Runs
from tests.faults.outcome import Outcome

if TYPE_CHECKING:
    from tests.faults.bench import Bench

# A submission's answer is held so long, so that the kill comes between the two.
HELD_SECONDS = 6
DOWN_SECONDS = 3


def at_three_points(bench: Bench, name: str) -> Runs:
    """Three runs, all of which are just where the fault is to meet them."""
    running = bench.start(f"{name}-running")
    ending = bench.start(f"{name}-ending")
    for run in (running, ending):
        bench.wait_until_watched(run)
    held = bench.begin("late_answer", operations=["SubmitJob"], delay_seconds=HELD_SECONDS)
    submitting = bench.start(f"{name}-submitting")
    bench.wait(lambda: bench.jobs(submitting), "submission", 60)
    bench.end(held)
    return {"submitting": submitting, "running": running, "ending": ending}


def component(name: str, bench: Bench) -> Runs:
    runs = at_three_points(bench, name)
    runs["ending"].open()
    bench.wait_for_job(runs["ending"], "SUCCEEDED")
    bench.kill_component(name)
    time.sleep(DOWN_SECONDS)
    bench.restart_component(name)
    for run in runs.values():
        bench.finish(run)
    return runs


def worker(bench: Bench) -> Runs:
    """While a job runs an idle one dies, for none has its task; at its end the collector's does."""
    runs = at_three_points(bench, "worker")
    submitting = bench.wait_for_task(runs["submitting"], "running")
    at_work = bench.worker_pids(submitting)
    assert len(at_work) == 2, f"not one worker and one task runner, but {at_work}"
    for pid in at_work:
        sigkill(pid)
    sigkill(bench.executor_pids()[0])
    runs["ending"].open()
    collecting = bench.wait_for_task(runs["ending"], "running", task_id="collect_results")
    for pid in bench.worker_pids(collecting):
        sigkill(pid)
    for run in runs.values():
        bench.finish(run)
    return runs


def killed(name: str, called: str, *, quick: bool = False) -> Fault:
    return Fault(
        f"SIGKILL of the {called}",
        worker if name == "worker" else partial(component, name),
        {point: Outcome() for point in ("submitting", "running", "ending")},
        alone=True,
        quick=quick,
    )


FAULTS = (
    killed("worker", "worker"),
    killed("triggerer", "triggerer", quick=True),
    killed("scheduler", "scheduler"),
    killed("api-server", "API server"),
)
