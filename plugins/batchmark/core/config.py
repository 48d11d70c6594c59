"""What Terraform published: where to run, and where results go."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from batchmark.exceptions import ConfigError
from batchmark.record import first_problem

# Airflow variable, kept by Terraform in the SSM parameter /airflow/variables/batchmark.
VARIABLE = "batchmark"

PurchaseOption = Literal["spot", "on_demand"]


class _Published(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class ComputeEnvironments(_Published):
    """Names, as a job reads its own from AWS_BATCH_CE_NAME; none where a target buys otherwise."""

    spot: str | None
    on_demand: str | None


class Target(_Published):
    """One instance type on one device, with its own queues and job definition.

    `on_demand_queue` is for retries after a Spot reclaim: it may be `job_queue` itself, and is
    none where the target buys Spot alone.
    """

    device: Literal["cpu", "cuda"]
    instance_type: str
    vcpus: int = Field(ge=1)
    memory_mib: int = Field(ge=1)
    gpus: int = Field(ge=0)
    job_queue: str
    on_demand_queue: str | None
    job_definition: str
    compute_environments: ComputeEnvironments
    timeout_seconds: int = Field(ge=60)
    attempts: int = Field(ge=1)
    allow_cpu_fallback: bool


class Config(_Published):
    schema_version: Literal[1]
    name: str
    region: str
    bucket: str
    topic_arn: str
    log_group: str
    events_log_group: str | None = Field(
        default=None, description="of job state changes; null where an older Terraform published"
    )
    monthly_cap_usd: float | None = Field(
        default=None,
        gt=0,
        allow_inf_nan=False,
        description="most that the runs of a calendar month may cost; null for no cap",
    )
    targets: dict[str, Target]


def parse_config(text: str | None) -> Config:
    """Read the published JSON.

    Raises:
        ConfigError: there is none, or it is not of this release.
    """
    if not text:
        raise ConfigError(
            f"Airflow variable '{VARIABLE}' not found: run `terraform apply`, and let Airflow's "
            "secrets backend read the SSM parameter /airflow/variables/batchmark (README, "
            "'Point it at AWS')"
        )
    try:
        return Config.model_validate_json(text)
    except ValidationError as error:
        raise ConfigError(
            f"Airflow variable '{VARIABLE}' can't be used: {first_problem(error)}, got "
            f"{error.errors()[0]['input']!r}; apply the Terraform of this release"
        ) from error


def load_config() -> Config:
    """Read the configuration through Airflow's secrets backends."""
    from airflow.sdk import Variable

    return parse_config(Variable.get(VARIABLE, default=None))
