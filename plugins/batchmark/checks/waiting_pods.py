"""Explains why a Kubernetes job's pods aren't starting or have failed, and what to do about it.

Pods, nodes and events are JSON objects as in the Kubernetes API.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from batchmark.core import formatting
from batchmark.core.clusters.cluster import GPU, NODE_LABEL, Cluster
from batchmark.core.output import in_lines

Object = Mapping[str, Any]

MOST_NAMED = 5  # judgment: most wait for the same reason
ALIVE = ("Pending", "Running")
MANIFESTS = (
    "apply the manifests: `terraform -chdir=terraform/stacks/eks_gpu_sharing output -raw manifests "
    "| kubectl apply -f -`"
)


class Waiting(NamedTuple):
    """A pod that hasn't started or a job that lacks pods, with its creation time and the reason."""

    name: str
    since: datetime
    reason: str
    message: str

    @property
    def is_starting(self) -> bool:
        """Whether the pod is starting on its node, which takes minutes if it pulls the image."""
        return self.reason == "ContainerCreating"


def waiting(pods: Iterable[Object]) -> list[Waiting]:
    """List pods that are waiting for a node or for their container to start."""
    return [_waiting(pod) for pod in pods if pod["status"].get("phase") == "Pending"]


def _waiting(pod: Object) -> Waiting:
    name, status = pod["metadata"]["name"], pod["status"]
    since = datetime.fromisoformat(pod["metadata"]["creationTimestamp"])
    for condition in status.get("conditions", ()):
        if condition["type"] == "PodScheduled" and condition["status"] == "False":
            return Waiting(name, since, condition["reason"], condition.get("message", ""))
    for container in status.get("containerStatuses", ()):
        if state := container.get("state", {}).get("waiting"):
            return Waiting(name, since, state.get("reason", ""), state.get("message", ""))
    return Waiting(name, since, "", "it has not been scheduled yet")


def missing(job: Object, pods: Sequence[Object]) -> Waiting | None:
    """Report that fewer pods were created than the job needs; return None if all were created."""
    if len(pods) >= job["spec"]["completions"]:
        return None
    since = datetime.fromisoformat(job["metadata"]["creationTimestamp"])
    return Waiting(job["metadata"]["name"], since, f"only {len(pods)} pods were created", "")


def explain(
    cluster: Cluster,
    waiting: Sequence[Waiting],
    pods: Sequence[Object],
    nodes: Sequence[Object],
    events: Sequence[Object] = (),
) -> str:
    """Describe the waiting pods and their requests, what the nodes offer, and the remedy."""
    asked = _asked(pods[0]) if pods else {}
    told = [one._replace(message=one.message or _last_event(one.name, events)) for one in waiting]
    lines = [
        f"{len(waiting)} of {max(len(pods), len(waiting))} pods can't start.",
        f"Each pod requests: {_listed(asked)}.",
        *(_offer(node, pods) for node in nodes),
        *([] if nodes else ["There is no node with GPUs."]),
    ]
    for one in told[:MOST_NAMED]:
        said = one.message or "no reason given"
        lines.append(f"{one.name} waiting since {one.since:%H:%M:%S %Z}: {one.reason} ({said})")
    if len(waiting) > MOST_NAMED:
        lines.append(f"... and {len(waiting) - MOST_NAMED} more.")
    return in_lines([*lines, f"Remedy: {_remedy(cluster, told, nodes)}."])


def _asked(pod: Object) -> dict[str, str]:
    return dict(pod["spec"]["containers"][0]["resources"].get("requests", {}))


def _listed(resources: Mapping[str, object]) -> str:
    return ", ".join(f"{amount} {name}" for name, amount in sorted(resources.items())) or "nothing"


def _offer(node: Object, pods: Iterable[Object]) -> str:
    name, offered = node["metadata"]["name"], node["status"].get("allocatable", {})
    on_it = [
        pod
        for pod in pods
        if pod["spec"].get("nodeName") == name and pod["status"].get("phase") in ALIVE
    ]
    taken = sum(int(_asked(pod).get(GPU, 0)) for pod in on_it)
    shown = {key: offered.get(key, "0") for key in ("cpu", "memory", GPU)}
    return f"Node {name} offers {_listed(shown)}; {len(on_it)} of the pods hold {taken} {GPU}."


def _last_event(name: str, events: Iterable[Object]) -> str:
    of_pod = [one for one in events if one["involvedObject"].get("name") == name]
    return of_pod[-1].get("message", "") if of_pod else ""


def _remedy(cluster: Cluster, waiting: Sequence[Waiting], nodes: Sequence[Object]) -> str:
    said = " ".join(f"{one.reason} {one.message}" for one in waiting)
    remedies = {
        f"Insufficient {GPU}": _more_gpus(cluster, nodes),
        "Insufficient": "ask for fewer pods, or apply the stack with a larger instance_type",
        "taint": f"give the pods the node selector {NODE_LABEL} and tolerations for the node's "
        "taints, or change the node",
        "affinity": f"give the node the label {NODE_LABEL}",
        "Image": f"push {cluster.image}, or apply the stack with an image_tag that was pushed",
        "serviceaccount": f"create the service account {cluster.service_account}: {MANIFESTS}",
        "hostPath": f"end the node, so that a new one has the folder {cluster.sharing_folder}",
    }
    if not nodes:
        return (
            f"check node group {cluster.node_group} of {cluster.cluster}: it has not "
            "started any nodes"
        )
    look = f"run `kubectl -n {cluster.namespace} describe pods` for details"
    return next((remedy for problem, remedy in remedies.items() if problem in said), look)


def gpus_of(node: Object) -> int:
    """Return the number of GPUs or GPU shares that a node offers."""
    return int(node["status"].get("allocatable", {}).get(GPU, 0))


def _more_gpus(cluster: Cluster, nodes: Iterable[Object]) -> str:
    offered = sum(map(gpus_of, nodes))
    if offered == 0:
        return f"find out why the device plugin offers no GPU, or {MANIFESTS}"
    if offered < cluster.pods_at_once(shared=True):
        return (
            f"request {offered} pods, or share the GPUs: time-slicing would allow "
            f"{cluster.pods_at_once(shared=True)}"
        )
    return f"request {offered} pods, or increase the stack's replicas_per_gpu"


def failures(pods: Iterable[Object]) -> list[str]:
    """Return one line per kind of pod failure, with the number of pods affected."""
    found = Counter(_failure(pod) for pod in pods if pod["status"].get("phase") == "Failed")
    return [
        f"{formatting.count(number, 'pod')} failed: {reason}" for reason, number in found.items()
    ]


def _failure(pod: Object) -> str:
    status = pod["status"]
    if reason := status.get("reason"):  # by the node: it never ran, or was removed
        message = status.get("message", "no reason given")
        shared = "maximum request size for shared resources is 1" in message
        hint = (
            f" (a shared GPU is requested as 1 {GPU}; requesting more does not increase the share)"
        )
        return f"{reason}: {message}{hint if shared else ''}"
    for container in status.get("containerStatuses", ()):
        if ended := container.get("state", {}).get("terminated"):
            return f"exit code {ended.get('exitCode')}, {ended.get('reason', 'no reason given')}"
    return "unknown reason"
