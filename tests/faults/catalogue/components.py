"""SIGKILL of Airflow's parts, and of the local cloud.

Each comes while a job is submitted, while one runs and as one ends.
"""

from __future__ import annotations

import time
from functools import partial
from typing import Any

from tests.faults.bench import CLOUD, Bench, sigkill
from tests.faults.outcome import Fault, Outcome, Run, Runs

# A submission's answer is held so long, so that the kill comes between the two.
HELD_SECONDS = 6
DOWN_SECONDS = 3


def at_three_points(bench: Bench, name: str) -> Runs:
    """Three runs, all of which are just where the fault is to meet them."""
    running = bench.start(f"{name}-running")
    ending = bench.start(f"{name}-ending")
    for run in (running, ending):
        bench.wait_until_watched(run)
    with bench.fault("late_answer", operations=["SubmitJob"], delay_seconds=HELD_SECONDS):
        submitting = bench.start(f"{name}-submitting")
        bench.wait(lambda: bench.jobs(submitting), "submission")
    return {"submitting": submitting, "running": running, "ending": ending}


def component(name: str, bench: Bench) -> Runs:
    runs = at_three_points(bench, name)
    runs["ending"].open()
    bench.wait_for_job(runs["ending"], "SUCCEEDED")
    bench.kill_component(name)
    time.sleep(DOWN_SECONDS)
    bench.restart_component(name)
    return bench.finish_all(runs)


def local_cloud(bench: Bench) -> Runs:
    """Its machines die with it: the job that ran has lost its host, and its next attempt runs."""
    runs = component(CLOUD, bench)
    (job,) = bench.jobs(runs["running"])
    first, last = job["attempts"]
    assert first["statusReason"].startswith("Host EC2 (instance"), first
    assert last["container"]["exitCode"] == 0, last
    return runs


def worker(bench: Bench) -> Runs:
    """A worker has a task while it looks for its job and submits it, and while it collects."""
    runs = {
        "submitting": killed_in("ListJobs", bench, "submitting"),
        "running": killed_in("SubmitJob", bench, "running"),
        "ending": bench.start("worker-ending", gated=False),
    }
    collecting = bench.wait_for_task(runs["ending"], "running", task_id="collect_results")
    kill_worker(bench, collecting)
    return bench.finish_all(runs)


def killed_in(operation: str, bench: Bench, point: str) -> Run:
    """A run whose worker dies before it learns what came of a call."""
    with bench.fault("late_answer", operations=[operation], delay_seconds=HELD_SECONDS) as held:
        run = bench.start(f"worker-{point}")
        bench.wait(lambda: bench.faults()[held]["strikes"], f"{operation} of {run.run_id}")
        kill_worker(bench, bench.wait_for_task(run, "running"))
    return run


def kill_worker(bench: Bench, task: dict[str, Any]) -> None:
    """Both of its processes: the executor's, which watches, and the task's own."""
    for pid in bench.wait_for_worker(task):
        sigkill(pid)


OTHERWISE = {"worker": worker, CLOUD: local_cloud}


def killed(name: str, called: str, *, quick: bool = False) -> Fault:
    return Fault(
        f"SIGKILL of the {called}",
        OTHERWISE.get(name, partial(component, name)),
        {point: Outcome() for point in ("submitting", "running", "ending")},
        alone=True,
        quick=quick,
    )


FAULTS = (
    killed("worker", "worker"),
    killed("triggerer", "triggerer", quick=True),
    killed("scheduler", "scheduler"),
    killed("api-server", "API server"),
    killed(CLOUD, "local cloud and its jobs"),
)
