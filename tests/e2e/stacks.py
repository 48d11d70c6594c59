"""Stacks for tests."""

from batchmark.aws.result_bucket import RunStore
from laptop.session import Clock
from laptop.stack import Ports, Stack
from tests.waiting import wait_for


def open_stack(folder):
    """A stack on free ports, of which nothing is started yet; leaving its context ends it."""
    return Stack(folder, Ports(), Clock().say)


def wait_for_end(airflow, dag_id, run_id, seconds=540):
    def state():
        state = airflow.state(dag_id, run_id)
        return state if state in ("success", "failed") else None

    return wait_for(state, f"end of DAG run {run_id}", seconds, every=1)


def run_dag(airflow, dag_id, conf):
    """Run a DAG to its end; its run id and state."""
    airflow.wait_for_dag(dag_id)
    airflow.unpause(dag_id)
    run_id = airflow.trigger(dag_id, conf)
    return run_id, wait_for_end(airflow, dag_id, run_id)


def store_of(aws, run_id):
    return RunStore(aws.client("s3"), aws.config().bucket, run_id)


def failed_log(airflow, dag_id, run_id, task_id):
    """The log of a run's only failed task of that name."""
    (task,) = [
        task
        for task in airflow.task_instances(dag_id, run_id)
        if task["task_id"] == task_id and task["state"] == "failed"
    ]
    return airflow.task_log(task)
