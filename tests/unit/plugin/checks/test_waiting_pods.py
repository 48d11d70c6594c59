"""What is said of pods that do not start, from JSON as Kubernetes has it."""

import pytest

from batchmark.checks.waiting_pods import explain, failures, missing, waiting
from tests.builders.clusters import SINCE, pod, published, unschedulable, waiting_container


def node(gpus):
    allocatable = {"cpu": "48", "nvidia.com/gpu": str(gpus)}
    return {"metadata": {"name": "n"}, "status": {"allocatable": allocatable}}


def said(*pods, nodes=(), events=()):
    return explain(published(), waiting(pods), pods, nodes, events)


def test_what_is_asked_offered_and_done():
    pods = [pod(f"p-{n}", "Running", node="n") for n in range(4)]
    waits = unschedulable("p-4", "0/1 nodes are available: 1 Insufficient nvidia.com/gpu.")
    assert said(*pods, waits, nodes=[node(4)]).splitlines() == [
        "1 of 5 pods can't start.",
        "Each pod requests: 2300m cpu, 1 nvidia.com/gpu.",
        "Node n offers 48 cpu, 0 memory, 4 nvidia.com/gpu; 4 of the pods hold 4 nvidia.com/gpu.",
        "p-4 waiting since 12:00:00 UTC: Unschedulable (0/1 nodes are available: 1 Insufficient "
        "nvidia.com/gpu.)",
        "Remedy: request 4 pods, or share the GPUs: time-slicing would allow 40.",
    ]
    # Of many pods some are named.
    pods = [unschedulable(f"p-{n}", "no nodes available to schedule pods") for n in range(9)]
    text = said(*pods)
    assert text.count("waiting since") == 5
    assert "... and 4 more." in text
    assert "There is no node with GPUs." in text


NO_GPU = unschedulable("p", "1 Insufficient nvidia.com/gpu")


@pytest.mark.parametrize(
    ("waits", "gpus", "remedy"),
    [
        (unschedulable("p", "no nodes available"), None, "check node group gpu of batchmark-gpu-"),
        (NO_GPU, 0, "find out why the device plugin offers no GPU, or apply the manifests"),
        (NO_GPU, 40, "request 40 pods, or increase the stack's replicas_per_gpu"),
        (unschedulable("p", "1 Insufficient cpu"), 4, "ask for fewer pods, or apply"),
        (unschedulable("p", "1 node(s) had untolerated taint {a: b}"), 4, "give the pods the node"),
        (unschedulable("p", "1 node(s) didn't match Pod's node affinity"), 4, "give the"),
        (waiting_container("p", reason="ImagePullBackOff", message="x"), 4, "push 1111222233"),
        (waiting_container("p", reason="CreateContainerError", message="x"), 4, "run `kubectl"),
        (pod("p"), 4, "run `kubectl -n gpu-demo describe pods` for details"),
    ],
)
def test_what_to_do(waits, gpus, remedy):
    nodes = [] if gpus is None else [node(gpus)]
    assert f"Remedy: {remedy}" in said(waits, nodes=nodes)


def test_an_event_tells_what_is_waited_for_and_pods_that_were_never_made_are_missing():
    events = [
        {"involvedObject": {"name": "other"}, "message": "no"},
        {"involvedObject": {"name": "p"}, "message": "hostPath type check failed"},
    ]
    text = said(waiting_container("p", reason="ContainerCreating"), nodes=[node(4)], events=events)
    assert "ContainerCreating (hostPath type check failed)" in text
    assert "end the node, so that a new one has the folder /var/lib/batchmark/sharing" in text
    assert waiting([pod("a", "Running"), pod("b", "Succeeded")]) == []
    job = {"metadata": {"name": "j", "creationTimestamp": SINCE}, "spec": {"completions": 2}}
    assert missing(job, [pod("a"), pod("b")]) is None
    assert missing(job, [pod("a")]).reason == "only 1 pods were created"


def test_equal_failures_are_told_once():
    ended = {"terminated": {"exitCode": 137, "reason": "OOMKilled"}}
    lost = [pod(name, "Failed", containerStatuses=[{"state": ended}]) for name in "ab"]
    evicted = pod("c", "Failed", reason="Evicted", message="low on memory")
    too_large = "maximum request size for shared resources is 1"
    greedy = pod("f", "Failed", reason="UnexpectedAdmissionError", message=too_large)
    assert failures([*lost, evicted, greedy, pod("d", "Failed"), pod("e", "Running")]) == [
        "2 pods failed: exit code 137, OOMKilled",
        "1 pod failed: Evicted: low on memory",
        f"1 pod failed: UnexpectedAdmissionError: {too_large} (a shared GPU is requested as 1 "
        "nvidia.com/gpu; requesting more does not increase the share)",
        "1 pod failed: unknown reason",
    ]
