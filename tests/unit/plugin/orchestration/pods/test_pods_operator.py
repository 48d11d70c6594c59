"""Jobs whose pods share GPUs: from Airflow's credentials and the operator to the cluster's API."""

from __future__ import annotations

import os
import sys
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace

import boto3
import pytest
from airflow.sdk.exceptions import AirflowFailException

from batchmark.core.errors import ClusterError
from batchmark.orchestration.pods import cluster_api, pods_operator, pods_watch
from batchmark.orchestration.pods.cluster_api import ClusterApi, kubeconfig, kubernetes_hook
from batchmark.orchestration.pods.pods_operator import PodsOperator
from batchmark.orchestration.xcom import FAILURE_XCOM, PODS_XCOM
from batchmark.runs.pod_collecting import EndedPods
from tests.builders.clusters import RUN_ID, applied, planned, published
from tests.builders.installations import configured
from tests.stand_ins.bucket import MemoryBucket
from tests.stand_ins.eks_account import EksAccount
from tests.stand_ins.kubernetes_api.access import Access
from tests.stand_ins.kubernetes_api.api import serving
from tests.stand_ins.kubernetes_api.clients import CLUSTER, GROUPS, KEY, connected, reaching, token
from tests.stand_ins.kubernetes_api.containers import Containers
from tests.stand_ins.moto_account import moto_account


class Task:
    """A task instance on a worker, with a cluster that it reaches."""

    def __init__(self, cluster, job, **arguments):
        self.cluster = cluster
        self.operator = PodsOperator(
            task_id="run_pods", planned=job.model_dump(mode="json"), **arguments
        )
        self.xcoms = {}
        self.context = {
            "run_id": RUN_ID,
            "ti": SimpleNamespace(
                try_number=1, xcom_push=lambda key, value: self.xcoms.update({key: value})
            ),
        }

    def run(self):
        self.operator.execute(self.context)
        self.check_that_nothing_is_left()
        return EndedPods.model_validate(self.xcoms[PODS_XCOM])

    def fail(self):
        with pytest.raises(AirflowFailException):
            self.operator.execute(self.context)
        self.check_that_nothing_is_left()
        return self.xcoms[FAILURE_XCOM]

    def check_that_nothing_is_left(self):
        assert (self.cluster.jobs, self.cluster.pods) == ({}, {})


@pytest.fixture
def bucket(monkeypatch):
    found = MemoryBucket(configured().bucket, configured().region)
    monkeypatch.setattr(boto3, "client", lambda *_, **__: found)
    return found


@pytest.fixture
def task(monkeypatch, tmp_path, bucket):
    """Makes tasks whose waiting takes no time, on a clock of their own."""
    time = SimpleNamespace(now=0.0)
    for module in (cluster_api, pods_watch):
        monkeypatch.setattr(module, "POLL_SECONDS", 30)
    monkeypatch.setattr(pods_operator, "load_config", configured)

    def task(cluster, job, *, told=None, **arguments):
        url = servers.enter_context(serving(cluster, Access(CLUSTER, GROUPS)))

        def sleep(seconds):
            time.now += seconds
            for name in cluster.jobs:
                cluster.let_time_pass(name, seconds)

        def api(cluster, client):
            return cluster_api.ClusterApi(cluster, client, lambda: time.now, sleep)

        monkeypatch.setattr(pods_operator, "kubeconfig", reaching(url, tmp_path / "config"))
        monkeypatch.setattr(pods_operator, "ClusterApi", api)
        monkeypatch.setattr(pods_operator, "load_cluster", lambda: told or published())
        return Task(cluster, job, **arguments)

    with ExitStack() as servers:
        yield task


def test_the_fifth_pod_waits_until_the_four_gpus_are_shared_and_four_share_none(task, capsys):
    cluster = applied(Containers(ticks=30, replicas=5))
    ended = task(cluster, planned()[0], begins_exclusive=True).run()
    assert ended.failure is None
    assert ended.started_at <= ended.stopped_at
    assert ended.node.startswith("ip-10-7-0-")
    said = capsys.readouterr().out
    steps = (
        "offers 4 nvidia.com/gpu (exclusive)",
        "1 Pending, 4 Running",
        "1 of 5 pods can't start.",
        "0/1 nodes are available: 1 Insufficient nvidia.com/gpu.",
        "share the GPUs: time-slicing would allow 40",
        "offers 40 nvidia.com/gpu (time_slicing)",
        ": 5 Running",
    )
    places = [said.index(step) for step in steps]
    assert places == sorted(places)
    cluster = applied(Containers(replicas=4))
    assert task(cluster, planned(waiting=4)[0], begins_exclusive=True).run().failure is None
    assert "time_slicing" not in capsys.readouterr().out.partition("Pods of")[2]
    assert cluster.offer.devices == 4


def test_pods_that_wait_for_ever_are_explained_and_ended_as_is_a_job_by_its_own_limit(task):
    cluster = applied(Containers(replicas=20), replicas_per_gpu=4)
    shared = planned(replicas_per_gpu=5)[1]
    failure = task(cluster, shared, told=published(replicas_per_gpu=4)).fail()
    assert "4 of 20 pods can't start." in failure
    assert "16 of the pods hold 16 nvidia.com/gpu." in failure
    assert "Remedy: request 16 pods, or increase the stack's replicas_per_gpu" in failure
    cluster = applied(Containers(ticks=10**6))
    failure = task(cluster, planned()[1], told=published(timeout_seconds=300)).fail()
    assert "DeadlineExceeded, Job was active longer than specified deadline" in failure


def test_sharing_that_can_not_be_switched_on_is_told_and_the_job_counts(task, bucket):
    cluster = applied(Containers(replicas=5))
    (settings,) = cluster.of("ConfigMap")
    del settings["data"]["time_slicing.yaml"]
    made = task(cluster, planned()[0], begins_exclusive=True)
    failure = made.fail()
    wrong = "in mode time_slicing, the node still offers 0 nvidia.com/gpu instead of 40 after 300 s"
    for text in (wrong, "kubectl -n kube-system logs daemonset/nvidia-device-plugin", "apply"):
        assert text in failure
    ended = EndedPods.model_validate(made.xcoms[PODS_XCOM])
    assert ended.failure == failure
    assert ended.started_at is not None
    assert bucket.objects[ended.log_key] == b"replica 0\n"


def test_a_failed_replica_is_named_with_its_log(task):
    containers = Containers(replicas=20)
    containers.exit_codes[7] = 3
    containers.logs[7] = "out of memory\n"
    cluster = applied(containers)
    failure = task(cluster, planned(20)[1]).fail()
    assert "BackoffLimitExceeded" in failure
    assert "1 pod failed: exit code 3, Error" in failure
    assert failure.endswith("out of memory")


def test_a_request_of_two_shares_is_refused_and_said(task, monkeypatch):
    manifest = pods_operator.job_manifest

    def greedy(*arguments, **named):
        found = manifest(*arguments, **named)
        (container,) = found["spec"]["template"]["spec"]["containers"]
        for kind in ("requests", "limits"):
            container["resources"][kind]["nvidia.com/gpu"] = "2"
        return found

    monkeypatch.setattr(pods_operator, "job_manifest", greedy)
    failure = task(applied(), planned(20)[1]).fail()
    assert "UnexpectedAdmissionError" in failure
    assert "request for 'nvidia.com/gpu: 2' too large" in failure
    assert "a shared GPU is requested as 1" in failure


def without(kind):
    """Takes an object of that kind out of a cluster."""
    return lambda cluster: cluster.objects.remove(cluster.of(kind)[0])


@pytest.mark.parametrize(
    ("break_it", "problem", "remedy"),
    [
        (lambda cluster: cluster.images.clear(), "ImagePullBackOff", "Remedy: push 1111"),
        (lambda cluster: cluster.folders.clear(), "is not a directory", "Remedy: end the node"),
        (without("ServiceAccount"), "only 0 pods were created", "create the service account bench"),
        (without("DaemonSet"), "no nvidia-device-plugin that Airflow may change", "kubectl apply"),
    ],
)
def test_what_keeps_pods_from_starting(task, break_it, problem, remedy):
    cluster = applied()
    break_it(cluster)
    failure = task(cluster, planned(20)[1]).fail()
    assert problem in failure
    assert remedy in failure


def test_what_a_lost_worker_or_a_cancelled_task_left_is_removed(task, monkeypatch):
    cluster = applied()
    first = task(cluster, planned(20)[1])
    left = pods_operator.job_manifest(published(), RUN_ID, planned(20)[1], name="left-over")
    cluster.create_job("gpu-demo", left)
    cluster.tick()
    assert len(cluster.pods) == 20
    assert first.run().failure is None
    cluster = applied(Containers(ticks=10**6))
    made = task(cluster, planned(20)[1])

    def kill(watch):
        made.operator.on_kill()
        raise KeyboardInterrupt

    monkeypatch.setattr(pods_watch.PodsWatch, "run", kill)
    with pytest.raises(KeyboardInterrupt):
        made.operator.execute(made.context)
    made.check_that_nothing_is_left()


@pytest.fixture
def account(monkeypatch):
    """An account with the cluster, whose address is that of the stand-in."""
    cluster = applied()
    with moto_account(), serving(cluster, Access(CLUSTER, GROUPS)) as url:
        EksAccount(url)
        for name, value in {
            "AWS_ACCESS_KEY_ID": KEY,
            "AWS_SECRET_ACCESS_KEY": "secret",
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "PYTHONPATH": os.pathsep.join(filter(None, map(os.path.abspath, sys.path))),
        }.items():
            monkeypatch.setenv(name, value)
        monkeypatch.delenv("AWS_SESSION_TOKEN", raising=False)
        yield cluster


def test_airflows_own_credentials_of_that_moment_open_the_cluster(account, monkeypatch, tmp_path):
    # As those of a role, which whoever gives them renews in a file or at an address.
    keys = tmp_path / "credentials"
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(keys))
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)

    def renew(key):
        keys.write_text(f"[default]\naws_access_key_id = {key}\naws_secret_access_key = s\n")

    renew("AKIAEXPIRED")
    with kubeconfig(published()) as path:
        assert "AKIAEXPIRED" not in Path(path).read_text()
        renew(KEY)
        (node,) = ClusterApi(published(), kubernetes_hook(path).api_client).nodes()
        assert node["metadata"]["labels"] == {"eks-node": "gpu"}
    assert not Path(path).exists()


@pytest.fixture
def api():
    cluster = applied()
    with connected(cluster) as client:
        yield cluster, ClusterApi(published(), client, iter(range(10**6)).__next__, lambda _: None)


def test_gpus_are_offered_whole_and_in_shares_and_a_mode_that_is_set_starts_nothing_anew(api):
    cluster, found = api
    generations = []
    for shared, offered in ((False, "4"), (True, "40"), (True, "40"), (False, "4")):
        found.offer_gpus(shared=shared)
        assert cluster.nodes[0]["status"]["allocatable"]["nvidia.com/gpu"] == offered
        generations.append(cluster.daemon_set("nvidia-device-plugin")["metadata"]["generation"])
    assert generations[1] == generations[2]
    cluster.nodes[0]["status"]["conditions"][0]["status"] = "Unknown"
    assert found.nodes() == [], "none is ready"


@pytest.mark.parametrize("call", [ClusterApi.nodes, ClusterApi.remove_jobs])
def test_a_cluster_without_the_manifests_is_told_with_what_to_do(api, call):
    cluster, found = api
    cluster.objects.clear()
    with pytest.raises(ClusterError, match=r"\(403 .*kubectl apply"):
        call(found)


def test_a_role_without_an_access_entry_is_told_and_a_cluster_that_is_gone_gives_no_log():
    refused = pytest.raises(ClusterError, match=r"\(401 .*in airflow_role_arns")
    with connected(applied(), bearer=token(key="AKIAUNKNOWN")) as client, refused:
        ClusterApi(published(), client).nodes()
    with connected(applied()) as client:
        found = ClusterApi(published(), client)
    assert found.log({"metadata": {"name": "p-0"}}).startswith("(the log of p-0 could not be read")
