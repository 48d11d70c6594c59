"""The plan and the check of distributed_training_benchmark."""

from unittest.mock import ANY, Mock

import pytest

from batchmark.orchestration.forms import option_params
from batchmark.orchestration.tasks import environment, scaling
from batchmark.runs.spending import month_spending
from batchmark_job.result.scaling_options import ScalingRun
from tests.builders.installations import configured
from tests.builders.runs import PRICES
from tests.builders.scaling import RUN, RUN_ID, stack
from tests.stand_ins.planning import PlanningAccount, planning_context

NODES = stack()


@pytest.fixture
def store(monkeypatch):
    """An account that has the prices of the nodes."""
    prices = PRICES.model_copy(update={"on_demand": {NODES.instance_type: 32.7726}})
    monkeypatch.setattr(scaling, "load_multi_node", lambda: NODES)
    account = PlanningAccount(monkeypatch, configured(), prices, scaling)
    return account.store(RUN_ID)


def context(**changes):
    """Of a run with changes to the form's defaults, of one node and two."""
    fields = {name: param.resolve() for name, param in option_params(ScalingRun).items()}
    fields |= {"node_counts": [1, 2], "repeats": 1, "max_cost_usd": 300, "dry_run": False}
    return planning_context(RUN_ID, fields | changes, dag_id=RUN.dag_id)


def test_each_number_of_nodes_is_a_job_with_files_unless_images_are_synthetic(store, capsys):
    found = scaling.plan_jobs(context())
    assert [one["node_overrides"]["numNodes"] for one in found] == [1, 2]
    plan = store.plan()
    assert plan.file_system == NODES.file_system
    assert plan.compute_environment == NODES.compute_environment
    booked = month_spending(store, plan.spending_key)
    assert float(booked.exact_usd) == plan.worst_case.usd == 184.21  # 180.25 + 3.96
    told = capsys.readouterr().out
    for text in ("2 of 3 nodes in all", "3600 s + 9,000 s", "file system, SCRATCH_2", "1,200 GiB"):
        assert text in told
    scaling.plan_jobs(context(data=["synthetic"]))
    plan = store.plan()
    assert (plan.file_system, plan.worst_case.file_system) == (None, None)
    scaling.plan_jobs(context(node_counts=[1, 3]))
    odd = "512 images can't be divided equally among 3 nodes x 8 devices"
    assert odd in capsys.readouterr().out


def test_the_environment_is_checked_for_the_most_nodes(store, monkeypatch):
    check = Mock()
    monkeypatch.setattr(environment, "check", check)
    scaling.check_environment(context(node_counts=[4, 16, 1]))
    check.assert_called_once_with(ANY, ANY, [NODES.target], nodes=16)
    assert check.call_args.args[1].targets[NODES.target].most_nodes == 20
