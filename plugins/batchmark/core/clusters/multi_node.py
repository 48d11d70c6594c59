"""The configuration published by the multi-node stack for its target and its file system."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from batchmark.core.config import ComputeEnvironments, Config, Published, Target
from batchmark.core.errors import ConfigError
from batchmark.core.record import Record
from batchmark_job.result.values import Count, Line, PositiveCount

# Airflow variable, kept by Terraform in the SSM parameter /airflow/variables/batchmark_multi_node.
VARIABLE = "batchmark_multi_node"
NO_FILE_SYSTEM = "none"  # what the parameter has where nodes have nothing to mount
# How long a file system may take: until its files can be read, and until it is gone again.
STAND_UP_SECONDS, DELETION_SECONDS = 3600, 1800
NODES_SECONDS = 1200  # for Batch to end idle nodes, which takes it about ten minutes
COLLAPSE_SECONDS = NODES_SECONDS + DELETION_SECONDS


class FileSystem(Record):
    """Settings of the FSx for Lustre file system that a run creates for itself."""

    deployment_type: Literal["SCRATCH_2", "PERSISTENT_1", "PERSISTENT_2"]
    storage_gib: PositiveCount
    throughput: PositiveCount | None = Field(
        description="MB/s per TiB; null for scratch file systems, whose throughput is fixed"
    )
    version: Line = Field(description="Lustre version")
    subnet: Line
    security_group: Line
    kms_key_arn: Line | None = Field(
        description="null for FSx's default key and for scratch file systems"
    )
    repository: Line = Field(description="s3:// folder linked to the file system as `folder`")
    folder: Line = Field(description="path in the file system, such as /images")
    id_parameter: Line = Field(
        description="SSM parameter from which nodes read the file system's id at boot; its value "
        "is `none` if there is no file system"
    )

    @property
    def kind(self) -> str:
        """The storage type that determines the price."""
        if self.throughput is None:
            return self.deployment_type
        return f"{self.deployment_type} of {self.throughput} MB/s/TiB"


class MultiNode(Published):
    variable = VARIABLE
    missing = (
        "apply terraform/stacks/multi_node, and let Airflow's secrets backend read the SSM "
        "parameter /airflow/variables/batchmark_multi_node"
    )
    stale = "apply terraform/stacks/multi_node from this release"

    schema_version: Literal[1]
    name: Line = Field(description="name of the installation that the stack belongs to")
    region: Line
    target: Line = Field(description="target name used for the nodes in results")
    device: Literal["cpu", "cuda"]
    instance_type: Line
    vcpus: PositiveCount = Field(description="vCPUs per instance, as counted by quotas")
    gpus: Count = Field(description="GPUs per instance")
    most_nodes: PositiveCount
    job_queue: Line
    job_definition: Line
    compute_environment: Line
    timeout_seconds: PositiveCount = Field(
        ge=60, description="time limit for the whole job, including all nodes"
    )
    allow_cpu_fallback: bool
    mount_point: Line = Field(
        description="path of the mounted file system on hosts and in containers"
    )
    scratch: Line = Field(description="path of each node's local disk on hosts and in containers")
    given_ami: bool = Field(default=False, description="see Target")
    file_system: FileSystem

    def joined_to(self, config: Config) -> Config:
        """Return an installation's configuration with the nodes added as another target.

        Raises:
            ConfigError: the stack belongs to another installation, or its target's name is taken.
        """
        if (self.name, self.region) != (config.name, config.region):
            raise ConfigError(
                f"the multi-node stack belongs to installation {self.name!r} in {self.region}, "
                f"but this Airflow belongs to {config.name!r} in {config.region}: apply both "
                "stacks with the same name and region"
            )
        if self.target in config.targets:
            raise ConfigError(
                f"the multi-node stack's target {self.target!r} has the same name as a "
                "Batch target: rename one of them and apply its stack"
            )
        return config.with_targets({self.target: self._as_target()})

    def _as_target(self) -> Target:
        return Target(
            **self.model_dump(include=set(Target.model_fields)),
            on_demand_queue=self.job_queue,
            compute_environments=ComputeEnvironments(spot=None, on_demand=self.compute_environment),
            attempts=1,
        )


parse_multi_node = MultiNode.parse
