"""The DAG that shares GPUs in EKS: its order, and that the node ends whatever happens."""

import re
from datetime import timedelta

import pytest

from batchmark.orchestration.pods.pods_operator import PodsOperator
from batchmark.orchestration.tasks.pods import START_SECONDS
from batchmark.runs.plans.pod_plan import TRIES
from tests.paths import DOCS
from tests.unit.repository.test_dag_integrity import assert_order

DAG_ID = "eks_gpu_sharing_benchmark"


@pytest.fixture
def dag(dag_bag):
    return dag_bag.dags[DAG_ID]


def test_it_runs_in_order_and_the_docs_name_its_tasks(dag):
    assert_order(
        dag,
        ("plan_pods", "start_node", "wait_for_node", "run_pods", "collect_results", "compare"),
        ("compare", "publish_report", "publish_alerts"),
        ("collect_results", "find_suspects", "detect_regressions", "open_alerts"),
        ("open_alerts", "publish_report"),
        ("plan_pods", "announce_regressions"),
        ("run_pods", "end_node"),
    )
    run_pods = dag.get_task("run_pods")  # one at a time, as often as the caps count
    assert issubclass(run_pods.operator_class, PodsOperator)
    assert run_pods.max_active_tis_per_dagrun == 1
    assert run_pods.retries == TRIES - 1
    page = (DOCS / "eks-gpu-sharing.md").read_text()
    named = set(re.findall(r"^\| (`.*?) \|", page, re.MULTILINE))
    listed = {task for row in named for task in re.findall(r"`(\w+)`", row)}
    assert listed == set(dag.task_ids)


def test_the_node_ends_whatever_becomes_of_the_run(dag):
    start, end = dag.get_task("start_node"), dag.get_task("end_node")
    assert start.is_setup
    assert end.is_teardown
    assert end.on_failure_fail_dagrun
    assert "end_node" in start.downstream_task_ids
    # While its node group grows, EKS refuses to shrink it: longer than wait_for_node waits.
    assert end.retries * end.retry_delay > timedelta(seconds=START_SECONDS)
    assert end.downstream_task_ids == set()
