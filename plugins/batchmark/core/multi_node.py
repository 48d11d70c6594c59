"""What the multi-node stack publishes: where multi-node jobs run, and the file system they read."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from batchmark.core.config import parse_published
from batchmark.core.record import Record
from batchmark_job.result_values import Count, PositiveCount

# Airflow variable, kept by Terraform in the SSM parameter /airflow/variables/batchmark_multi_node.
VARIABLE = "batchmark_multi_node"


class FileSystem(Record):
    """The settings of the FSx for Lustre file system that a run stands up for itself."""

    deployment_type: Literal["SCRATCH_2", "PERSISTENT_1", "PERSISTENT_2"]
    storage_gib: PositiveCount
    throughput: PositiveCount | None = Field(
        description="MB/s for each TiB; null for scratch, which has its own"
    )
    version: str = Field(description="of Lustre")
    subnet: str
    security_group: str
    kms_key_arn: str | None = Field(description="null for FSx's own key, and for scratch")
    repository: str = Field(description="s3:// folder that is linked as `folder`")
    folder: str = Field(description="path in the file system, such as /images")
    id_parameter: str = Field(
        description="SSM parameter where nodes read the file system's id when they boot; `none` "
        "where there is no file system"
    )


class MultiNode(Record):
    schema_version: Literal[1]
    name: str = Field(description="of the installation that it belongs to")
    region: str
    target: str = Field(description="name of the nodes in results, beside the targets of Batch")
    device: Literal["cpu", "cuda"]
    instance_type: str
    vcpus: PositiveCount = Field(description="of an instance, by which quotas count")
    gpus: Count = Field(description="of an instance")
    most_nodes: PositiveCount
    job_queue: str
    job_definition: str
    compute_environment: str
    timeout_seconds: PositiveCount = Field(ge=60, description="of all nodes together")
    allow_cpu_fallback: bool
    mount_point: str = Field(description="of the file system, in hosts and containers")
    scratch: str = Field(description="folder of each node's own disk, in hosts and containers")
    file_system: FileSystem


def parse_multi_node(text: str | None) -> MultiNode:
    """Parse the published JSON.

    Raises:
        ConfigError: it is missing, or of another release.
    """
    return parse_published(
        MultiNode,
        text,
        VARIABLE,
        missing="apply terraform/stacks/multi_node, and let Airflow's secrets backend read the SSM "
        "parameter /airflow/variables/batchmark_multi_node",
        stale="apply terraform/stacks/multi_node of this release",
    )
