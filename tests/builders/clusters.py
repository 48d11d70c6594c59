"""A cluster as the EKS stack publishes it, and as its manifests make it."""

from batchmark.core.clusters.cluster import Cluster as Published
from batchmark.runs.plans.pod_plan import plan_pods
from batchmark_job.result.sharing import SharingMode
from batchmark_job.result.sharing_options import SharingOptions
from tests.builders.installations import configured
from tests.builders.manifests import manifests
from tests.stand_ins.kubernetes_api.cluster import Cluster

RUN_ID = "manual__2026-11-21T01:00:00+00:00"
SINCE = "2026-11-21T12:00:00Z"
IMAGE = "111122223333.dkr.ecr.us-east-1.amazonaws.com/batchmark-job:0.2.0"


def published(**changes):
    return Published(
        **{
            "schema_version": 1,
            "name": "batchmark",
            "region": "us-east-1",
            "cluster": "batchmark-gpu-sharing",
            "node_group": "gpu",
            "namespace": "gpu-demo",
            "service_account": "benchmark",
            "image": IMAGE,
            "target": "g4dn.12xlarge-eks",
            "instance_type": "g4dn.12xlarge",
            "gpus": 4,
            "vcpus": 48,
            "memory_mib": 196608,
            "replicas_per_gpu": 10,
            "sharing_folder": "/var/lib/batchmark/sharing",
            "timeout_seconds": 1800,
        }
        | changes
    )


def wanted(*replicas):
    return SharingOptions(
        form="pods",
        modes=(SharingMode.TIME_SLICING,),
        replicas=replicas or (20,),
        task="cnn_training_step",
        axes={"batch": 32},
    )


def planned(*replicas, waiting=5, **changes):
    """The jobs of a run: first of 5 pods, which begins without sharing, then of 20."""
    return plan_pods(
        published(**changes),
        configured(),
        wanted(*replicas),
        run_name="run",
        waiting=waiting,
    )


def applied(containers=None, *, gpus=4, **inputs):
    """A cluster with the stack's manifests applied, and its node."""
    cluster = Cluster(manifests(**inputs), {IMAGE}, containers)
    if gpus:
        cluster.add_node(gpus)
    return cluster


# Pods as Kubernetes describes them.


def pod(name, phase="Pending", *, node=None, **status):
    resources = {"requests": {"cpu": "2300m", "nvidia.com/gpu": "1"}}
    return {
        "metadata": {"name": name, "creationTimestamp": SINCE},
        "spec": {"containers": [{"resources": resources}]} | ({"nodeName": node} if node else {}),
        "status": {"phase": phase, **status},
    }


def unschedulable(name, message):
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    return pod(name, conditions=[condition | {"message": message}])


def waiting_container(name, **state):
    return pod(name, node="n", containerStatuses=[{"state": {"waiting": state}}])
