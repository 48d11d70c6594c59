"""The Kubernetes API calls that GPU sharing needs, authenticated through EKS."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from airflow.providers.amazon.aws.hooks.eks import EksHook
from airflow.providers.cncf.kubernetes.hooks.kubernetes import KubernetesHook
from kubernetes import client as kubernetes
from kubernetes.client.exceptions import ApiException
from urllib3.exceptions import HTTPError

from batchmark.checks.waiting_pods import MANIFESTS, Object, gpus_of
from batchmark.core.clusters.cluster import GPU, NODE_LABEL, Cluster
from batchmark.core.errors import ClusterError
from batchmark.orchestration.telling import tell
from batchmark.runs.plans.pod_plan import (
    REMOVAL_SECONDS,
    SWITCH_SECONDS,
    installation_labels,
    selector,
)
from batchmark_job.result.sharing import SharingMode

DEVICE_PLUGIN, ITS_NAMESPACE = "nvidia-device-plugin", "kube-system"
POLL_SECONDS = 5  # judgment: a change is seen this late at most; each poll is a call or two
LOG_TAIL_LINES = 50  # as of Batch's jobs (aws/job_description.py)
REMEDIES = {
    401: "apply terraform/stacks/eks_gpu_sharing with Airflow's role in airflow_role_arns",
    403: MANIFESTS,
}


@contextmanager
def kubeconfig(cluster: Cluster) -> Iterator[str]:
    """Yield the path of a temporary, secret-free kubeconfig inside a `with` block.

    When a token expires, a new one is created from this process's current AWS credentials, which
    can be renewed while a job runs.
    """
    hook = EksHook(aws_conn_id=None, region_name=cluster.region)
    found = hook.generate_config_file(cluster.cluster, cluster.namespace, os.devnull)
    with found as path:
        yield path


def kubernetes_hook(config_file: str) -> KubernetesHook:
    """Return a hook with its own client settings; by default, all hooks in a process share them."""
    return KubernetesHook(
        kubernetes_conn_id=None,
        client_configuration=kubernetes.Configuration(),
        config_file=config_file,
        in_cluster=False,
    )


class ClusterApi:
    """One cluster's API, called through a hook's client; objects are JSON from the Kubernetes API.

    Raises:
        ClusterError: the cluster denies access, or lacks something that the run needs.
    """

    def __init__(
        self,
        cluster: Cluster,
        api_client: kubernetes.ApiClient,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.cluster = cluster
        self._client = api_client
        self._core = kubernetes.CoreV1Api(api_client)
        self._apps = kubernetes.AppsV1Api(api_client)
        self._batch = kubernetes.BatchV1Api(api_client)
        self.clock, self.sleep = clock, sleep

    def nodes(self) -> list[Object]:
        """List the GPU nodes that are ready."""
        with self._let_in():
            found = self._json(self._core.list_node(label_selector=NODE_LABEL).items)
        return [
            node
            for node in found
            for one in node["status"].get("conditions", ())
            if one["type"] == "Ready" and one["status"] == "True"
        ]

    def pods(self, job_name: str) -> list[Object]:
        """List a job's pods, ordered by index."""
        found = self._core.list_namespaced_pod(
            self.cluster.namespace, label_selector=f"batch.kubernetes.io/job-name={job_name}"
        )
        return sorted(self._json(found.items), key=_index)

    def events(self, job_name: str) -> list[Object]:
        """List the events of a job's pods, latest last."""
        found = self._json(self._core.list_namespaced_event(self.cluster.namespace).items)
        of_job = [one for one in found if one["involvedObject"]["name"].startswith(job_name)]
        return sorted(of_job, key=lambda one: one.get("lastTimestamp") or "")

    def job(self, name: str) -> Object:
        found: Object = self._json(self._batch.read_namespaced_job(name, self.cluster.namespace))
        return found

    def log(self, pod: Object, lines: int | None = None) -> str:
        """Return a pod's log, or a line saying why it couldn't be read."""
        name = pod["metadata"]["name"]
        try:
            # The library's own reading gives the text of a Python literal.
            answer = self._core.read_namespaced_pod_log(
                name, self.cluster.namespace, tail_lines=lines, _preload_content=False
            )
        except (ApiException, HTTPError) as error:
            return f"(the log of {name} could not be read: {getattr(error, 'reason', error)})"
        return str(answer.data.decode(errors="replace"))

    def offer_gpus(self, *, shared: bool) -> None:
        """Make the device plugin offer whole or shared GPUs, and wait until the node does so."""
        mode = SharingMode.TIME_SLICING if shared else SharingMode.EXCLUSIVE
        wanted = self.cluster.pods_at_once(shared=shared)
        setting = {"name": "CONFIG_FILE", "value": f"/config/{mode}.yaml"}
        container = {"name": DEVICE_PLUGIN, "env": [setting]}
        try:
            self._apps.patch_namespaced_daemon_set(
                DEVICE_PLUGIN,
                ITS_NAMESPACE,
                {"spec": {"template": {"spec": {"containers": [container]}}}},
            )
        except ApiException as error:
            raise self._refused(error) from error
        seen = 0

        def is_offered() -> bool:
            nonlocal seen
            seen = sum(map(gpus_of, self.nodes()))
            return seen == wanted and self._is_rolled_out()

        if not self._wait_for(is_offered, SWITCH_SECONDS):
            raise ClusterError(
                f"in mode {mode}, the node still offers {seen} {GPU} instead of {wanted} after "
                f"{SWITCH_SECONDS} s: see `kubectl -n {ITS_NAMESPACE} logs "
                f"daemonset/{DEVICE_PLUGIN}`, or {MANIFESTS}"
            )
        tell(f"The node offers {wanted} {GPU} ({mode}).")

    def remove_jobs(self) -> None:
        """Delete all our jobs and pods, and wait until the pods are gone."""
        found = selector(installation_labels(self.cluster))

        def are_gone() -> bool:
            pods = self._core.list_namespaced_pod(self.cluster.namespace, label_selector=found)
            return not pods.items

        with self._let_in():
            jobs = self._batch.list_namespaced_job(self.cluster.namespace, label_selector=found)
            for job in jobs.items:
                self._remove(job.metadata.name)
            if self._wait_for(are_gone, REMOVAL_SECONDS):
                return
        raise ClusterError(
            f"pods in {self.cluster.namespace} with the label {found} still exist after "
            f"{REMOVAL_SECONDS} s: see `kubectl -n {self.cluster.namespace} get pods`"
        )

    def _remove(self, name: str) -> None:
        try:
            self._batch.delete_namespaced_job(
                name, self.cluster.namespace, propagation_policy="Background"
            )
        except ApiException as error:
            if error.status != 404:  # it has gone by itself meanwhile
                raise

    def _is_rolled_out(self) -> bool:
        found = self._apps.read_namespaced_daemon_set(DEVICE_PLUGIN, ITS_NAMESPACE)
        status = found.status
        return bool(
            status.observed_generation == found.metadata.generation
            and status.updated_number_scheduled == status.desired_number_scheduled
            and status.number_ready == status.desired_number_scheduled
        )

    def _wait_for(self, holds: Callable[[], bool], seconds: float) -> bool:
        until = self.clock() + seconds
        while not holds():
            if self.clock() >= until:
                return False
            self.sleep(POLL_SECONDS)
        return True

    @contextmanager
    def _let_in(self) -> Iterator[None]:
        try:
            yield
        except ApiException as error:
            if error.status not in REMEDIES:
                raise
            raise ClusterError(
                f"cluster {self.cluster.cluster} denies Airflow access ({error.status} "
                f"{error.reason}): {REMEDIES[error.status]}"
            ) from error

    def _refused(self, error: ApiException) -> ClusterError:
        if error.status in {403, 404}:
            return ClusterError(
                f"cluster {self.cluster.cluster} has no {DEVICE_PLUGIN} that Airflow may change "
                f"({error.reason}): {MANIFESTS}"
            )
        return ClusterError(
            f"cluster {self.cluster.cluster} rejected the request: {error.status} {error.body}"
        )

    def _json(self, found: Any) -> Any:
        return self._client.sanitize_for_serialization(found)


def _index(pod: Object) -> int:
    annotations = pod["metadata"].get("annotations", {})
    return int(annotations.get("batch.kubernetes.io/job-completion-index", 0))
