"""The plan and the check of distributed_training_benchmark."""

from types import SimpleNamespace

import pytest
from airflow.sdk.exceptions import AirflowFailException

from batchmark.aws.result_bucket import PLAN_HTML, RunStore
from batchmark.orchestration.forms import option_params
from batchmark.orchestration.tasks import alerts, approval, budget, environment, scaling
from batchmark.runs.spending import month_spending
from batchmark_job.result.scaling_options import ScalingRun
from tests.builders.installations import configured
from tests.builders.runs import PRICES
from tests.builders.scaling import RUN_ID, stack
from tests.stand_ins.bucket import MemoryBucket

NODES = stack()


@pytest.fixture
def run(monkeypatch):
    """Plan a run with changes to the form's defaults, of one node and two."""
    config = configured()
    store = RunStore(MemoryBucket(config.bucket, config.region), config.bucket, RUN_ID)
    prices = PRICES.model_copy(update={"on_demand": {NODES.instance_type: 32.7726}})
    current = SimpleNamespace(table=prices, store=lambda _: None)
    monkeypatch.setattr(RunStore, "of", lambda *_: store)
    for module in (approval, scaling):
        monkeypatch.setattr(module, "load_config", lambda: config)
    monkeypatch.setattr(scaling, "load_multi_node", lambda: NODES)
    monkeypatch.setattr(alerts, "check_settings", lambda: None)
    monkeypatch.setattr(budget, "price_clients", lambda _: ())
    monkeypatch.setattr(budget, "current_prices", lambda *_, **__: current)
    monkeypatch.setattr(budget, "page_url", lambda *_: "the page")

    def context(**changes):
        fields = {name: param.resolve() for name, param in option_params(ScalingRun).items()}
        fields |= {"node_counts": [1, 2], "repeats": 1, "max_cost_usd": 300, "dry_run": False}
        return {
            "run_id": RUN_ID,
            "params": fields | changes,
            "ti": SimpleNamespace(
                dag_id="distributed_training_benchmark",
                max_tries=2,
                xcom_push=lambda **_: None,
            ),
            "task": SimpleNamespace(retries=2),
        }

    return SimpleNamespace(context=context, store=store)


def test_each_number_of_nodes_is_a_job_and_the_plan_has_the_file_system(run, capsys):
    found = scaling.plan_jobs(run.context())
    assert [one["node_overrides"]["numNodes"] for one in found] == [1, 2]
    plan = run.store.plan()
    assert plan.file_system == NODES.file_system
    assert plan.compute_environment == NODES.compute_environment
    booked = month_spending(run.store, plan.spending_key)
    assert float(booked.exact_usd) == plan.worst_case.usd == 184.21  # 180.25 + 3.96
    told = capsys.readouterr().out
    assert "2 of 3 nodes in all" in told
    assert "3600 s + 9,000 s" in told
    assert "file system, SCRATCH_2" in told


def test_with_synthetic_images_alone_there_is_no_file_system(run):
    scaling.plan_jobs(run.context(data=["synthetic"]))
    plan = run.store.plan()
    assert (plan.file_system, plan.worst_case.file_system) == (None, None)


def test_numbers_of_nodes_without_strong_scaling_are_told(run, capsys):
    scaling.plan_jobs(run.context(node_counts=[1, 3]))
    assert "3 nodes x 8 devices have no equal share of 512 images" in capsys.readouterr().out


def test_a_dry_run_shows_the_plan_and_submits_nothing(run):
    assert scaling.plan_jobs(run.context(dry_run=True, max_cost_usd=1)) == []
    assert run.store.plan().dry_run
    page = run.store.read(run.store.prefix + PLAN_HTML)
    text = page.decode() if isinstance(page, bytes) else page
    assert "2 of 3 nodes in all" in text
    assert "1,200 GiB" in text
    assert "The run would be refused" in text


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"max_cost_usd": 184.2}, "Nothing was submitted. This run can cost up to"),
        ({"node_counts": [21]}, "the stack has room for 20 nodes"),
        ({"study": [{"lr": 1}]}, "study's object 1 has 'lr'"),
    ],
)
def test_what_can_not_run_is_refused_before_anything_is_booked(run, changes, message):
    with pytest.raises(AirflowFailException, match=message):
        scaling.plan_jobs(run.context(**changes))
    assert run.store.keys("costs/") == []


def test_the_environment_is_checked_for_the_most_nodes(run, monkeypatch):
    asked = []
    monkeypatch.setattr(
        environment,
        "check",
        lambda context, config, targets, *, nodes: asked.append((config.targets, targets, nodes)),
    )
    scaling.check_environment(run.context(node_counts=[4, 16, 1]))
    ((known, targets, nodes),) = asked
    assert (targets, nodes) == ([NODES.target], 16)
    assert known[NODES.target].most_nodes == 20
