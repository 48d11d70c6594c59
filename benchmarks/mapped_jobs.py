"""Counts what Airflow loses of 200 short mapped jobs, with the provider's operator and with ours.

Both run the same jobs on the same stack, one after the other. Needs about 10 minutes.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from contextlib import closing

from laptop.airflow import AirflowClient
from laptop.aws import AwsClients
from laptop.processes import stop_all
from laptop.session import Clock, exclusive, refuse_beside_others
from laptop.stack import ROOT, Ports, Stack

FOLDER = ROOT / "build" / "bench-mapped"
POOL_VCPUS = 64


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=200)
    parser.add_argument("--operators", nargs="+", default=["batchmark", "provider"])
    arguments = parser.parse_args()
    clock = Clock()
    with exclusive(FOLDER):
        refuse_beside_others(FOLDER)
        stop_all(FOLDER)
        dags = ROOT / "benchmarks" / "dags"
        stack = Stack(FOLDER, Ports(), clock.say, dags=dags, vcpus=POOL_VCPUS)
        with stack:
            stack.start()
            jobs = short_jobs(stack)
            results = {
                operator: run(stack, f"mapped_jobs_{operator}", {**jobs, "jobs": arguments.jobs})
                for operator in arguments.operators
            }
    for operator, (states, seconds) in results.items():
        print(f"{operator}: {dict(states)} of {arguments.jobs} jobs in {seconds:.0f} s")
    ours = results.get("batchmark")
    return 0 if ours is None or ours[0] == {"success": arguments.jobs} else 1


def short_jobs(stack: Stack) -> dict[str, str]:
    """Register a job definition that only sleeps, on a queue that Terraform made."""
    with closing(AwsClients(stack)) as aws:
        batch = aws.client("batch")
        definition = batch.register_job_definition(
            jobDefinitionName="short",
            type="container",
            parameters={"seconds": "0"},
            containerProperties={
                "image": "none",
                "command": ["sleep", "Ref::seconds"],
                "resourceRequirements": [
                    {"type": "VCPU", "value": "1"},
                    {"type": "MEMORY", "value": "64"},
                ],
            },
        )
        queue = batch.describe_job_queues()["jobQueues"][0]
    return {
        "job_definition": definition["jobDefinitionArn"],
        "job_queue": queue["jobQueueArn"],
    }


def run(stack: Stack, dag_id: str, conf: dict[str, object]) -> tuple[Counter[str], float]:
    """Run a DAG to its end; return its mapped tasks' states and the seconds it took."""
    with AirflowClient(stack.airflow) as airflow:
        airflow.wait_for_dag(dag_id)
        airflow.unpause(dag_id)
        started = time.monotonic()
        run_id = airflow.trigger(dag_id, conf)
        while (state := airflow.state(dag_id, run_id)) not in ("success", "failed"):
            stack.processes.check()
            stack.say(f"{dag_id}: {state}")
            time.sleep(10)
        tasks = airflow.task_instances(dag_id, run_id)
    states = Counter(str(task["state"]) for task in tasks if task["task_id"] == "run_job")
    return states, time.monotonic() - started


if __name__ == "__main__":
    sys.exit(main())
