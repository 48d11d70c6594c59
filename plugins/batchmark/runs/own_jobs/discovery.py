"""Finds the queues, job definitions and possible instance types of a comparison's sides."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import cache, partial
from typing import Any

from botocore.exceptions import ClientError

from batchmark.aws.batch_targets import (
    DENIED,
    environment_names,
    error_code,
    name_of,
    none_if_missing,
    requirements_of,
    why_unread,
)
from batchmark.aws.boto_clients import Clients
from batchmark.aws.existing_jobs import (
    InstanceType,
    find_definition,
    find_environments,
    find_queue,
    possible_types,
    queue_names,
)
from batchmark.aws.job_description import (
    AWSLOGS,
    BLOCKING,
    DEFAULT_LOG_GROUP,
    RETRY_RULES,
    log_driver,
    log_options,
    may_drop_lines,
)
from batchmark.core.config import ComputeEnvironments, Target
from batchmark.core.errors import PlanError, did_you_mean
from batchmark.core.formatting import count
from batchmark.runs.own_jobs.sides import FoundSide, Side

TIMEOUT_SECONDS = 3600  # where neither the definition nor the side has one
LEAST_TIMEOUT_SECONDS = 60  # by SubmitJob
WORKING = ("VALID", "UPDATING")
SPOT = "SPOT"
USABLE_MEMORY = 15 / 16  # of an instance, as in terraform/modules/batch/targets.tf


def discover(
    client: Clients, sides: Sequence[Side], allowed: Sequence[str]
) -> dict[str, FoundSide]:
    """Find each side's queue and exact job definition revision, and return the sides by name.

    `allowed` is the configuration's `comparison_definitions`.

    Raises:
        PlanError: a side can't be run or measured; the message says which and why.
        BotoCoreError, ClientError: an AWS request failed.
    """
    account = _Account(client, allowed)
    found = {}
    for side in sides:
        try:
            found[side.name] = _found(account, side)
        except PlanError as error:
            raise PlanError(f"side {side.name!r}: {error}") from error
        except ClientError as error:
            if error_code(error) not in (*DENIED, "ClientException"):
                raise
            raise PlanError(f"side {side.name!r} can't be found: {why_unread(error)}") from error
    return found


class _Account:
    """Caches lookups that several sides might need."""

    def __init__(self, client: Clients, allowed: Sequence[str]) -> None:
        batch, ec2, logs = client("batch"), client("ec2"), client("logs")
        self.allowed = allowed
        self.region: str = logs.meta.region_name
        self.queue = cache(partial(find_queue, batch))
        self.queue_names = cache(partial(queue_names, batch))
        self.definition = cache(partial(find_definition, batch))
        self.environments = cache(partial(find_environments, batch))
        self.types = cache(partial(possible_types, ec2))
        self.log_group_is_there = cache(
            lambda group: (
                none_if_missing(logs.filter_log_events, logGroupName=group, limit=1) is not None
            )
        )


def _found(account: _Account, side: Side) -> FoundSide:
    queue = _queue(account, side.job_queue)
    environments = _environments(account, queue)
    definition = _definition(account, side.job_definition)
    container: dict[str, Any] = definition["containerProperties"]
    needs = _needs(side, container)
    types = _types(account, environments, needs)
    command = side.command if side.command is not None else tuple(container.get("command") or ())
    return FoundSide(
        side=side,
        target=Target(
            device="cuda" if needs.gpus else "cpu",
            instance_type=types[0].name,
            vcpus=needs.vcpus,
            memory_mib=needs.memory_mib,
            gpus=needs.gpus,
            job_queue=queue["jobQueueArn"],
            on_demand_queue=None,
            job_definition=definition["jobDefinitionArn"],
            compute_environments=_by_purchase(environments),
            timeout_seconds=_timeout(side, definition),
            attempts=definition.get("retryStrategy", {}).get("attempts") or 1,
            allow_cpu_fallback=False,
        ),
        command=command,
        parameters=dict(definition.get("parameters") or {}) | side.parameters,
        types=tuple(each.name for each in types),
        notes=(
            *_log_notes(account, side, container),
            *_retry_notes(side, definition),
            *_memory_notes(side, needs, types),
        ),
    )


def _queue(account: _Account, name: str) -> dict[str, Any]:
    queue = account.queue(name)
    if queue is None:
        raise PlanError(
            f"there is no job queue {name!r} in this "
            f"region{did_you_mean(name, account.queue_names())}"
        )
    shown = queue["jobQueueName"]
    if queue["state"] != "ENABLED" or queue.get("status", "VALID") not in WORKING:
        raise PlanError(
            f"queue {shown} is {queue['state']} and {queue.get('status')} "
            f"({queue.get('statusReason', 'no reason given')}): fix it, or use another queue"
        )
    if queue.get("schedulingPolicyArn"):
        raise PlanError(
            f"queue {shown} uses the scheduling policy {name_of(queue['schedulingPolicyArn'])}, "
            "which needs a share identifier that Batchmark does not send: use a first-in, "
            "first-out queue"
        )
    return queue


def _environments(account: _Account, queue: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the enabled compute environments in the queue's order."""
    names = environment_names(queue)
    found = account.environments(names) if names else []
    for each in found:
        if reason := _unfit(each):
            raise PlanError(
                f"compute environment {each['computeEnvironmentName']} of queue "
                f"{queue['jobQueueName']} {reason}: Batchmark only watches jobs on EC2 instances "
                "that Batch manages through ECS; use a queue with only such environments"
            )
    enabled = [
        each
        for each in found
        if each.get("state") == "ENABLED" and each.get("status", "VALID") in WORKING
    ]
    if not enabled:
        raise PlanError(
            f"queue {queue['jobQueueName']} has no compute environment that is ENABLED and VALID: "
            "fix one, or use another queue"
        )
    return enabled


def _unfit(environment: Mapping[str, Any]) -> str | None:
    kind = environment.get("computeResources", {}).get("type", "")
    if environment.get("type") == "UNMANAGED":
        return "is UNMANAGED"
    if (
        environment.get("eksConfiguration")
        or environment.get("containerOrchestrationType") == "EKS"
    ):
        return "uses EKS"
    return f"uses {kind}" if kind not in ("EC2", SPOT) else None


def _by_purchase(environments: Sequence[Mapping[str, Any]]) -> ComputeEnvironments:
    """Separate the first environment of each purchase option from the rest."""
    first: dict[str, str] = {}
    for each in environments:
        is_spot = each["computeResources"]["type"] == SPOT
        first.setdefault("spot" if is_spot else "on_demand", each["computeEnvironmentName"])
    names = [each["computeEnvironmentName"] for each in environments]
    return ComputeEnvironments(
        spot=first.get("spot"),
        on_demand=first.get("on_demand"),
        more=tuple(name for name in names if name not in first.values()),
    )


def _definition(account: _Account, name: str) -> dict[str, Any]:
    found = account.definition(name)
    if found is None:
        raise PlanError(
            f"there is no ACTIVE job definition {name!r} in this region: specify a name, "
            "name:revision or ARN"
        )
    shown = f"job definition {found['jobDefinitionName']}:{found['revision']}"
    arn = found["jobDefinitionArn"].rpartition(":")[0]
    if not any(fnmatchcase(arn, each) for each in account.allowed):
        raise PlanError(
            f"{shown} must be allowed explicitly, because whoever starts a comparison can run any "
            f"command with its role: add {arn} to job_definition_arns in Terraform's "
            "comparison_access or in its job_comparison stack, and apply; currently allowed: "
            f"{', '.join(account.allowed) or 'none'}"
        )
    if found["status"] != "ACTIVE":
        raise PlanError(
            f"{shown} is {found['status']}: use an ACTIVE revision, or omit the revision"
        )
    if found["type"] != "container":
        raise PlanError(f"{shown} is of type {found['type']}: use one of type container")
    for kind in ("eksProperties", "ecsProperties"):
        if found.get(kind):
            raise PlanError(f"{shown} has {kind}: use one with containerProperties")
    if "FARGATE" in found.get("platformCapabilities", ()):
        raise PlanError(f"{shown} is for Fargate, whose hosts are not visible: use one for EC2")
    return found


def _needs(side: Side, container: Mapping[str, Any]) -> InstanceType:
    """Return the job's resource requests, including overrides, as a minimal instance type."""
    asked = requirements_of(container)
    vcpus = side.vcpus or asked.get("VCPU", 1)
    memory = side.memory_mib or asked.get("MEMORY", 4)
    gpus = side.gpus or asked.get("GPU", 0)
    return InstanceType("", int(vcpus), int(memory), int(gpus))


def _types(
    account: _Account, environments: Sequence[Mapping[str, Any]], needs: InstanceType
) -> list[InstanceType]:
    """Return the instance types that the job can run on, smallest first."""
    named = tuple(
        dict.fromkeys(
            name for each in environments for name in each["computeResources"]["instanceTypes"]
        )
    )
    possible = account.types(named)
    most = {
        count(needs.vcpus, "vCPU"): (needs.vcpus, [each.vcpus for each in possible]),
        f"{needs.memory_mib} MiB": (needs.memory_mib, [each.memory_mib for each in possible]),
        count(needs.gpus, "GPU"): (needs.gpus, [each.gpus for each in possible]),
    }
    for shown, (asked, of_each) in most.items():
        if asked > (there := max(of_each, default=0)):
            raise PlanError(
                f"its job requests {shown}, but none of the queue's instance types "
                f"({', '.join(named)}) has more than {there}: lower the request or use another "
                "queue"
            )
    fitting = [each for each in possible if each.holds(needs)]
    if not fitting:
        raise PlanError(
            f"its job requests {', '.join(most)}, but no instance of {', '.join(named)} has all of "
            "that in addition to ECS's share of memory: request less, or use another queue"
        )
    return fitting


def _timeout(side: Side, definition: Mapping[str, Any]) -> int:
    defined = definition.get("timeout", {}).get("attemptDurationSeconds")
    seconds = int(side.timeout_seconds or defined or TIMEOUT_SECONDS)
    if seconds < LEAST_TIMEOUT_SECONDS:
        raise PlanError(
            f"its definition's timeout is {seconds} s, below Batch's minimum of "
            f"{LEAST_TIMEOUT_SECONDS} s: set the side's timeout_seconds"
        )
    return seconds


def _log_notes(account: _Account, side: Side, container: Mapping[str, Any]) -> Iterator[str]:
    """Yield notes on what will be unknown because a side's log is missing or might be incomplete.

    Raises:
        PlanError: the log is missing, but the side's check or output needs it.
    """
    problem = _log_problem(account, container)
    if problem and (side.check or side.output):
        raise PlanError(
            f"its check or output is read from the job's log, but {problem}; or omit both"
        )
    if problem:
        yield (f"Side {side.name}: its metrics and host will be unknown, because {problem}.")
    elif may_drop_lines(container):
        mode = log_options(container).get("mode")
        how = f"in mode {mode}" if mode else "without a mode, so non-blocking by ECS's default"
        yield (
            f"Side {side.name}: its log may lose lines, including metrics, because its definition "
            f"uses {AWSLOGS} {how}: set mode to {BLOCKING}."
        )


def _log_problem(account: _Account, container: Mapping[str, Any]) -> str | None:
    """Return why the jobs' log can't be read, and how to fix it; None if it can be read."""
    driver, options = log_driver(container), log_options(container)
    if driver != AWSLOGS:
        return f"its definition uses the log driver {driver}: choose one that uses {AWSLOGS}"
    region = options.get("awslogs-region", account.region)
    if region != account.region:
        return f"its definition logs to {region}: choose one that logs to {account.region}"
    group = options.get("awslogs-group", DEFAULT_LOG_GROUP)
    try:
        there = account.log_group_is_there(group)
    except ClientError as error:
        if (code := error_code(error)) not in DENIED:
            raise
        return (
            f"Airflow is not allowed to read its log group {group} ({code}): add it to Terraform's "
            "log_group_names"
        )
    made = group == DEFAULT_LOG_GROUP or options.get("awslogs-create-group") == "true"
    return None if there or made else f"its log group {group} does not exist: create it"


def _retry_notes(side: Side, definition: Mapping[str, Any]) -> Iterator[str]:
    strategy = definition.get("retryStrategy", {})
    rules = tuple(
        rule | {"action": rule["action"].upper()} for rule in strategy.get("evaluateOnExit", ())
    )
    if (strategy.get("attempts") or 1) > 1 and rules != RETRY_RULES:
        yield (
            f"Side {side.name}: its definition's retry strategy is not used. Only jobs that lost "
            "their instance, or whose image could not be pulled or started in time, are retried."
        )


def _memory_notes(side: Side, needs: InstanceType, types: Sequence[InstanceType]) -> Iterator[str]:
    most = max(each.memory_mib for each in types)
    if needs.memory_mib > most * USABLE_MEMORY:
        yield (
            f"Side {side.name}: it requests {needs.memory_mib} MiB of memory, but no instance that "
            f"it can get has more than {most}, and ECS reserves some of that. If its jobs stay "
            "RUNNABLE, request less."
        )
