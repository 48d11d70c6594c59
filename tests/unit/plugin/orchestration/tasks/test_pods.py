"""The tasks of eks_gpu_sharing_benchmark, one after the other, with an account and a cluster."""

from __future__ import annotations

import json

import pytest
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException
from airflow.sdk.execution_time.context import OutletEventAccessors

from batchmark.aws import node_group
from batchmark.aws.result_bucket import CHANGES_SECTION
from batchmark.changes import suspects
from batchmark.changes.suspects import Suspect
from batchmark.core.errors import AlertError
from batchmark.core.names import slug
from batchmark.history.store import HistoryStore
from batchmark.orchestration import run_history
from batchmark.orchestration.pods import cluster_api, pods_operator, pods_watch
from batchmark.orchestration.pods.pods_operator import PodsOperator
from batchmark.orchestration.tasks import alerts, pods, regressions, run
from tests.builders.clusters import RUN_ID, applied, published
from tests.builders.installations import configured
from tests.builders.runs import PRICES
from tests.stand_ins.eks_account import EksAccount
from tests.stand_ins.failing_calls import failing
from tests.stand_ins.kubernetes_api.access import Access
from tests.stand_ins.kubernetes_api.api import serving
from tests.stand_ins.kubernetes_api.clients import CLUSTER, GROUPS, reaching
from tests.stand_ins.measuring_pods import MeasuringPods
from tests.stand_ins.moto_account import moto_account, moto_client
from tests.stand_ins.planning import PlanningAccount, planning_context

FOLDER = f"runs/{slug(RUN_ID)}"
PRICE = 3.912
TABLE = PRICES.model_copy(update={"on_demand": {"g4dn.12xlarge": PRICE}})


class Account(PlanningAccount):
    """AWS and the cluster: a node is there while the node group's desired size is 1."""

    def __init__(self, monkeypatch):
        readers = (alerts, pods, pods_operator, run, run_history)
        super().__init__(monkeypatch, configured(), TABLE, *readers)
        self.cluster = applied(MeasuringPods(self.put), gpus=0)
        self.eks = EksAccount()
        self.xcoms = {}

    def client(self, name, **named):
        return self.clients[name] if name in self.clients else moto_client(name, **named)

    @property
    def group(self):
        return self.eks.group

    def start_nodes(self):
        if self.group.scaling_config["desiredSize"] and not self.cluster.nodes:
            self.cluster.add_node(4)
        if not self.group.scaling_config["desiredSize"]:
            self.cluster.nodes.clear()

    def context(self, index=None, **params):
        defaults = {
            "task": "cnn_training_step",
            "axes": "batch=32",
            "waiting_replicas": 5,
            "replicas": [20],
            "max_cost_usd": 50,
            "dry_run": False,
        }
        context = planning_context(
            RUN_ID,
            defaults | params,
            dag_id="eks_gpu_sharing_benchmark",
            try_number=1,
            xcom_push=lambda key, value: self.xcoms.update({(key, index): value}),
            xcom_pull=lambda key, map_indexes, **_: [
                self.xcoms.get((key, number)) for number in map_indexes
            ],
            get_task_states=lambda **_: {RUN_ID: {"run_pods": "success"}},
        )
        return context | {"outlet_events": OutletEventAccessors()}


@pytest.fixture
def account(monkeypatch, tmp_path):
    with moto_account():
        found = Account(monkeypatch)
        with serving(found.cluster, Access(CLUSTER, GROUPS)) as url:
            for module in (pods, pods_operator):
                monkeypatch.setattr(module, "load_cluster", published)
            for module in (cluster_api, pods_watch, pods):
                monkeypatch.setattr(module, "POLL_SECONDS", 0.001)
            for module in (cluster_api, pods_operator):
                monkeypatch.setattr(module, "kubeconfig", reaching(url, tmp_path / "kubeconfig"))
            yield found


def run_pods(account, planned):
    for index, job in enumerate(planned):
        operator = PodsOperator(task_id="run_pods", **job, pending_seconds=0.01)
        operator.execute(account.context(index))


def with_node(account):
    """A run that is planned, and whose node is there; its jobs."""
    planned = pods.plan_pods(account.context())
    pods.start_node(account.context())
    account.start_nodes()
    return planned


def test_a_whole_run(account, capsys):
    planned = pods.plan_pods(account.context())
    assert [job["planned"]["sharing"]["replicas"] for job in planned] == [[5], [20]]
    assert [job["begins_exclusive"] for job in planned] == [True, False]

    pods.start_node(account.context())
    assert account.group.scaling_config["desiredSize"] == 1
    assert account.group.tags["batchmark:run-id"] == RUN_ID
    account.start_nodes()
    pods.wait_for_node(account.context())
    run_pods(account, planned)
    pods.end_node()
    assert account.group.scaling_config["desiredSize"] == 0
    assert "batchmark:run-id" not in account.group.tags
    assert (account.cluster.jobs, account.cluster.pods) == ({}, {})

    collected = pods.collect_results(account.context(), "run_pods")
    comparison = run.compare(account.context(), collected)
    report = run.publish_report(account.context(), comparison)
    assert account.s3.objects[report]
    rows = HistoryStore(account.s3, "results").read(["target", "suite", "parameters"])
    assert rows.num_rows == 2
    assert set(rows["target"].to_pylist()) == {"g4dn.12xlarge-eks"}
    said = capsys.readouterr().out
    assert "1 Pending, 4 Running" in said
    assert "20 Running" in said
    assert "Collected 2 rows of 2 jobs and added them to the history." in said
    # What was collected once is not taken with another content, however often.
    raw = next(key for key in account.s3.objects if key.startswith("raw/"))
    account.s3.objects[raw] += b" "
    for _ in range(2):
        again = pods.collect_results(account.context(), "run_pods")
        (lost,) = json.loads(account.s3.objects[again])["lost"]
        assert f"{raw} was replaced: its SHA-256 is " in lost["reason"]


def test_its_figures_are_watched_but_not_measured_again(account, monkeypatch, capsys):
    planned = with_node(account)
    run_pods(account, planned)
    collected = pods.collect_results(account.context(), "run_pods")

    def slow(histories, *_):
        series = histories[0].key
        return [Suspect(series=series, run_id=RUN_ID, kind="run", expected=1.0, seconds=2.0)]

    monkeypatch.setattr(suspects, "suspects_among", slow)
    assert regressions.find_suspects(account.context(), collected) == []
    assert "again: the node for its pods no longer exists by then" in capsys.readouterr().out
    changes = regressions.detect_regressions(account.context(), collected)
    assert alerts.open_alerts(account.context(), changes) == [], "it is the first run"
    section = account.s3.objects[f"{FOLDER}/{CHANGES_SECTION}"].decode()
    assert "the node for its pods no longer exists by then" in section


def test_a_dry_run_or_one_whose_alerts_could_not_be_sent_starts_nothing(account, monkeypatch):
    assert pods.plan_pods(account.context(dry_run=True)) == []
    with pytest.raises(AirflowSkipException):
        pods.start_node(account.context())
    assert account.group.scaling_config["desiredSize"] == 0
    with pytest.raises(AirflowSkipException):
        pods.collect_results(account.context(), "run_pods")
    account.s3.objects.clear()
    monkeypatch.setattr(alerts, "check_settings", failing(AlertError("no such channel")))
    with pytest.raises(AirflowFailException, match="no such channel"):
        pods.plan_pods(account.context())
    assert not account.s3.objects, "nothing is booked"


@pytest.mark.parametrize("is_ended", [True, False])
def test_a_node_whose_start_did_not_end_well_is_not_left(account, monkeypatch, capsys, is_ended):
    """EKS gets the call, but its answer never comes; then it may refuse another."""
    resize = node_group._resize

    def lost(eks, cluster, size):
        if size == 0 and not is_ended:
            eks.describe_nodegroup(clusterName=cluster.cluster, nodegroupName="none")
        resize(eks, cluster, size)
        if size == 1:
            raise KeyboardInterrupt

    monkeypatch.setattr(node_group, "_resize", lost)
    pods.plan_pods(account.context())
    with pytest.raises(KeyboardInterrupt):
        pods.start_node(account.context())
    assert account.group.scaling_config["desiredSize"] == (0 if is_ended else 1)
    assert ("could not be ended" in capsys.readouterr().out) is not is_ended


def test_no_node_is_asked_for_before_the_manifests_are_applied(account):
    account.cluster.objects.clear()
    pods.plan_pods(account.context())
    with pytest.raises(AirflowFailException, match="kubectl apply"):
        pods.start_node(account.context())
    assert account.group.scaling_config["desiredSize"] == 0
    assert "batchmark:run-id" not in account.group.tags


def test_a_node_that_never_comes_is_told_in_the_words_of_eks(account, monkeypatch):
    monkeypatch.setattr(pods, "START_SECONDS", 0)
    pods.plan_pods(account.context())
    pods.start_node(account.context())
    issue = {"code": "AsgInstanceLaunchFailures", "message": "You have requested more vCPUs"}
    account.group.health = {"issues": [issue | {"resourceIds": ["asg"]}]}
    with pytest.raises(AirflowFailException, match=": ".join(issue.values())):
        pods.wait_for_node(account.context())


def test_a_failed_job_is_lost_and_the_others_count(account):
    planned = with_node(account)
    nothing = json.loads(account.s3.objects[pods.collect_results(account.context(), "run_pods")])
    assert nothing["jobs"] == []
    reason = "its job did not end; see the log of its run_pods task"
    assert {one["reason"] for one in nothing["lost"]} == {reason}
    run_pods(account, planned[:1])
    account.cluster.images.clear()
    operator = PodsOperator(task_id="run_pods", **planned[1], pending_seconds=0)
    with pytest.raises(AirflowFailException, match="ImagePullBackOff"):
        operator.execute(account.context(1))
    collected = pods.collect_results(account.context(), "run_pods")
    found = json.loads(account.s3.objects[collected])
    assert [job["planned"]["sharing"]["replicas"] for job in found["jobs"]] == [[5]]
    (lost,) = found["lost"]
    assert "ImagePullBackOff" in lost["reason"]
    with pytest.raises(AirflowFailException, match="job\\(s\\) failed"):
        run.publish_report(account.context(), run.compare(account.context(), collected))
