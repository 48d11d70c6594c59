"""A task that runs a benchmark job, on a worker with a fake Batch."""

from types import SimpleNamespace

import pytest
from airflow.sdk.exceptions import AirflowFailException, TaskDeferred

from batchmark.core.names import full_name
from batchmark.orchestration.operators.batch_operator import BenchmarkJobOperator
from tests.stand_ins.batch import ON_DEMAND_QUEUE, SPOT_QUEUE, FakeBatch, FakeClients
from tests.stand_ins.marked_log import MarkedLog

RUN_ID = "manual__2026-11-21T01:00:00+00:00"
JOB_NAME = "batchmark-g5-xlarge-smoke-1"
RETRIES = 3


def name(generation=0):
    return full_name(JOB_NAME, RUN_ID, generation)


class Task:
    """A task instance and what Batch has of it; `failure` and `deferral` are how its try ends."""

    def __init__(self, *, try_number=1, cleared_after=0, **arguments):
        self.batch = FakeBatch()
        self.operator = BenchmarkJobOperator(
            task_id="run_benchmark",
            job_name=JOB_NAME,
            job_queue=SPOT_QUEUE,
            job_definition="definition:1",
            parameters={"suite": "smoke"},
            tags={"batchmark:installation": "batchmark"},
            aws_conn_id=None,
            retries=RETRIES,
            **{"on_demand_queue": ON_DEMAND_QUEUE} | arguments,
        )
        self.operator.clients = FakeClients(batch=self.batch, logs=MarkedLog())
        self.xcoms = {}
        ti = SimpleNamespace(
            dag_id="benchmark",
            task_id="run_benchmark",
            run_id=RUN_ID,
            try_number=try_number,
            max_tries=RETRIES + cleared_after,
            xcom_push=lambda key, value: self.xcoms.update({key: value}),
        )
        self.context = {"ti": ti, "task": self.operator, "run_id": RUN_ID}

    def deferral(self):
        with pytest.raises(TaskDeferred) as deferred:
            self.operator.execute(self.context)
        _, arguments = deferred.value.trigger.serialize()
        return arguments, deferred.value

    def failure(self):
        with pytest.raises(AirflowFailException) as failed:
            self.operator.execute(self.context)
        return str(failed.value)
