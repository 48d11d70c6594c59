"""A cluster in memory: its objects, what the API does to them, and what acts on them.

Nothing moves by itself: each call to the API lets every controller act once (`tick`), so that
a test goes as fast as it asks, and the same way each time.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable

from tests.stand_ins.kubernetes_api import controllers
from tests.stand_ins.kubernetes_api.containers import Containers
from tests.stand_ins.kubernetes_api.device_plugin import GPU, Offer
from tests.stand_ins.kubernetes_api.resources import Object, merged, now
from tests.stand_ins.kubernetes_api.validation import (
    RefusedError,
    check_job,
    check_schema,
    not_found,
)

ROLL_OUT_TICKS = 2


class Cluster:
    """One cluster with valid manifests applied; nodes are added by `add_node`.

    Args:
        images: what its nodes can pull.
    """

    def __init__(
        self,
        manifests: Iterable[Object],
        images: Iterable[str],
        containers: Containers | None = None,
    ) -> None:
        self.objects = list(manifests)
        self.images = set(images)
        self.containers = containers or Containers()
        self.nodes: list[Object] = []
        self.jobs: dict[str, Object] = {}
        self.pods: dict[str, Object] = {}
        self.events: list[Object] = []
        self.logs: dict[str, str] = {}
        self.folders = {"/var/lib/batchmark/sharing"}
        self.offer = Offer(0)
        self.gpus: dict[str, int] = {}
        self.seconds: dict[str, float] = {}
        self.rolling = 0
        self.count = itertools.count(1)
        for one in self.of("DaemonSet"):
            one["metadata"]["generation"] = 1

    def add_node(self, gpus: int) -> Object:
        """A node as the stack's node group starts it: labelled, tainted, ready."""
        name = f"ip-10-7-0-{next(self.count)}.ec2.internal"
        offered = {"cpu": "47810m", "memory": "190000Mi", "pods": "234"}
        node = {
            "metadata": {"name": name, "labels": {"eks-node": "gpu"}},
            "spec": {"taints": [{"key": GPU, "value": "present", "effect": "NoSchedule"}]},
            "status": {
                "allocatable": offered,
                "conditions": [{"type": "Ready", "status": "True"}],
            },
        }
        self.nodes.append(node)
        self.gpus[name] = gpus
        self.rolling = ROLL_OUT_TICKS
        return node

    def let_time_pass(self, job: str, seconds: float) -> None:
        """For the job's own limit."""
        self.seconds[job] = self.seconds.get(job, 0) + seconds

    def namespace_exists(self, name: str) -> bool:
        own = any(one["metadata"]["name"] == name for one in self.of("Namespace"))
        return own or name in {"default", "kube-system"}

    def create_job(self, namespace: str, job: Object) -> Object:
        check_job(job)
        name = job["metadata"]["name"]
        if job["metadata"].get("namespace", namespace) != namespace:
            raise RefusedError(400, "the namespace of the object is not that of the request")
        if not self.namespace_exists(namespace):
            raise not_found("namespaces", namespace)
        if name in self.jobs:
            raise RefusedError(409, f'jobs.batch "{name}" already exists')
        made = {**job, "status": {}}
        made["metadata"] = {**job["metadata"], "creationTimestamp": now(), "namespace": namespace}
        self.jobs[name] = made
        return made

    def job(self, name: str) -> Object:
        if name not in self.jobs:
            raise not_found("jobs.batch", name)
        return self.jobs[name]

    def delete_job(self, name: str, propagation: str | None) -> None:
        self.job(name)
        del self.jobs[name]
        if propagation in {"Background", "Foreground"}:
            for pod in self.pods_of(name):
                pod["metadata"].setdefault("deletionTimestamp", now())

    def daemon_set(self, name: str) -> Object:
        for one in self.of("DaemonSet"):
            if one["metadata"]["name"] == name:
                return one
        raise not_found("daemonsets.apps", name)

    def patch_daemon_set(self, name: str, patch: Object) -> Object:
        found = self.daemon_set(name)
        patched = merged(found, patch)
        check_schema({key: value for key, value in patched.items() if key != "status"})
        if patched["spec"] != found["spec"]:
            found["spec"] = patched["spec"]
            found["metadata"]["generation"] += 1
            self.rolling = ROLL_OUT_TICKS
        return found

    def tick(self) -> None:
        controllers.roll_out(self)
        for job in list(self.jobs.values()):
            controllers.control(self, job)
        for pod in list(self.pods.values()):
            if pod["metadata"].get("deletionTimestamp"):
                controllers.remove(self, pod)
            elif pod["status"]["phase"] == "Pending":
                controllers.place(self, pod)
            elif pod["status"]["phase"] == "Running":
                controllers.follow(self, pod)

    def account_exists(self, job: Object) -> bool:
        wanted = job["spec"]["template"]["spec"].get("serviceAccountName", "default")
        return wanted == "default" or any(
            one["metadata"]["name"] == wanted
            and one["metadata"]["namespace"] == job["metadata"]["namespace"]
            for one in self.of("ServiceAccount")
        )

    def pods_of(self, job_name: str) -> list[Object]:
        label = "batch.kubernetes.io/job-name"
        return [pod for pod in self.pods.values() if pod["metadata"]["labels"][label] == job_name]

    def of(self, kind: str) -> list[Object]:
        return [one for one in self.objects if one["kind"] == kind]

    def tell(self, kind: str, name: str, reason: str, message: str) -> None:
        self.events.append(
            {
                "metadata": {"name": f"{name}.{next(self.count):x}", "namespace": "gpu-demo"},
                "involvedObject": {"kind": kind, "name": name},
                "reason": reason,
                "message": message,
                "lastTimestamp": now(),
            }
        )
