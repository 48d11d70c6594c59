"""The whole DAG that shares GPUs in EKS, in Airflow's own runner, on a cluster that stands in."""

import os
import sys

import pytest

from tests.e2e.stacks import told_by


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A run, and one whose image nobody has pushed."""
    imported = os.pathsep.join(map(os.path.abspath, filter(None, sys.path)))
    return told_by("tests.e2e.pods_runs", tmp_path_factory.mktemp("airflow"), PYTHONPATH=imported)


def test_a_run_shares_the_gpus_and_leaves_nothing(runs):
    (run, _), said = runs
    assert run["state"] == "success"
    skipped = [task for task, state in run["tasks"].items() if state != "success"]
    assert skipped == ["announce_regressions/-1"]
    assert {"run_pods/0", "run_pods/1", "end_node/-1"} <= set(run["tasks"])
    assert run["left"] == [0, 0, 0]
    assert "1 Pending, 4 Running" in said
    assert "20 Running" in said
    assert "Collected 2 rows of 2 jobs" in said


def test_a_failed_run_says_why_and_leaves_nothing_either(runs):
    (_, run), said = runs
    assert run["state"] == "failed"
    failed = {task for task, state in run["tasks"].items() if state == "failed"}
    assert failed == {"run_pods/0", "run_pods/1", "publish_report/-1", "publish_alerts/-1"}
    assert run["tasks"]["end_node/-1"] == "success"
    assert run["left"] == [0, 0, 0]
    assert "Remedy: push 111122223333.dkr.ecr.us-east-1.amazonaws.com" in said
