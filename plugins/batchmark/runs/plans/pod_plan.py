"""Plans runs in which pods share a Kubernetes node's GPUs, and builds their Kubernetes jobs."""

from __future__ import annotations

from typing import Any

from batchmark.core.clusters.cluster import GPU, NODE_LABEL, Cluster
from batchmark.core.config import Config
from batchmark.core.errors import PlanError
from batchmark.core.names import INSTALLATION_TAG, names_of_task
from batchmark.core.run import JobLimits, PlannedJob
from batchmark.core.suites import OWN_DTYPES, SHARING
from batchmark_job.result.options import arguments
from batchmark_job.result.sharing_options import SharingOptions

FOLDER = "/sharing"  # where a pod sees the folder on the node
USER = 10001  # the image's own, as in Batch
# Starting the node, and ending it; starting the device plugin anew; removing the pods.
NODE_SECONDS, SWITCH_SECONDS, REMOVAL_SECONDS = 1200, 300, 120
TRIES = 2  # of the task that runs a job; it starts anew after a lost worker
# Kubelet, add-ons and device plugin take the rest.
PODS_SHARE_OF_MEMORY = 7 / 8
SYSTEM_VCPUS = 2
# Kubernetes removes a finished job by itself if nobody else did.
KEPT_SECONDS = 3600


def plan_pods(
    cluster: Cluster,
    config: Config,
    wanted: SharingOptions,
    *,
    run_name: str,
    waiting: int = 0,
) -> list[PlannedJob]:
    """Plan a Kubernetes job for each replica count.

    Unless `waiting` is 0, the first job has that many pods, and starts before GPUs are shared.

    Raises:
        PlanError: the cluster belongs to another installation, or could never run a job.
    """
    if cluster.name != config.name:
        raise PlanError(
            f"cluster {cluster.cluster} belongs to installation {cluster.name!r}, but this "
            f"Airflow belongs to {config.name!r}: apply both stacks with the same name"
        )
    numbers = dict.fromkeys([*([waiting] if waiting else []), *wanted.replicas])
    for pods in numbers:
        _check(cluster, pods)
    folder = f"s3://{config.bucket}/raw/{run_name}/{cluster.target}/{SHARING}"
    return [
        PlannedJob(
            target=cluster.target,
            device="cuda",
            instance_type=cluster.instance_type,
            suite=SHARING,
            repeat=1,
            dtype=OWN_DTYPES,
            result_prefix=f"{folder}/of-{pods}/1/",
            limits=JobLimits(
                submissions=1,
                attempts=TRIES,
                timeout_seconds=cluster.timeout_seconds
                + NODE_SECONDS
                + SWITCH_SECONDS
                + REMOVAL_SECONDS,
            ),
            sharing=wanted.model_copy(update={"form": "pods", "replicas": (pods,)}),
        )
        for pods in numbers
    ]


def _check(cluster: Cluster, pods: int) -> None:
    most = cluster.pods_at_once(shared=True)
    if pods > most:
        raise PlanError(
            f"{pods} pods need one share each, but {cluster.gpus} GPU(s) with "
            f"{cluster.replicas_per_gpu} shares each offer {most}: use fewer pods, or raise "
            "replicas_per_gpu in terraform/stacks/eks_gpu_sharing"
        )
    most_by_cpu = max(1, cluster.vcpus - SYSTEM_VCPUS)
    if pods > most_by_cpu:
        raise PlanError(
            f"{pods} pods need a vCPU each, but {cluster.instance_type} has only {most_by_cpu} for "
            "them: use fewer pods, or apply with a larger instance_type"
        )


def labels(cluster: Cluster, run_id: str, job: PlannedJob) -> dict[str, str]:
    """Return the labels used to find a planned job's Kubernetes job and pods."""
    return {
        **installation_labels(cluster),
        "batchmark/job": names_of_task(job.name, run_id),
    }


def installation_labels(cluster: Cluster) -> dict[str, str]:
    """Return the label that all of Batchmark's jobs in a cluster share."""
    return {INSTALLATION_TAG.replace(":", "/"): cluster.name}


def selector(wanted: dict[str, str]) -> str:
    return ",".join(f"{name}={value}" for name, value in wanted.items())


def job_manifest(cluster: Cluster, run_id: str, job: PlannedJob, *, name: str) -> dict[str, Any]:
    """Build the manifest of an indexed Kubernetes job with one pod per replica."""
    plan = job.sharing
    if plan is None:
        raise PlanError(f"{job.name} has no replicas: plan it with plan_pods")
    (pods,) = plan.replicas
    found = labels(cluster, run_id, job)
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": cluster.namespace, "labels": found},
        "spec": {
            "completionMode": "Indexed",
            "completions": pods,
            "parallelism": pods,
            # A replica that starts again would measure beside others than the first time.
            "backoffLimit": 0,
            "activeDeadlineSeconds": cluster.timeout_seconds,
            "ttlSecondsAfterFinished": KEPT_SECONDS,
            "template": {"metadata": {"labels": found}, "spec": _pod(cluster, run_id, job, name)},
        },
    }


def _pod(cluster: Cluster, run_id: str, job: PlannedJob, name: str) -> dict[str, Any]:
    return {
        "restartPolicy": "Never",
        "serviceAccountName": cluster.service_account,
        "automountServiceAccountToken": False,
        "dnsPolicy": "Default",  # the node's name server: the cluster has none of its own
        "nodeSelector": dict([NODE_LABEL.split("=")]),
        "tolerations": [{"key": GPU, "operator": "Exists", "effect": "NoSchedule"}],
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": USER,
            "runAsGroup": USER,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [_container(cluster, run_id, job, name)],
        "volumes": [
            {
                "name": "sharing",
                "hostPath": {"path": cluster.sharing_folder, "type": "Directory"},
            },
            {"name": "tmp", "emptyDir": {}},
        ],
    }


def _container(cluster: Cluster, run_id: str, job: PlannedJob, name: str) -> dict[str, Any]:
    (pods,) = job.sharing.replicas if job.sharing else (1,)
    milli_cpus = 1000 * max(1, cluster.vcpus - SYSTEM_VCPUS) // pods
    memory = f"{int(cluster.memory_mib * PODS_SHARE_OF_MEMORY) // pods}Mi"
    return {
        "name": "benchmark",
        "image": cluster.image,
        "command": command(cluster, run_id, job, threads=max(1, milli_cpus // 1000)),
        "env": [
            {"name": "AWS_DEFAULT_REGION", "value": cluster.region},
            # As Batch names its jobs and their attempts.
            {"name": "AWS_BATCH_JOB_ID", "value": name},
            {"name": "AWS_BATCH_JOB_ATTEMPT", "value": "1"},
            {"name": "BATCHMARK_SHARING_FOLDER", "value": FOLDER},
            {"name": "HOME", "value": "/tmp"},  # noqa: S108
        ],
        "resources": {
            "requests": {"cpu": f"{milli_cpus}m", "memory": memory, GPU: "1"},
            "limits": {"memory": memory, GPU: "1"},
        },
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": [
            {"name": "sharing", "mountPath": FOLDER},
            {"name": "tmp", "mountPath": "/tmp"},  # noqa: S108
        ],
    }


def command(cluster: Cluster, run_id: str, job: PlannedJob, *, threads: int) -> list[str]:
    """Return a replica's command, which matches the one in the Batch job definitions."""
    return [
        *("python", "-m", "batchmark_job", "run"),
        *("--suite", job.suite, "--dtype", job.dtype),
        *("--device", job.device, "--threads", str(threads)),
        *("--run-id", run_id, "--target", cluster.target, "--output", job.result_prefix),
        *(arguments(job.sharing) if job.sharing else ()),
    ]
