"""The targets of the matrix: each is broken, or made to be broken, in its own way."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from batchmark.aws.job_description import RETRY_RULES
from batchmark.core.config import Config, parse_config
from laptop.aws import AwsClients
from laptop.stack import ROOT
from tests.stand_ins import diagnosis_answers

PARAMETER = "/airflow/variables/batchmark"
SCRIPT = ROOT / "tests" / "faults" / "stand_in_job.py"
MISSING_IMAGE = "123456789012.dkr.ecr.us-east-1.amazonaws.com/batchmark:never-pushed"
STOPS_EARLY = "stops-early"  # by Batch's times


def job_prefix(config: Config, target: str) -> str:
    """What the names of a target's jobs begin with."""
    return f"{config.name}-{target}-"


def publish(aws: AwsClients, instructions: Path) -> Config:
    """Make the targets' queues and job definitions, and add them to what Terraform published."""
    batch, ssm = aws.client("batch"), aws.client("ssm")
    config = json.loads(ssm.get_parameter(Name=PARAMETER)["Parameter"]["Value"])
    base = config["targets"]["c5.2xlarge"]

    def define(target: str, *, image: str = "none", vcpus: int = 1, real: bool = False) -> str:
        answer = batch.register_job_definition(
            jobDefinitionName=f"fault-{target}",
            type="container",
            parameters={"suite": "own", "dtype": "suite", "run_id": "none", "output": "none"},
            containerProperties=container(
                target,
                real_command(target) if real else command(instructions, target),
                config["log_group"],
                image=image,
                vcpus=vcpus,
            ),
            retryStrategy={"attempts": base["attempts"], "evaluateOnExit": list(RETRY_RULES)},
            timeout={"attemptDurationSeconds": 600},
        )
        return str(answer["jobDefinitionArn"])

    def target(definition: str, **changes: Any) -> dict[str, Any]:
        return {**base, "job_definition": definition, **changes}

    def alone(name: str, **asked: Any) -> dict[str, Any]:
        """On a queue of its own: what waits in a queue that is at work is not stuck yet."""
        like = resources_of(batch, base["compute_environments"]["spot"])
        own = make_queue(batch, f"fault-{name}", like)
        environments = {"spot": f"fault-{name}", "on_demand": None}
        return target(
            define(name, **asked),
            job_queue=own,
            on_demand_queue=None,
            compute_environments=environments,
        )

    plain = define("plain")
    config["comparison_definitions"] = [plain.rpartition(":")[0]]
    config["targets"] |= {
        "plain": target(plain),
        "never-fits": alone("never-fits", vcpus=9999),
        "missing-image": target(define("missing-image", image=MISSING_IMAGE)),
        STOPS_EARLY: target(define(STOPS_EARLY)),
        "spot-once": target(define("spot-once", real=True)),
        "spot-always": target(define("spot-always")),
        "disabled-queue": alone("disabled-queue"),
        "invalid-environment": alone("invalid-environment"),
    }
    text = json.dumps(config)
    published = parse_config(text)
    ssm.put_parameter(Name=PARAMETER, Value=text, Overwrite=True)
    batch.update_job_queue(jobQueue="fault-disabled-queue", state="DISABLED")
    return published


def resources_of(batch: Any, environment: str) -> dict[str, Any]:
    """Those of a compute environment, for another like it."""
    (found,) = batch.describe_compute_environments(computeEnvironments=[environment])[
        "computeEnvironments"
    ]
    resources: dict[str, Any] = found["computeResources"]
    return resources


def make_queue(batch: Any, name: str, resources: Mapping[str, Any]) -> str:
    """A queue with an environment of its own, both of this name."""
    batch.create_compute_environment(
        computeEnvironmentName=name, type="MANAGED", state="ENABLED", computeResources=resources
    )
    answer = batch.create_job_queue(
        jobQueueName=name,
        priority=1,
        state="ENABLED",
        computeEnvironmentOrder=[{"order": 1, "computeEnvironment": name}],
    )
    return str(answer["jobQueueArn"])


def container(
    target: str,
    command: Sequence[str],
    log_group: str | None,
    *,
    image: str = "none",
    vcpus: int = 1,
    memory: int = 256,
) -> dict[str, Any]:
    """What a job definition says of its container."""
    return diagnosis_answers.container(vcpus, memory, 0, image) | {
        "command": command,
        "logConfiguration": {
            "logDriver": "awslogs",
            "options": {"awslogs-group": log_group, "awslogs-stream-prefix": target},
        },
    }


def command(instructions: Path, target: str) -> list[str]:
    """The stand-in for the job."""
    run = ["--run-id", "Ref::run_id", "--target", target, "--suite", "Ref::suite"]
    return ["python", str(SCRIPT), str(instructions), *run, "--output", "Ref::output"]


def real_command(target: str) -> list[str]:
    """The real job on the suite of own workloads: two rows that take their whole time."""
    return [
        *("python", "-m", "batchmark_job", "run", "--suite", "Ref::suite", "--device", "cpu"),
        *("--threads", "1", "--run-id", "Ref::run_id", "--target", target),
        *("--output", "Ref::output", "--precision", "0", "--samples", "10000"),
        *("--max-seconds", "4", "--no-ceilings"),
    ]
