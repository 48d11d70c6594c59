"""What acts in a cluster, once a tick: device plugin, job controller, scheduler and kubelet."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from tests.stand_ins.kubernetes_api import device_plugin
from tests.stand_ins.kubernetes_api.device_plugin import GPU, Offer
from tests.stand_ins.kubernetes_api.resources import (
    Object,
    amount,
    now,
    quantity,
    requests,
    tolerates,
)

if TYPE_CHECKING:
    from tests.stand_ins.kubernetes_api.cluster import Cluster

LIVE = ("Pending", "Running")
# Of a job: its condition and what that says, by its reason.
ENDS = {
    "CompletionsReached": ("Complete", "All indexes succeeded"),
    "BackoffLimitExceeded": ("Failed", "Job has reached the specified backoff limit"),
    "DeadlineExceeded": ("Failed", "Job was active longer than specified deadline"),
}


def roll_out(cluster: Cluster) -> None:
    """The plugin's pod on each node that it may run on; the others offer no GPU."""
    daemon_sets = cluster.of("DaemonSet")
    pod = daemon_sets[0]["spec"]["template"]["spec"] if daemon_sets else {}
    on = [node for node in cluster.nodes if daemon_sets and not _unfit(pod, node)]
    cluster.rolling = max(0, cluster.rolling - 1)
    is_ready = not cluster.rolling
    if is_ready:
        for node in cluster.nodes:
            _offer(cluster, node, daemon_sets if node in on else ())
    if daemon_sets:
        is_ready = is_ready and not (on and cluster.offer.devices == 0)
        daemon_sets[0]["status"] = {
            "observedGeneration": daemon_sets[0]["metadata"]["generation"],
            "currentNumberScheduled": len(on),
            "numberMisscheduled": 0,
            "desiredNumberScheduled": len(on),
            "updatedNumberScheduled": len(on) if not cluster.rolling else 0,
            "numberReady": len(on) if is_ready else 0,
        }


def _offer(cluster: Cluster, node: Object, daemon_sets: Iterable[Object]) -> None:
    cluster.offer = Offer(0)
    for daemon_set in daemon_sets:
        try:
            cluster.offer = device_plugin.offer(
                daemon_set, cluster.of("ConfigMap"), cluster.gpus[node["metadata"]["name"]]
            )
        except device_plugin.ConfigError as error:
            cluster.tell("DaemonSet", daemon_set["metadata"]["name"], "BackOff", str(error))
    node["status"]["allocatable"][GPU] = str(cluster.offer.devices)


def control(cluster: Cluster, job: Object) -> None:
    """The job controller: pods by index, no second try, one end."""
    if _condition(job):
        return
    name, spec = job["metadata"]["name"], job["spec"]
    pods = cluster.pods_of(name)
    if not cluster.account_exists(job):
        account = spec["template"]["spec"]["serviceAccountName"]
        message = (
            f'Error creating: pods "{name}-0-" is forbidden: error looking up service account '
            f'{job["metadata"]["namespace"]}/{account}: serviceaccount "{account}" not found'
        )
        cluster.tell("Job", name, "FailedCreate", message)
    elif not pods:
        pods = [_make_pod(cluster, job, index) for index in range(spec["completions"])]
    phases = [pod["status"]["phase"] for pod in pods]
    job["status"].update(
        active=sum(phase in LIVE for phase in phases),
        succeeded=phases.count("Succeeded"),
        failed=phases.count("Failed"),
    )
    if pods:
        job["status"].setdefault("startTime", now())
    if phases and all(phase == "Succeeded" for phase in phases):
        _end(cluster, job, "CompletionsReached")
    elif phases.count("Failed") > spec.get("backoffLimit", 6):
        _end(cluster, job, "BackoffLimitExceeded")
    elif cluster.seconds.get(name, 0) >= spec.get("activeDeadlineSeconds", float("inf")):
        _end(cluster, job, "DeadlineExceeded")


def _end(cluster: Cluster, job: Object, reason: str) -> None:
    kind, message = ENDS[reason]
    job["status"]["conditions"] = [
        {"type": kind, "status": "True", "reason": reason, "message": message}
    ]
    if kind == "Complete":
        job["status"]["completionTime"] = now()
    for pod in cluster.pods_of(job["metadata"]["name"]):
        if pod["status"]["phase"] in LIVE:
            pod["metadata"].setdefault("deletionTimestamp", now())


def _make_pod(cluster: Cluster, job: Object, index: int) -> Object:
    name, template = job["metadata"]["name"], job["spec"]["template"]
    pod_name = f"{name}-{index}-{next(cluster.count):05x}"
    own = {
        "batch.kubernetes.io/job-name": name,
        "batch.kubernetes.io/job-completion-index": str(index),
    }
    pod = {
        "metadata": {
            "name": pod_name,
            "namespace": job["metadata"]["namespace"],
            "creationTimestamp": now(),
            "labels": {**template["metadata"]["labels"], **own},
            "annotations": {"batch.kubernetes.io/job-completion-index": str(index)},
        },
        "spec": {
            **template["spec"],
            "containers": [
                {
                    **container,
                    "env": [
                        *container.get("env", ()),
                        {"name": "JOB_COMPLETION_INDEX", "value": str(index)},
                    ],
                }
                for container in template["spec"]["containers"]
            ],
        },
        "status": {"phase": "Pending"},
    }
    cluster.pods[pod_name] = pod
    return pod


def place(cluster: Cluster, pod: Object) -> None:
    """Scheduler and kubelet."""
    if "nodeName" not in pod["spec"]:
        reasons = {}
        for node in cluster.nodes:
            if not (found := _unfit(pod["spec"], node) or _lacking(cluster, pod, node)):
                pod["spec"]["nodeName"] = node["metadata"]["name"]
                pod["status"]["conditions"] = [{"type": "PodScheduled", "status": "True"}]
                break
            reasons[node["metadata"]["name"]] = found
        else:
            said = ", ".join(f"1 {reason}" for found in reasons.values() for reason in found)
            message = (
                f"0/{len(cluster.nodes)} nodes are available: {said}."
                if cluster.nodes
                else "no nodes available to schedule pods"
            )
            pod["status"]["conditions"] = [
                {
                    "type": "PodScheduled",
                    "status": "False",
                    "reason": "Unschedulable",
                    "message": message,
                }
            ]
            return
    _start(cluster, pod)


def _start(cluster: Cluster, pod: Object) -> None:
    if refusal := cluster.offer.refusal(int(amount(pod, GPU))):
        pod["status"] |= {
            "phase": "Failed",
            "reason": "UnexpectedAdmissionError",
            "message": f"Pod was rejected: {refusal}",
        }
        return
    name, (container,) = pod["metadata"]["name"], pod["spec"]["containers"]
    for volume in pod["spec"].get("volumes", ()):
        path = volume.get("hostPath") or {}
        if path.get("type") == "Directory" and path["path"] not in cluster.folders:
            message = (
                f'MountVolume.SetUp failed for volume "{volume["name"]}" : hostPath type check '
                f"failed: {path['path']} is not a directory"
            )
            cluster.tell("Pod", name, "FailedMount", message)
            _waits(pod, "ContainerCreating", "")
            return
    if container["image"] not in cluster.images:
        _waits(pod, "ImagePullBackOff", f'Back-off pulling image "{container["image"]}"')
        return
    pod["status"]["phase"] = "Running"
    _set_state(pod, {"running": {"startedAt": now()}})
    cluster.containers.start(pod)


def follow(cluster: Cluster, pod: Object) -> None:
    code = cluster.containers.exit_code(pod)
    cluster.logs[pod["metadata"]["name"]] = cluster.containers.log(pod)
    if code is None:
        return
    begun = pod["status"]["containerStatuses"][0]["state"]["running"]["startedAt"]
    ended = {
        "exitCode": code,
        "reason": "Error" if code else "Completed",
        "startedAt": begun,
        "finishedAt": now(),
    }
    pod["status"]["phase"] = "Failed" if code else "Succeeded"
    _set_state(pod, {"terminated": ended})


def remove(cluster: Cluster, pod: Object) -> None:
    cluster.containers.kill(pod)
    del cluster.pods[pod["metadata"]["name"]]


def _unfit(pod: Object, node: Object) -> list[str]:
    """Why a pod may not run there, whatever it asks for."""
    reasons = []
    wanted = pod.get("nodeSelector", {}).items()
    if not wanted <= node["metadata"]["labels"].items():
        reasons.append("node(s) didn't match Pod's node affinity/selector")
    tolerations = pod.get("tolerations", ())
    reasons += [
        f"node(s) had untolerated taint {{{taint['key']}: {taint['value']}}}"
        for taint in node["spec"]["taints"]
        if not any(tolerates(one, taint) for one in tolerations)
    ]
    return reasons


def _lacking(cluster: Cluster, pod: Object, node: Object) -> list[str]:
    on_it = [
        other
        for other in cluster.pods.values()
        if other["spec"].get("nodeName") == node["metadata"]["name"]
        and other["status"]["phase"] in LIVE
    ]
    offered, wanted = node["status"]["allocatable"], requests(pod)
    return [
        f"Insufficient {name}"
        for name in sorted(wanted)
        if sum(amount(other, name) for other in on_it) + amount(pod, name)
        > quantity(offered.get(name, "0"))
    ]


def _condition(job: Object) -> Object | None:
    return next(iter(job["status"].get("conditions", ())), None)


def _waits(pod: Object, reason: str, message: str) -> None:
    said = {"message": message} if message else {}
    _set_state(pod, {"waiting": {"reason": reason, **said}})


def _set_state(pod: Object, state: Object) -> None:
    (container,) = pod["spec"]["containers"]
    pod["status"]["containerStatuses"] = [
        {
            "name": container["name"],
            "image": container["image"],
            "imageID": "",
            "ready": "running" in state,
            "restartCount": 0,
            "state": state,
        }
    ]
