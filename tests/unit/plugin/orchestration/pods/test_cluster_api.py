"""From Airflow's AWS credentials to a cluster's API: EKS's address, a signed token, our calls."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from batchmark.core.errors import ClusterError
from batchmark.orchestration.pods.cluster_api import ClusterApi, kubeconfig, kubernetes_hook
from tests.builders.clusters import applied, published
from tests.stand_ins.eks_account import EksAccount
from tests.stand_ins.kubernetes_api.access import Access
from tests.stand_ins.kubernetes_api.api import serving
from tests.stand_ins.kubernetes_api.clients import CLUSTER, GROUPS, KEY, connected, token
from tests.stand_ins.moto_account import moto_account


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
    with kubeconfig(published()) as path:
        api = ClusterApi(published(), kubernetes_hook(path).api_client, sleep=lambda _: None)
        (node,) = api.nodes()
        assert node["metadata"]["labels"] == {"eks-node": "gpu"}
    assert not Path(path).exists()
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
        assert ClusterApi(published(), kubernetes_hook(path).api_client).nodes()


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
