"""Checks that the published AWS resources exist, are valid, and are large enough for a run."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from datetime import datetime
from functools import partial
from typing import Any

from batchmark.aws.batch_targets import (
    NO_ANSWER,
    BatchEnvironment,
    container_of,
    environment_names,
    name_of,
    newest_definition,
    none_if_missing,
    published_environments,
    requirements_of,
    why_unread,
)
from batchmark.aws.boto_clients import Clients
from batchmark.checks.image import check_images
from batchmark.checks.machine_image import check_amis
from batchmark.checks.quota import check_quotas
from batchmark.checks.records import Check, EnvironmentCheck
from batchmark.checks.reservations import check_reservations
from batchmark.core.config import Config, Target

APPLY = "The SSM parameter does not match what exists in AWS: run `terraform apply`."
NAME_ANOTHER = "Choose another one in the form."
CHANGING = ("CREATING", "UPDATING")


def check_environment(
    config: Config,
    client: Clients,
    *,
    targets: Collection[str],
    now: datetime,
    nodes: int = 1,
    foreign: bool = False,
    own_jobs: bool = False,
) -> EnvironmentCheck:
    """Check these targets; a question gets the status 'not checked' if AWS doesn't answer it.

    `nodes` is the size of a multi-node target's largest job. With `foreign`, others made the queues
    and job definitions, so nothing is compared with the published configuration; with `own_jobs`,
    everything is, except for what the job definitions request.
    """
    chosen = {name: config.targets[name] for name in targets}
    shown = ", ".join(chosen)
    environment = BatchEnvironment(
        config, chosen, client, nodes, foreign=foreign, own_jobs=own_jobs
    )
    checks: list[Check] = []
    for name, question in QUESTIONS.items():
        try:
            checks += question(environment)
        except NO_ANSWER as error:
            seen = why_unread(error)
            checks.append(Check(name=name, target=shown, status="not checked", seen=seen))
    return EnvironmentCheck(
        installation=config.name, region=config.region, checked_at=now, checks=tuple(checks)
    )


def check_published(environment: BatchEnvironment) -> Iterator[Check]:
    """Check the published resources that all targets share: the bucket, topic and log groups."""
    config, client = environment.config, environment.client
    bucket, topic = config.bucket, config.topic_arn
    yield _existence("bucket", "all", bucket, client("s3").head_bucket, Bucket=bucket)
    if topic:
        yield _existence("topic", "all", topic, client("sns").get_topic_attributes, TopicArn=topic)
    for group in filter(None, (config.log_group, config.events_log_group)):
        # Asking for one stream fails if there is no such group.
        ask = client("logs").describe_log_streams
        yield _existence("log group", "all", group, ask, logGroupName=group, limit=1)


def check_compute_environments(environment: BatchEnvironment) -> Iterator[Check]:
    """Check that environments are VALID, ENABLED and large enough for a target's largest job.

    Jobs that share an instance must all fit at once, because they wait for each other.
    """
    for target_name, target in environment.targets.items():
        at_once = target.max_replicas or environment.instances_at_once(target)
        for name in published_environments(target).values():
            described = environment.compute_environments.get(name, {})
            most = described.get("computeResources", {}).get("maxvCpus")
            check = _state("compute environment", target_name, name, described, environment)
            if check.status == "ok" and most is not None and most < at_once * target.vcpus:
                each = "nodes" if target.most_nodes else "jobs"
                asked = "a job needs" if at_once == 1 else f"each of {at_once} {each} needs"
                seen = f"{name} is limited to {most} vCPUs, but {asked} {target.vcpus}."
                raised = "Raise max_vcpus in target_overrides."
                if environment.foreign:
                    raised = "Raise the environment's maxvCpus."
                if target.most_nodes:
                    raised = "Raise most_nodes in terraform/stacks/multi_node."
                check = check.judged("fail", seen, raised)
            yield check


def check_queues(environment: BatchEnvironment) -> Iterator[Check]:
    """Check that queues are VALID and ENABLED, and try the published environments in order."""
    for target_name, target in environment.targets.items():
        environments = published_environments(target)
        orders = {target.job_queue: list(environments.values())}
        if target.on_demand_queue not in (None, target.job_queue):
            orders[str(target.on_demand_queue)] = [environments.get("on_demand", "none")]
        for arn, order in orders.items():
            described = environment.job_queues.get(arn, {})
            name = described.get("jobQueueName", arn)
            check = _state("job queue", target_name, name, described, environment)
            seen = list(map(name_of, environment_names(described)))
            if check.status == "ok" and seen != order and not environment.foreign:
                text = (
                    f"{name} tries its compute environments in the order {', '.join(seen)}, "
                    f"not in the published order {', '.join(order)}."
                )
                check = check.judged("fail", text, APPLY)
            yield check


def check_job_definitions(environment: BatchEnvironment) -> Iterator[Check]:
    """Check that definitions are ACTIVE and up to date, and match the published configuration."""
    for target_name, target in environment.targets.items():
        check = partial(Check, name="job definition", target=target_name)
        described = environment.job_definitions.get(target.job_definition)
        if described is None or described["status"] != "ACTIVE":
            state = described["status"] if described else "missing"
            seen = f"{name_of(target.job_definition)} is {state}."
            yield check(status="fail", seen=seen, remedy=_remedy(environment))
            continue
        name, revision = described["jobDefinitionName"], described["revision"]
        differences: list[str] = []
        if not (environment.foreign or environment.own_jobs):
            differences += _differences(target, described)
        if not environment.foreign:
            newest = newest_definition(environment.client("batch"), name) or described
            if newest["revision"] > revision:
                differences.append(f"revision {newest['revision']} is newer")
        seen = "; ".join([f"{name}:{revision} is ACTIVE", *differences])
        status, remedy = ("warn", APPLY) if differences else ("ok", "")
        yield check(status=status, seen=f"{seen}.", remedy=remedy)


def check_roles(environment: BatchEnvironment) -> Iterator[Check]:
    """Check jobs' roles and compute environments' instance profiles, except foreign ones.

    Airflow has no permission to read foreign roles.
    """
    if environment.foreign:
        return
    iam = environment.client("iam")
    asked = {
        "job role": (iam.get_role, "RoleName"),
        "execution role": (iam.get_role, "RoleName"),
        "instance profile": (iam.get_instance_profile, "InstanceProfileName"),
    }
    for (kind, arn), targets in _roles(environment).items():
        call, parameter = asked[kind]
        name = name_of(arn)
        yield _existence(kind, ", ".join(targets), name, call, **{parameter: name})


Question = Callable[[BatchEnvironment], Iterator[Check]]
QUESTIONS: Mapping[str, Question] = {
    "published names": check_published,
    "compute environment": check_compute_environments,
    "AMI": check_amis,
    "job queue": check_queues,
    "job definition": check_job_definitions,
    "image": check_images,
    "role": check_roles,
    "vCPU quota": check_quotas,
    "capacity reservation": check_reservations,
}


def _existence(
    what: str, target: str, name: str, call: Callable[..., object], **arguments: Any
) -> Check:
    ok = Check(name=what, target=target, status="ok", seen=f"{name} exists.")
    try:
        if none_if_missing(call, **arguments) is None:
            return ok.judged("fail", f"{name} does not exist.", APPLY)
    except NO_ANSWER as error:
        return ok.judged("not checked", why_unread(error))
    return ok


def _remedy(environment: BatchEnvironment) -> str:
    """Return the remedy for a missing resource."""
    return NAME_ANOTHER if environment.foreign else APPLY


def _state(
    what: str,
    target: str,
    name: str,
    described: Mapping[str, Any],
    environment: BatchEnvironment,
) -> Check:
    """Check that a compute environment or queue exists and is VALID and ENABLED."""
    ok = Check(name=what, target=target, status="ok", seen=f"{name} is ENABLED and VALID.")
    if not described:
        return ok.judged("fail", f"{name} does not exist.", _remedy(environment))
    state, status = described["state"], described["status"]
    if (state, status) == ("ENABLED", "VALID"):
        return ok
    seen = f"{name} is {state} and {status}: {described.get('statusReason', 'no reason given')}"
    if state == "ENABLED" and status in CHANGING:
        return ok.judged("warn", seen, "Wait until the change is complete.")
    mend, apply = (
        ("Enable it in the Batch console", ", or `terraform apply`")
        if state != "ENABLED"
        else ("Fix the problem in its status reason", ", then `terraform apply`")
    )
    return ok.judged("fail", seen, f"{mend}{'' if environment.foreign else apply}.")


def _differences(target: Target, definition: Mapping[str, Any]) -> Iterator[str]:
    """Yield each difference between a job definition and the published configuration."""
    asked = requirements_of(container_of(definition))
    seconds = definition.get("timeout", {}).get("attemptDurationSeconds")
    pairs: dict[str, tuple[float | None, float | None]] = {
        "vCPUs": (asked.get("VCPU"), target.vcpus),
        "MiB of memory": (asked.get("MEMORY"), target.memory_mib),
        "GPUs": (asked.get("GPU", 0), target.gpus),
    }
    if target.most_nodes:  # what its nodes have is published, and each has one container
        pairs = {}
    pairs |= {
        "attempts": (definition.get("retryStrategy", {}).get("attempts", 1), target.attempts),
        "seconds per attempt": (seconds, target.timeout_seconds),
    }
    for what, (seen, published) in pairs.items():
        if seen != published:
            shown = "no" if seen is None else f"{seen:g}"
            yield f"it has {shown} {what}, but the published value is {published}"


def _roles(environment: BatchEnvironment) -> dict[tuple[str, str], list[str]]:
    """Return the targets that use each role or instance profile, by its kind and ARN."""
    found: dict[tuple[str, str], list[str]] = {}
    for name, target in environment.targets.items():
        container = environment.container_of(target)
        used = {
            "job role": {container.get("jobRoleArn")},
            "execution role": {container.get("executionRoleArn")},
            "instance profile": {
                environment.compute_environments.get(published, {})
                .get("computeResources", {})
                .get("instanceRole")
                for published in published_environments(target).values()
            },
        }
        for kind, arns in used.items():
            for arn in sorted(filter(None, arns)):
                found.setdefault((kind, arn), []).append(name)
    return found
