"""The stand-in for Kubernetes' API refuses what the real one does."""

import pytest
from kubernetes import client as kubernetes
from kubernetes.client.exceptions import ApiException

from batchmark.runs.plans.pod_plan import job_manifest
from tests.builders.clusters import RUN_ID, applied, planned, published
from tests.stand_ins.kubernetes_api.clients import connected, token
from tests.stand_ins.kubernetes_api.device_plugin import ConfigError, _configured
from tests.stand_ins.kubernetes_api.validation import RefusedError, check_job

NAMESPACE = "gpu-demo"
POD = ("spec", "template", "spec")


@pytest.fixture
def cluster():
    return applied()


@pytest.fixture
def client(cluster):
    with connected(cluster) as found:
        yield found


def manifest():
    return job_manifest(published(), RUN_ID, planned(20)[1], name="sharing-1")


def create(client, namespace=NAMESPACE):
    return kubernetes.BatchV1Api(client).create_namespaced_job(namespace, manifest())


def refused(call, *arguments):
    with pytest.raises(ApiException) as error:
        call(*arguments)
    return error.value.status


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
        ((*POD, "volumes"), [], 422, "Not found"),
    ],
)
def test_a_job_that_the_api_refuses(path, value, code, problem):
    job = place = manifest()
    *parents, last = path
    for part in parents:
        place = place[part]
    place[last] = value
    with pytest.raises(RefusedError, match=problem) as error:
        check_job(job)
    assert error.value.code == code


def test_pods_outlive_their_job_without_a_policy_and_names_are_taken_once(cluster, client):
    create(client)
    assert refused(create, client) == 409
    core = kubernetes.CoreV1Api(client)
    assert len(core.list_namespaced_pod(NAMESPACE).items) == 20
    kubernetes.BatchV1Api(client).delete_namespaced_job("sharing-1", NAMESPACE)
    assert len(core.list_namespaced_pod(NAMESPACE).items) == 20
    cluster.objects.remove(cluster.of("Namespace")[0])
    assert refused(create, client) == 404


def test_what_the_roles_do_not_allow(client):
    core, apps = kubernetes.CoreV1Api(client), kubernetes.AppsV1Api(client)
    assert refused(create, client, "default") == 403
    assert refused(core.list_namespaced_pod, "kube-system") == 403
    assert refused(apps.read_namespaced_daemon_set, "aws-node", "kube-system") == 403
    assert refused(kubernetes.BatchV1Api(client).list_job_for_all_namespaces) == 403


@pytest.mark.parametrize(
    "bearer",
    ["-", "k8s-aws-v1.aGVsbG8", token(key="AKIASOMEBODYELSE0000"), "abc"],
    ids=["none", "no URL", "no access entry", "of another kind"],
)
def test_who_is_not_let_in(cluster, bearer):
    with connected(cluster, bearer) as client:
        assert refused(kubernetes.CoreV1Api(client).list_node) == 401


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("version: v2", "unknown version"),
        ("version: v1\nsharing: {timeSlice: {}}", "timeSlice"),
        ("version: v1\nflags: {migStrategy: all}", "unknown MIG strategy"),
        ("version: v1\nsharing: {timeSlicing: {resources: [{replicas: 1}]}}", "must be >= 2"),
    ],
)
def test_a_configuration_that_ends_the_plugin(text, problem):
    with pytest.raises(ConfigError, match=problem):
        _configured(text, 4)


def test_a_node_that_the_plugin_may_not_run_on_offers_nothing(cluster, client):
    cluster.nodes[0]["spec"]["taints"].append({"key": "x", "value": "y", "effect": "NoSchedule"})
    create(client)
    pods = kubernetes.CoreV1Api(client).list_namespaced_pod(NAMESPACE)
    condition = pods.items[0].status.conditions[0]
    assert "untolerated taint {x: y}" in condition.message
