"""Counts how many of 200 short mapped jobs Airflow loses, in three rounds.

With `--operators batchmark provider_deferrable`, the Amazon provider's operator runs the same jobs
on the same stack after ours. Exits with 1 if our operator lost a job. Takes about 4 minutes per
round.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import datetime
from typing import Any, NamedTuple

from laptop.airflow import AirflowClient
from laptop.aws import AwsClients
from laptop.processes import stop_all
from laptop.session import Clock, exclusive, refuse_beside_others
from laptop.stack import ROOT, Ports, Stack

FOLDER = ROOT / "build" / "bench-mapped"
DAGS = ROOT / "benchmarks" / "orchestration" / "dags"
OURS = "batchmark"
SECONDS = list(range(8))
POOL_VCPUS = 64  # jobs of one vCPU at a time; they only sleep, so any machine holds as many


class Run(NamedTuple):
    """A finished DAG run: its jobs' task states, and its duration according to Airflow."""

    states: Counter[str]
    seconds: float


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=200)
    parser.add_argument("--times", type=int, default=3, help="number of rounds (default: 3)")
    parser.add_argument(
        "--operators", nargs="+", default=[OURS], choices=[OURS, "provider_deferrable"]
    )
    arguments = parser.parse_args()
    lines, lost = [], 0
    with running_stack() as (stack, airflow, batch):
        conf = {
            "jobs": arguments.jobs,
            "seconds": SECONDS,
            # Polling every second makes a race between a job's end and the deferral most likely.
            "poll_interval": 1,
            "job_queue": batch.describe_job_queues()["jobQueues"][0]["jobQueueArn"],
            "job_definition": define_sleep(batch),
        }
        for number in range(1, arguments.times + 1):
            for operator in arguments.operators:
                run = run_dag(stack, airflow, operator, {**conf, "name": f"{operator}-{number}"})
                lines.append(
                    f"round {number}, {operator}: {dict(run.states)} of {arguments.jobs} jobs "
                    f"in {run.seconds:.0f} s"
                )
                if operator == OURS:
                    lost += arguments.jobs - run.states["success"]
    print("\n".join(lines))
    return 1 if lost else 0


def run_dag(stack: Stack, airflow: AirflowClient, operator: str, conf: dict[str, object]) -> Run:
    """Trigger an operator's DAG with these parameters, and wait for it to finish."""
    dag_id = f"short_jobs_{operator}"
    airflow.wait_for_dag(dag_id)
    airflow.unpause(dag_id)
    run_id = airflow.trigger(dag_id, conf)
    stack.say(f"{dag_id}: started as {run_id}")
    while airflow.state(dag_id, run_id) not in ("success", "failed"):
        stack.processes.check()
        time.sleep(2)
    tasks = airflow.task_instances(dag_id, run_id)
    dag_run = airflow.dag_run(dag_id, run_id)
    began, ended = (datetime.fromisoformat(dag_run[key]) for key in ("start_date", "end_date"))
    return Run(
        Counter(str(task["state"]) for task in tasks if task["task_id"] == "run_job"),
        (ended - began).total_seconds(),
    )


@contextmanager
def running_stack() -> Iterator[tuple[Stack, AirflowClient, Any]]:
    """Run a stack for the duration of the block; refuse if another one is running."""
    with exclusive(FOLDER):
        refuse_beside_others(FOLDER)
        stop_all(FOLDER)
        with Stack(FOLDER, Ports(), Clock().say, dags=DAGS, vcpus=POOL_VCPUS) as stack:
            stack.start()
            with closing(AwsClients(stack.aws)) as aws, AirflowClient(stack.airflow) as airflow:
                yield stack, airflow, aws.client("batch")


def define_sleep(batch: Any) -> str:
    """Register the definition of a job that only sleeps; return its ARN."""
    answer: dict[str, str] = batch.register_job_definition(
        jobDefinitionName="short",
        type="container",
        parameters={"seconds": "0"},
        containerProperties={
            "image": "none",
            "command": ["sleep", "Ref::seconds"],
            "resourceRequirements": [
                {"type": "VCPU", "value": "1"},
                {"type": "MEMORY", "value": "4"},
            ],
        },
    )
    return answer["jobDefinitionArn"]


if __name__ == "__main__":
    sys.exit(main())
