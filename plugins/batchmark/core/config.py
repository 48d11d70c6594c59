"""The configuration that Terraform publishes: where jobs run and where results are stored."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal, Self

from pydantic import Field, ValidationError, model_validator

from batchmark.core.errors import ConfigError
from batchmark.core.record import Record, first_problem
from batchmark_job.result.values import Count, Line, PositiveCount

# Airflow variable, kept by Terraform in the SSM parameter /airflow/variables/batchmark.
VARIABLE = "batchmark"

PurchaseOption = Literal["spot", "on_demand"]


class Published(Record):
    """The base class for the configurations that Terraform publishes in Airflow variables."""

    variable: ClassVar[str]
    missing: ClassVar[str]  # what to do where there is none
    stale: ClassVar[str] = "apply the Terraform of this release"

    @classmethod
    def parse(cls, text: str | None) -> Self:
        """Parse the published JSON.

        Raises:
            ConfigError: the variable is missing, or was published by another release.
        """
        if not text:
            raise ConfigError(f"Airflow variable '{cls.variable}' not found: {cls.missing}")
        try:
            return cls.model_validate_json(text)
        except ValidationError as error:
            raise ConfigError(
                f"Airflow variable '{cls.variable}' can't be used: {first_problem(error)}, got "
                f"{error.errors()[0]['input']!r:.500}; {cls.stale}"
            ) from error


class ComputeEnvironments(Record):
    """Names of compute environments, as in AWS_BATCH_CE_NAME; null for unused purchase options."""

    spot: Line | None
    on_demand: Line | None
    more: tuple[Line, ...] = Field(
        default=(),
        max_length=20,
        description="additional compute environments; only queues that Terraform did not "
        "create have any",
    )

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(filter(None, (self.spot, self.on_demand, *self.more)))


class Target(Record):
    """A benchmark target: an instance type and a device, with their queues and job definition.

    `on_demand_queue` takes retries after a Spot reclaim. It can equal `job_queue`, and is null if
    the target uses Spot only. With `sharing`, up to `max_replicas` jobs run at once on one instance
    and share its GPU without requesting it. With `most_nodes`, a job spans up to that many
    instances, which run no other job.
    """

    device: Literal["cpu", "cuda"]
    instance_type: Line
    vcpus: PositiveCount
    memory_mib: PositiveCount | None = Field(
        default=None, description="memory that a job requests; null for multi-node jobs"
    )
    gpus: Count
    job_queue: Line
    on_demand_queue: Line | None
    job_definition: Line
    compute_environments: ComputeEnvironments
    timeout_seconds: PositiveCount = Field(ge=60)
    attempts: PositiveCount
    allow_cpu_fallback: bool
    sharing: Literal["time_slicing", "mps"] | None = None
    max_replicas: PositiveCount | None = Field(default=None, ge=2)
    most_nodes: PositiveCount | None = None
    given_ami: bool = Field(
        default=False,
        description="whether Terraform was given an AMI instead of using the latest "
        "ECS-optimised one",
    )
    capacity_reservation: Line | None = Field(
        default=None,
        description="capacity reservation for its instances: an ID, or the ARN of a resource group",
    )
    capacity_block: Line | None = Field(
        default=None, description="ID of the Capacity Block for its instances"
    )

    @model_validator(mode="after")
    def _has_what_belongs_together(self) -> Self:
        if (self.sharing is None) != (self.max_replicas is None):
            raise ValueError("sharing and max_replicas must be set together")
        if self.memory_mib is None and self.most_nodes is None:
            raise ValueError("memory_mib is missing")
        return self


class Config(Published):
    variable = VARIABLE
    missing = (
        "run `terraform apply`, and let Airflow's secrets backend read the SSM parameter "
        "/airflow/variables/batchmark (docs/runbook.md, 'Deploy')"
    )

    schema_version: Literal[1]
    name: Line
    region: Line
    bucket: Line
    topic_arn: Line | None = Field(
        default=None, description="SNS topic for alerts; null if only existing jobs are compared"
    )
    log_group: Line | None = Field(
        default=None,
        description="log group of the targets' jobs; null if only existing jobs are compared",
    )
    events_log_group: Line | None = Field(
        default=None,
        description="log group for job state changes; null if the configuration comes from an "
        "older release",
    )
    monthly_cap_usd: float | None = Field(
        default=None,
        gt=0,
        description="cap on the total cost of a calendar month's runs; null for no cap",
    )
    comparison_definitions: tuple[Line, ...] = Field(
        default=(),
        max_length=100,
        description="ARNs of the job definitions that comparisons may run, in any revision; NAME* "
        "matches every name that begins with NAME",
    )
    targets: dict[Line, Target]

    def with_targets(self, targets: Mapping[str, Target]) -> Self:
        """Return a copy with these targets added, replacing any with the same names."""
        return self.model_copy(update={"targets": {**self.targets, **targets}})


parse_config = Config.parse
