"""The DAG that trains on several nodes: its order, and that the file system goes in the end."""

import itertools
from datetime import timedelta

import pytest

from batchmark.core.clusters.multi_node import COLLAPSE_SECONDS
from batchmark.orchestration.operators.file_system_operators import (
    CollapseFileSystem,
    StandUpFileSystem,
)
from batchmark.runs.plans.options import parse_options
from batchmark.runs.plans.scaling_plan import plan_scaling
from batchmark_job.result.scaling_options import ScalingRun
from tests.builders.installations import configured
from tests.builders.scaling import stack
from tests.faults.catalogue.layers import CANCELLED
from tests.unit.repository.test_dag_integrity import assert_order

DAG_ID = "distributed_training_benchmark"
STAND_UP, COLLAPSE = "stand_up_file_system", "collapse_file_system"


@pytest.fixture
def dag(dag_bag):
    return dag_bag.dags[DAG_ID]


def test_it_runs_in_order(dag):
    lines = (
        ("check_environment", "plan_jobs", STAND_UP, "run_benchmark", "collect_results"),
        ("collect_results", "find_suspects", "rerun_once", "find_agreeing", "rerun_twice"),
        ("rerun_twice", "detect_regressions", COLLAPSE),
        ("detect_regressions", "open_alerts", "publish_report", "publish_alerts"),
        ("collect_results", "compare", "publish_report"),
        ("open_alerts", "announce_regressions"),
        ("plan_jobs", "announce_regressions"),
    )
    assert_order(dag, *lines)
    again = {"rerun_once", "rerun_twice"}
    assert set(dag.task_ids) == set(itertools.chain(*lines)) == CANCELLED.keys() | again, (
        "the matrix of faults cancels it in each task, but for fresh jobs, which are as others"
    )
    for task_id in ("run_benchmark", *again):  # one by one, as jobs use all nodes
        assert dag.get_task(task_id).max_active_tis_per_dagrun == 1


def test_the_file_system_stays_for_fresh_jobs_and_goes_whatever_becomes_of_the_run(dag):
    up, down = dag.get_task(STAND_UP), dag.get_task(COLLAPSE)
    assert (up.is_setup, type(up)) == (True, StandUpFileSystem)
    assert (down.is_teardown, type(down)) == (True, CollapseFileSystem)
    assert down.on_failure_fail_dagrun
    assert COLLAPSE in up.downstream_task_ids
    assert down.downstream_task_ids == set()
    a_try = down.retry_delay + timedelta(seconds=COLLAPSE_SECONDS)
    assert down.retries * a_try > timedelta(hours=9)
    assert up.retries == 0, "one that failed has removed what it made"
    above = down.get_flat_relative_ids(upstream=True)
    assert {"run_benchmark", "rerun_once", "rerun_twice", "detect_regressions"} <= above
    assert not {"publish_report", "publish_alerts", "open_alerts"} & above


def test_the_forms_defaults_can_be_planned(dag):
    params = {name: dag.params.get_param(name).resolve() for name in dag.params}
    nodes = stack()
    config = nodes.joined_to(configured())
    jobs = plan_scaling(nodes, config, parse_options(ScalingRun, params), run_name="run")
    assert [job.nodes for job in jobs] == [1, 2, 4, 8, 16, 20]
    assert jobs[0].scaling.data == ("synthetic", "files")
    assert jobs[-1].scaling.batches == (64,), "160 devices can't share 512 images equally"
    assert jobs[-1].scaling.settings.learning_rate == 0.1 * 160 * 64 / 256
