"""DAGs with an order, a clean-up or a form of their own."""

import itertools
import json
import re
from datetime import timedelta

import pytest

from batchmark.core.clusters.multi_node import COLLAPSE_SECONDS
from batchmark.core.own_jobs import ComparisonRun, OwnJobRun
from batchmark.orchestration.operators.file_system_operators import (
    CollapseFileSystem,
    StandUpFileSystem,
)
from batchmark.orchestration.pods.pods_operator import PodsOperator
from batchmark.orchestration.tasks.pods import START_SECONDS
from batchmark.runs.own_jobs.sides import Side, parse_sides
from batchmark.runs.plans.options import parse_options
from batchmark.runs.plans.own_job_plan import plan_comparison, plan_own_jobs
from batchmark.runs.plans.pod_plan import TRIES
from batchmark.runs.plans.scaling_plan import plan_scaling
from batchmark_job.result.scaling_options import ScalingRun
from tests.builders.existing_jobs import found, own_jobs
from tests.builders.installations import configured
from tests.builders.scaling import stack
from tests.faults.catalogue.layers import CANCELLED
from tests.paths import DOCS, ROOT
from tests.unit.repository.test_dag_integrity import assert_order

STAND_UP, COLLAPSE = "stand_up_file_system", "collapse_file_system"
OWN, COMPARISON = "own_job_benchmark", "job_comparison"
PAGE = (ROOT / "docs" / "dags.md").read_text()


@pytest.fixture
def of_pods(dag_bag):
    return dag_bag.dags["eks_gpu_sharing_benchmark"]


@pytest.fixture
def of_nodes(dag_bag):
    return dag_bag.dags["distributed_training_benchmark"]


def test_pods_run_in_order_and_the_docs_name_the_tasks(of_pods):
    dag = of_pods
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


def test_the_node_ends_whatever_becomes_of_the_run(of_pods):
    start, end = of_pods.get_task("start_node"), of_pods.get_task("end_node")
    assert start.is_setup
    assert end.is_teardown
    assert end.on_failure_fail_dagrun
    assert "end_node" in start.downstream_task_ids
    # While its node group grows, EKS refuses to shrink it: longer than wait_for_node waits.
    assert end.retries * end.retry_delay > timedelta(seconds=START_SECONDS)
    assert end.downstream_task_ids == set()


def test_several_nodes_train_in_order(of_nodes):
    dag = of_nodes
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


def test_the_file_system_stays_for_fresh_jobs_and_goes_whatever_becomes_of_the_run(of_nodes):
    up, down = of_nodes.get_task(STAND_UP), of_nodes.get_task(COLLAPSE)
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


def test_the_defaults_for_several_nodes_can_be_planned(of_nodes):
    params = {name: of_nodes.params.get_param(name).resolve() for name in of_nodes.params}
    nodes = stack()
    config = nodes.joined_to(configured())
    jobs = plan_scaling(nodes, config, parse_options(ScalingRun, params), run_name="run")
    assert [job.nodes for job in jobs] == [1, 2, 4, 8, 16, 20]
    assert jobs[0].scaling.data == ("synthetic", "files")
    assert jobs[-1].scaling.batches == (64,), "160 devices can't share 512 images equally"
    assert jobs[-1].scaling.settings.learning_rate == 0.1 * 160 * 64 / 256


def test_the_defaults_run_an_own_job_on_all_its_targets_and_sizes(dag_bag):
    params, names = dag_bag.dags[OWN].params, ("sizes", "targets", "repeats", "deadline_seconds")
    filled_in = {name: params.get_param(name).resolve() for name in names}
    wanted = parse_options(OwnJobRun, {**filled_in, "job": "thumbnails"})
    jobs = plan_own_jobs(configured(), own_jobs(), wanted, run_name="run")
    assert len(jobs) == 2 + 2 * 2 * 6


def test_the_example_in_the_docs_is_taken_by_the_form_and_can_be_planned(dag_bag):
    (text,) = re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)
    conf = json.loads(text)
    for name, value in conf.items():
        dag_bag.dags[COMPARISON].params.get_param(name).resolve(value)
    sides = {side.name: found(side.name, side=side) for side in parse_sides(conf["sides"])}
    config = configured().model_copy(
        update={"targets": {name: side.target for name, side in sides.items()}}
    )
    wanted = parse_options(ComparisonRun, conf)
    assert len(plan_comparison(config, sides, wanted, run_name="run")) == 1 + 3 * 3 * 6


def test_form_and_docs_have_each_field_of_a_side_and_who_runs_what_by_them(dag_bag):
    table = PAGE[PAGE.index("| field | |") : PAGE.index("Several sides may share")]
    listed = [
        name
        for row in table.splitlines()
        for name in re.findall(r"`(\w+)`", row[: row.find("|", 1)])
    ]
    assert set(listed) == set(Side.model_fields)
    described = dag_bag.dags[COMPARISON].params.get_param("sides").description
    assert [name for name in Side.model_fields if name not in described] == []
    for text in (described, dag_bag.dags[COMPARISON].doc_md, PAGE):
        assert re.search(r"[Ww]ho may start .*any\s+command", text)
    assert "DAG Run:job_comparison" in PAGE
