"""Steps that submit jobs directly to Batch and check what the jobs leave behind."""

from __future__ import annotations

import json
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, Literal

from batchmark.aws.batch_jobs import describe_jobs, is_live, list_jobs, terminate_job
from batchmark.aws.batch_targets import NO_ANSWER
from batchmark.aws.boto_clients import all_pages
from batchmark.aws.job_description import (
    CHILDREN,
    FINISHED,
    ON_AN_INSTANCE,
    JobDescription,
    all_seconds,
    container_instance,
    log_location,
)
from batchmark.aws.job_hosts import JobHost, host_of
from batchmark.aws.job_log import newest_lines
from batchmark.aws.result_bucket import Bucket
from batchmark.checks.diagnosis.diagnose import diagnose
from batchmark.core.config import Target
from batchmark.core.formatting import count, seconds
from batchmark.core.names import document_prefix
from laptop.aws_check.check import Check
from laptop.aws_check.estimate import JOB_SECONDS
from laptop.aws_check.inputs import NAME, SHARED
from laptop.aws_check.step import NotCheckedError, Seen, StepError
from laptop.aws_check.steps.clean_up import hosts
from laptop.aws_check.steps.inbox import messages

Purchase = Literal["spot", "on_demand"]
PURCHASES: dict[Purchase, str] = {"spot": "Spot", "on_demand": "On-Demand"}
# Longer than a host takes to start and pull the image; a local cloud's host is ready.
PLACED_SECONDS, PLACED_LOCALLY_SECONDS = 900, 30
LINES = 3
USAGE_ERROR = 2  # exit code for an unknown suite
FAILING_SUITE = "none"
LOG_SECONDS = 60  # until CloudWatch Logs has the output of a job that has ended (inferred)
MESSAGE_SECONDS = 300
METRIC_SECONDS = 900  # until ListMetrics has a new metric, according to its API reference
OF_EVENTS = "JobStateChanges"  # in the same namespace, derived from the log of events
EMPTY_SECONDS = 1500


def job(check: Check, device: Literal["cpu", "cuda"], purchase: Purchase) -> Seen:
    """Submit a job to a target, and check the job's result document, log and host."""
    name, target = _target(check, device)
    queue = target.on_demand_queue if purchase == "on_demand" else target.job_queue
    ended, host = _run(check, name, target, str(queue), f"{device}-{purchase}", suite="smoke")
    told = [_told(ended)]
    cost = _usd(check, target, ended)
    if ended["status"] != "SUCCEEDED":
        raise StepError(" ".join([*told, *_last_lines(check, ended)]), cost)
    document = _document(check, name, ended)
    if document is None:
        raise StepError(f"{told[0]}, but there is no result document in raw/manual/{name}/", cost)
    actual = str(document["actual_device"])
    told.append(f"its document says {actual}, {document['status']}")
    if device != actual and not check.account.on_aws:
        told.append("as a local cloud has no GPU")
    told.append(f"{count(len(document['measurements']), 'row')}")
    if bought := host.purchase_option:
        told.append(f"on {PURCHASES[bought]}")
    told.append(f"log: {_last_lines(check, ended)[-1]!r}")
    if problem := _unexpected(check, device, purchase, actual, host):
        raise StepError(f"{', '.join(told)}: {problem}", cost)
    return Seen(", ".join(told), cost)


def _unexpected(
    check: Check, device: str, purchase: Purchase, actual: str, host: JobHost
) -> str | None:
    """Describe any difference from the request; on a local cloud, GPU jobs may run on the CPU."""
    if check.account.on_aws and actual != device:
        return f"it ran on {actual}, not {device}"
    if host.purchase_option not in (None, purchase):
        return f"{PURCHASES[purchase]} was requested"
    return None


def failing_job(check: Check) -> Seen:
    """Run a job that must fail because its suite does not exist."""
    name, target = _target(check, "cpu")
    ended, _ = _run(
        check, name, target, str(target.on_demand_queue), "failing", suite=FAILING_SUITE
    )
    cost = _usd(check, target, ended)
    lines = _last_lines(check, ended)
    told = f"{_told(ended)}, {lines[-1]!r}"
    code = ended.get("container", {}).get("exitCode")
    if (ended["status"], code) != ("FAILED", USAGE_ERROR) or "smoke" not in lines[-1]:
        raise StepError(told, cost)
    return Seen(told, cost)


def message(check: Check) -> Seen:
    """Wait for the SNS message about the failed job."""
    _, target = _target(check, "cpu")
    named = list_jobs(check.clients("batch"), [target.on_demand_queue], f"{NAME}-failing")
    ids = [each["jobId"] for each in named]
    seen: list[str] = []

    def come() -> str | None:
        seen.extend(messages(check))
        return next((text for text in seen if any(job_id in text for job_id in ids)), None)

    check.wait(
        come, MESSAGE_SECONDS, lambda: f"{count(len(seen), 'message')}, but none about the job,"
    )
    return Seen(f"it names the job; {count(len(seen), 'message')} in all")


def sharing(check: Check) -> Seen:
    """Run two jobs at once on a target's only host so that they share its GPU."""
    target = check.config.targets[SHARED]
    ended, _ = _run(
        check, SHARED, target, str(target.on_demand_queue), "shared", suite="smoke", size=2
    )
    cost = _usd(check, target, ended)
    children = ended.get(CHILDREN, [])
    on = {container_instance(child) for child in children}
    began = max((child.get("startedAt", 0) for child in children), default=0)
    at_once = began < min((child.get("stoppedAt", 0) for child in children), default=0)
    told = (
        f"{_told(ended)}, {count(len(children), 'job')} on {count(len(on), 'host')}, "
        f"{'at the same time' if at_once else 'one after the other'}"
    )
    if ended["status"] != "SUCCEEDED" or len(on) != 1 or not at_once:
        raise StepError(" ".join([told, *_last_lines(check, ended)]), cost)
    return Seen(told, cost)


def telemetry(check: Check) -> Seen:
    """Wait until CloudWatch lists metrics that jobs have sent in the last three hours."""
    cloudwatch, space = check.clients("cloudwatch"), f"Batchmark/{NAME}"
    asked = {"Namespace": space, "RecentlyActive": "PT3H"}

    def metrics() -> list[str]:
        found = all_pages(cloudwatch, "list_metrics", "Metrics", **asked)
        return sorted({each["MetricName"] for each in found} - {OF_EVENTS})

    names = check.wait(metrics, METRIC_SECONDS, lambda: f"no metric in {space}")
    return Seen(f"{count(len(names), 'metric')} in {space}: {', '.join(names)}")


def down_to_zero(check: Check) -> Seen:
    """Wait until no hosts are left."""
    if not check.account.on_aws:
        raise NotCheckedError("a local cloud has no hosts that cost money", passes=True)
    found: list[str] = []

    def none() -> bool:
        found[:] = hosts(check.clients)
        return not found

    check.wait(none, EMPTY_SECONDS, lambda: f"{', '.join(found)} are still there")
    return Seen("no host is left")


def _run(
    check: Check,
    name: str,
    target: Target,
    queue: str,
    label: str,
    *,
    suite: str,
    size: int | None = None,
) -> tuple[JobDescription, JobHost]:
    """Run a job, or an array job of `size` children, to completion.

    A live job submitted by an earlier start of the check is reused. No job is left running.

    Raises:
        StepError: the job did not start or end in time; the message gives the reason.
    """
    batch = check.clients("batch")
    named = f"{NAME}-{label}"
    under_way = [each for each in list_jobs(batch, [queue], named) if is_live(each)]
    if under_way:
        job_id = str(under_way[0]["jobId"])
    else:
        job_id = str(
            batch.submit_job(
                jobName=named,
                jobQueue=queue,
                jobDefinition=target.job_definition,
                parameters={"suite": suite},
                **({"arrayProperties": {"size": size}} if size else {}),
            )["jobId"]
        )
    check.say(f"{named}: job {job_id} on {name}")
    host = JobHost()

    def described() -> JobDescription:
        nonlocal host
        found = describe_jobs(batch, [job_id])[job_id]
        # AWS forgets a host soon after it has gone.
        if found["status"] in ON_AN_INSTANCE and host.purchase_option is None:
            host = host_of(check.clients, found)
        return found

    def placed() -> bool:
        return described()["status"] in (*ON_AN_INSTANCE, *FINISHED)

    def ended() -> JobDescription | None:
        found = described()
        return found if found["status"] in FINISHED else None

    over: JobDescription | None = None
    try:
        seconds_to_place = PLACED_SECONDS if check.account.on_aws else PLACED_LOCALLY_SECONDS
        check.wait(placed, seconds_to_place, lambda: described()["status"])
        over = check.wait(ended, 2 * JOB_SECONDS, lambda: described()["status"])
    except StepError as error:
        why = diagnose(
            check.clients,
            queue=queue,
            job=described(),
            events_log_group=check.config.events_log_group,
            now=datetime.now(UTC),
        )
        raise StepError(f"{error}. {why.message()}") from error
    else:
        return over, host
    finally:
        if over is None:
            with suppress(*NO_ANSWER):  # the original error is reported instead
                terminate_job(batch, job_id, "the check stopped waiting")


def _target(check: Check, device: str) -> tuple[str, Target]:
    """Return the only target for this device whose jobs don't share a GPU."""
    targets = check.config.targets.items()
    return next(
        (name, target)
        for name, target in targets
        if target.device == device and target.sharing is None
    )


def _told(ended: JobDescription) -> str:
    waited = (ended.get("startedAt", ended["stoppedAt"]) - ended["createdAt"]) / 1000
    code = ended.get("container", {}).get("exitCode")
    reason = ended.get("container", {}).get("reason") or ended.get("statusReason") or ""
    ran = all_seconds(ended)
    told = f"{ended['status']}, exit code {code}, started after {seconds(max(waited, 0.0))}"
    if ran:
        told += f", ran {seconds(ran)}"
    return f"{told}, {reason}" if reason and ended["status"] != "SUCCEEDED" else told


def _usd(check: Check, target: Target, ended: JobDescription) -> float:
    return check.usd(target.instance_type, all_seconds(ended) or 0.0)


def _last_lines(check: Check, ended: JobDescription) -> list[str]:
    location = log_location(ended)
    if location is None:
        return ["it has no log"]
    seconds = LOG_SECONDS if check.account.on_aws else 0
    try:
        return check.wait(
            lambda: newest_lines(check.clients("logs"), location, LINES),
            seconds,
            lambda: "its log is empty",
        )
    except StepError as error:
        return [str(error)]


def _document(check: Check, target: str, ended: JobDescription) -> dict[str, Any] | None:
    """Read the result document of a job that belongs to no run; return None if there is none."""
    bucket = Bucket(check.clients("s3"), check.config.bucket)
    begins = document_prefix(ended["jobId"])
    for key in bucket.keys(f"raw/manual/{target}/"):
        if key.rpartition("/")[2].startswith(begins):
            found: dict[str, Any] = json.loads(bucket.read(key))
            return found
    return None
