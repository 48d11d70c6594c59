"""The configuration published by the EKS stack for its cluster with shared GPUs."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from batchmark.core.config import Published
from batchmark_job.result.values import Line, PositiveCount

# Airflow variable, kept by Terraform in the SSM parameter /airflow/variables/batchmark_eks.
VARIABLE = "batchmark_eks"
GPU = "nvidia.com/gpu"  # the resource that the device plugin offers
NODE_LABEL = "eks-node=gpu"


class Cluster(Published):
    variable = VARIABLE
    missing = (
        "apply terraform/stacks/eks_gpu_sharing, and let Airflow's secrets backend read the SSM "
        "parameter /airflow/variables/batchmark_eks"
    )
    stale = "apply terraform/stacks/eks_gpu_sharing from this release"

    schema_version: Literal[1]
    name: Line = Field(description="name of the installation that the cluster belongs to")
    region: Line
    cluster: Line
    node_group: Line
    namespace: Line
    service_account: Line
    image: Line
    target: Line = Field(description="target name used for the node in results")
    instance_type: Line
    gpus: PositiveCount = Field(
        description="number of GPUs in the only node, to which vcpus and memory_mib also refer"
    )
    vcpus: PositiveCount
    memory_mib: PositiveCount
    replicas_per_gpu: PositiveCount = Field(
        description="number of pods that share a GPU by time-slicing"
    )
    sharing_folder: Line = Field(
        description="folder on the node that replicas use to wait for each other"
    )
    timeout_seconds: PositiveCount = Field(
        description="time limit for all pods of one replica count together"
    )

    def pods_at_once(self, *, shared: bool) -> int:
        return self.gpus * (self.replicas_per_gpu if shared else 1)


parse_cluster = Cluster.parse
