"""The stand-in for Kubernetes' API refuses what the real one does."""

import base64
import copy

import boto3
import pytest
from kubernetes import client as kubernetes
from kubernetes.client.exceptions import ApiException

from batchmark.runs.plans.pod_plan import job_manifest
from tests.builders.clusters import RUN_ID, applied, planned, published
from tests.stand_ins.kubernetes_api.clients import KEY, REGION, connected, token
from tests.stand_ins.kubernetes_api.device_plugin import ConfigError, Offer, _configured

NAMESPACE = "gpu-demo"


@pytest.fixture
def cluster():
    return applied()


@pytest.fixture
def client(cluster):
    with connected(cluster) as found:
        yield found


def manifest(pods=20):
    return job_manifest(published(), RUN_ID, planned(pods)[1], name="sharing-1")


def refused(call, *arguments, **named):
    with pytest.raises(ApiException) as error:
        call(*arguments, **named)
    return error.value.status, error.value.body


def create(client, job, namespace=NAMESPACE):
    return kubernetes.BatchV1Api(client).create_namespaced_job(namespace, job)


def changed(path, value):
    job = copy.deepcopy(manifest())
    place = job
    *parents, last = path
    for part in parents:
        place = place[part]
    place[last] = value
    return job


POD = ("spec", "template", "spec")
CONTAINER = (*POD, "containers", 0)


@pytest.mark.parametrize(
    ("path", "value", "code", "problem"),
    [
        (("spec", "complettions"), 3, 400, "complettions"),
        (("metadata", "name"), "Sharing_1", 422, "RFC 1123"),
        (("metadata", "name"), "s" * 62, 422, "no more than 63"),
        (("metadata", "labels", "batchmark/run"), "manual__+00:00", 422, "metadata.labels"),
        (("metadata", "labels", "a:b"), "c", 422, "metadata.labels"),
        (("spec", "completions"), None, 422, "Required value: when mode is Indexed"),
        ((*POD, "restartPolicy"), "Always", 422, "Unsupported value"),
        ((*POD, "volumes", 0, "hostPath", "type"), "Folder", 422, "Unsupported value"),
        ((*POD, "volumes"), [], 422, "Not found"),
        ((*CONTAINER, "resources", "limits", "nvidia.com/gpu"), "2", 422, "must be equal to"),
        ((*CONTAINER, "resources", "limits"), {"memory": "1Gi"}, 422, "Limit must be set"),
    ],
)
def test_a_job_that_the_api_refuses(client, path, value, code, problem):
    status, body = refused(create, client, changed(path, value))
    assert status == code
    assert problem in body


def test_half_a_gpu_is_refused(client):
    job = changed((*CONTAINER, "resources", "limits", "nvidia.com/gpu"), "0.5")
    job["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"].pop("nvidia.com/gpu")
    assert refused(create, client, job)[0] == 422


def test_a_name_is_taken_once(client):
    create(client, manifest())
    assert refused(create, client, manifest())[0] == 409


def test_a_missing_namespace_is_missed(cluster, client):
    cluster.objects.remove(cluster.of("Namespace")[0])
    status, body = refused(create, client, manifest())
    assert (status, 'namespaces \\"gpu-demo\\" not found' in body) == (404, True)


def test_without_a_policy_pods_outlive_their_job(cluster, client):
    create(client, manifest())
    core, batch = kubernetes.CoreV1Api(client), kubernetes.BatchV1Api(client)
    assert len(core.list_namespaced_pod(NAMESPACE).items) == 20
    batch.delete_namespaced_job("sharing-1", NAMESPACE)
    assert len(core.list_namespaced_pod(NAMESPACE).items) == 20


@pytest.mark.parametrize(
    "call",
    [
        lambda client: create(client, manifest(), "default"),
        lambda client: kubernetes.CoreV1Api(client).list_namespaced_pod("kube-system"),
        lambda client: kubernetes.AppsV1Api(client).read_namespaced_daemon_set(
            "aws-node", "kube-system"
        ),
        lambda client: kubernetes.BatchV1Api(client).list_job_for_all_namespaces(),
    ],
)
def test_what_the_roles_do_not_allow(client, call):
    assert refused(call, client)[0] == 403


@pytest.mark.parametrize(
    "bearer",
    ["", "k8s-aws-v1.aGVsbG8", token(key="AKIASOMEBODYELSE0000"), "abc"],
    ids=["none", "no URL", "no access entry", "of another kind"],
)
def test_who_is_not_let_in(cluster, bearer):
    with connected(cluster, bearer or "-") as client:
        assert refused(kubernetes.CoreV1Api(client).list_node)[0] == 401


def test_a_request_that_names_no_cluster_is_no_token(cluster):
    sts = boto3.Session(KEY, "secret", region_name=REGION).client("sts")
    signed = sts.generate_presigned_url("get_caller_identity")
    url = base64.urlsafe_b64encode(signed.encode()).decode().rstrip("=")
    with connected(cluster, f"k8s-aws-v1.{url}") as client:
        assert refused(kubernetes.CoreV1Api(client).list_node)[0] == 401


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("version: v2", "unknown version"),
        ("version: v1\nsharing: {timeSlice: {}}", "timeSlice"),
        ("version: v1\nflags: {migStrategy: all}", "unknown MIG strategy"),
        (
            "version: v1\nsharing: {timeSlicing: "
            "{resources: [{name: nvidia.com/gpu, replicas: 1}]}}",
            "must be >= 2",
        ),
    ],
)
def test_a_configuration_that_ends_the_plugin(text, problem):
    with pytest.raises(ConfigError, match=problem):
        _configured(text, 4)


def test_renamed_shares_are_no_gpus():
    text = (
        "version: v1\nsharing: {timeSlicing: {renameByDefault: true, "
        "resources: [{name: nvidia.com/gpu, replicas: 10}]}}"
    )
    assert _configured(text, 4) == Offer(0)


def test_a_node_that_the_plugin_may_not_run_on_offers_nothing(cluster, client):
    cluster.nodes[0]["spec"]["taints"].append({"key": "x", "value": "y", "effect": "NoSchedule"})
    create(client, manifest())
    pods = kubernetes.CoreV1Api(client).list_namespaced_pod(NAMESPACE)
    condition = pods.items[0].status.conditions[0]
    assert "untolerated taint {x: y}" in condition.message
