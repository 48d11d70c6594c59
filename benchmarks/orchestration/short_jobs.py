"""Runs Batch jobs that only sleep, with the DAGs in `dags`, on a stack of their own."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

from laptop.airflow import AirflowClient
from laptop.aws import AwsClients
from laptop.processes import stop_all
from laptop.session import Clock, exclusive, refuse_beside_others
from laptop.stack import ROOT, Ports, Stack

POOL_VCPUS = 64


class Run(NamedTuple):
    """A finished DAG run: its jobs' task states, and its duration according to Airflow."""

    states: Counter[str]
    seconds: float


class JobTimes(NamedTuple):
    """When a job ran according to Batch, in seconds since the epoch."""

    started: float
    stopped: float


class ShortJobs:
    """A running stack with a job definition that sleeps for its parameter `seconds`."""

    def __init__(self, stack: Stack, aws: AwsClients, airflow: AirflowClient) -> None:
        self._stack = stack
        self._airflow = airflow
        self._batch = aws.client("batch")
        self._definition = define_sleep(self._batch)
        self._queue = self._batch.describe_job_queues()["jobQueues"][0]["jobQueueArn"]

    def run(self, operator: str, conf: Mapping[str, object]) -> Run:
        """Run one operator's DAG to its end; `conf` holds the DAG's other parameters."""
        dag_id = f"short_jobs_{operator}"
        self._airflow.wait_for_dag(dag_id)
        self._airflow.unpause(dag_id)
        run_id = self._airflow.trigger(
            dag_id, {**conf, "job_queue": self._queue, "job_definition": self._definition}
        )
        self._stack.say(f"{dag_id}: started as {run_id}")
        while self._airflow.state(dag_id, run_id) not in ("success", "failed"):
            self._stack.processes.check()
            time.sleep(2)
        tasks = self._airflow.task_instances(dag_id, run_id)
        dag_run = self._airflow.dag_run(dag_id, run_id)
        began, ended = (datetime.fromisoformat(dag_run[key]) for key in ("start_date", "end_date"))
        return Run(
            Counter(str(task["state"]) for task in tasks if task["task_id"] == "run_job"),
            (ended - began).total_seconds(),
        )

    def times(self, name: str) -> list[JobTimes]:
        """When each job whose name starts with `name` ran."""
        pages = self._batch.get_paginator("list_jobs").paginate(
            jobQueue=self._queue, filters=[{"name": "JOB_NAME", "values": [f"{name}-*"]}]
        )
        return [
            JobTimes(job["startedAt"] / 1000, job["stoppedAt"] / 1000)
            for page in pages
            for job in page["jobSummaryList"]
        ]


@contextmanager
def stack_in(folder: Path, vcpus: int) -> Iterator[Stack]:
    """A stack inside the with block, not yet started; refused if another one is running."""
    with exclusive(folder):
        refuse_beside_others(folder)
        stop_all(folder)
        dags = ROOT / "benchmarks" / "orchestration" / "dags"
        with Stack(folder, Ports(), Clock().say, dags=dags, vcpus=vcpus) as stack:
            yield stack


@contextmanager
def running_short_jobs(folder: Path) -> Iterator[ShortJobs]:
    with stack_in(folder, POOL_VCPUS) as stack:
        stack.start()
        with closing(AwsClients(stack)) as aws, AirflowClient(stack.airflow) as airflow:
            yield ShortJobs(stack, aws, airflow)


def define_sleep(batch: Any) -> str:
    """Register a job definition that only sleeps; return its ARN."""
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
