"""What the EKS stack publishes: the cluster whose GPUs are shared, and what runs in it."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, ValidationError

from batchmark.core.errors import ConfigError
from batchmark.core.record import Record, first_problem
from batchmark_job.result_values import PositiveCount

# Airflow variable, kept by Terraform in the SSM parameter /airflow/variables/batchmark_eks.
VARIABLE = "batchmark_eks"
GPU = "nvidia.com/gpu"  # the resource that the device plugin offers
NODE_LABEL = "eks-node=gpu"


class Cluster(Record):
    schema_version: Literal[1]
    name: str = Field(description="of the installation that it belongs to")
    region: str
    cluster: str
    node_group: str
    namespace: str
    service_account: str
    image: str
    target: str = Field(description="name of the node in results, beside the targets of Batch")
    instance_type: str
    gpus: PositiveCount = Field(description="of its one node, as vcpus and memory_mib")
    vcpus: PositiveCount
    memory_mib: PositiveCount
    replicas_per_gpu: PositiveCount = Field(description="pods that share a GPU by time-slicing")
    sharing_folder: str = Field(description="folder on the node where replicas meet")
    timeout_seconds: PositiveCount = Field(description="of all pods of one number of replicas")

    def pods_at_once(self, *, shared: bool) -> int:
        return self.gpus * (self.replicas_per_gpu if shared else 1)


def parse_cluster(text: str | None) -> Cluster:
    """Parse the published JSON.

    Raises:
        ConfigError: it is missing, or of another release.
    """
    if not text:
        raise ConfigError(
            f"Airflow variable '{VARIABLE}' not found: apply terraform/stacks/eks_gpu_sharing, and "
            "let Airflow's secrets backend read the SSM parameter /airflow/variables/batchmark_eks"
        )
    try:
        return Cluster.model_validate_json(text)
    except ValidationError as error:
        raise ConfigError(
            f"Airflow variable '{VARIABLE}' can't be used: {first_problem(error)}, got "
            f"{error.errors()[0]['input']!r:.500}; apply terraform/stacks/eks_gpu_sharing of this "
            "release"
        ) from error
