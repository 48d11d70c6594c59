"""The EKS stack's manifests: valid for the pinned version, with no more rights than are used."""

import re

import kubernetes_validate
import pytest

from batchmark.orchestration.pods.cluster_api import DEVICE_PLUGIN, ITS_NAMESPACE
from batchmark.runs.plans.pod_plan import job_manifest
from tests.builders.clusters import RUN_ID, planned, published
from tests.builders.manifests import FOLDER, manifests, rendered
from tests.stand_ins.kubernetes_api.device_plugin import Offer, offer
from tests.stand_ins.kubernetes_api.validation import VERSION

STACK = FOLDER.parent


def of(kind):
    return [one for one in manifests() if one["kind"] == kind]


def test_the_version_is_the_stacks_own():
    variables = (STACK / "variables.tf").read_text()
    block = variables[variables.index('variable "kubernetes_version"') :]
    assert re.search(r'default += "([\d.]+)"', block)[1] == VERSION


@pytest.mark.parametrize("manifest", manifests(), ids=lambda one: one["kind"])
def test_a_manifest_is_valid(manifest):
    kubernetes_validate.validate(manifest, VERSION, strict=True)


def test_templates_hold_nothing_that_only_terraform_renders():
    for path in FOLDER.iterdir():
        text = path.read_text()
        assert "%{" not in text
        assert set(re.findall(r"\$\{([^}]*)\}", text)) == set(re.findall(r"\$\{(\w+)\}", text))
    assert "$" not in rendered()


def test_one_device_plugin_and_the_pods_are_on_the_nodes_with_gpus():
    (daemon_set,) = of("DaemonSet")
    assert daemon_set["metadata"] == {"name": DEVICE_PLUGIN, "namespace": ITS_NAMESPACE}
    plugin = daemon_set["spec"]["template"]["spec"]
    pod = job_manifest(published(), RUN_ID, planned()[0], name="n")["spec"]["template"]["spec"]
    with_gpus = {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}
    for each in (plugin, pod):
        assert each["nodeSelector"] == {"eks-node": "gpu"}
        assert each["tolerations"] == [with_gpus]
    (account,) = of("ServiceAccount")
    assert pod["serviceAccountName"] == account["metadata"]["name"]
    (container,) = plugin["containers"]
    assert container["name"] == DEVICE_PLUGIN
    assert "k8s-device-plugin:v0.20.0@sha256:" in container["image"]


@pytest.mark.parametrize(
    ("mode", "replicas", "offered"),
    [
        ("exclusive", 10, Offer(4)),
        ("time_slicing", 10, Offer(40, is_shared=True, refuses_more_than_one=True)),
        ("time_slicing", 48, Offer(192, is_shared=True, refuses_more_than_one=True)),
    ],
)
def test_what_the_plugin_offers_of_four_gpus(mode, replicas, offered):
    found = manifests(replicas_per_gpu=replicas)
    (daemon_set,) = (one for one in found if one["kind"] == "DaemonSet")
    (container,) = daemon_set["spec"]["template"]["spec"]["containers"]
    container["env"][0]["value"] = f"/config/{mode}.yaml"
    maps = [one for one in found if one["kind"] == "ConfigMap"]
    assert offer(daemon_set, maps, 4) == offered
    assert offered.refusal(1) is None
    refused = "maximum request size for shared resources is 1"
    assert (refused in (offered.refusal(2) or "")) is offered.is_shared


def test_airflow_may_no_more_than_it_does():
    rights = {
        (one["kind"], one["metadata"].get("namespace")): {
            (resource, verb)
            for rule in one["rules"]
            for resource in rule["resources"]
            for verb in rule["verbs"]
        }
        for one in of("Role") + of("ClusterRole")
    }
    assert rights == {
        ("Role", "gpu-demo"): {
            *(("jobs", verb) for verb in ("create", "get", "list", "delete")),
            ("pods", "list"),
            ("events", "list"),
            ("pods/log", "get"),
        },
        ("Role", "kube-system"): {("daemonsets", "get"), ("daemonsets", "patch")},
        ("ClusterRole", None): {("nodes", "list")},
    }
