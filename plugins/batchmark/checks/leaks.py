"""Finds what bills for an installation though no Airflow run needs it, and ends it if allowed.

Only what carries the installation's tag is ever ended. Whatever is younger than a grace period is
left alone.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any, Literal

from batchmark.batch_environment import (
    NO_ANSWER,
    Clients,
    published_queues,
    why_unread,
)
from batchmark.config import Config, Target
from batchmark.job_description import JobDescription, moment
from batchmark.job_identity import DAG_TAG, INSTALLATION_TAG, RUN_TAG, slug
from batchmark.jobs import describe_jobs, is_live, terminate_job
from batchmark.leak_records import GuardReport, Kind, Limits, Resource, RunName, allowed

RUN_ID_TAG = "batchmark:run-id"
TARGET_TAG = "Target"  # of instances, by their launch template
MANUAL_RUN_ID = "manual"  # the job definitions' default
# Longer than a job can wait and run; Batch forgets finished jobs after 7 days.
LOOK_BACK = timedelta(days=30)
ON_AN_INSTANCE = ("STARTING", "RUNNING")
REASON = "Batchmark's leak guard: its Airflow run is over"

RunState = Literal["live", "over", "unknown"]
# What Airflow says of a run; unknown where it has no such run, or cannot have.
AskRun = Callable[[RunName], RunState]
Jobs = Mapping[str, list[JobDescription]]


def look(
    config: Config, client: Clients, ask_run: AskRun, *, limits: Limits, now: datetime
) -> GuardReport:
    """Everything that runs for this installation, judged.

    Raises:
        ClientError, BotoCoreError: Batch does not tell the jobs; the rest may stay unread.
    """
    jobs = _jobs(config, client("batch"), now)
    found = [
        _judge_job(config, job, ask_run, limits, now)
        for listed in jobs.values()
        for job in listed
        if is_live(job)
    ]
    unread = []
    for what, question in (("instances", _instances), ("file systems", _file_systems)):
        try:
            found += question(config, client, jobs, ask_run, limits, now)
        except NO_ANSWER as error:
            unread.append(f"{what}: {why_unread(error)}")
    return GuardReport(
        installation=config.name,
        region=config.region,
        looked_at=now,
        resources=tuple(found),
        unread=tuple(unread),
    )


def end_leaks(
    report: GuardReport, client: Clients, ask_run: AskRun, *, may_end: Collection[str]
) -> GuardReport:
    """End what leaked and may be ended; the report that comes back says what was done."""
    resources = []
    for one in report.resources:
        changes: dict[str, object] = {}
        if one.verdict == "leaked":
            if not allowed(one, may_end):
                changes["action"] = f"Left alone: end_leaks does not name {one.endable}."
            elif one.run and ask_run(one.run) == "live":
                changes["action"] = "Left alone: its run was started again meanwhile."
            else:
                changes = _end(one, client)
        resources.append(one.model_copy(update=changes))
    return report.model_copy(update={"resources": tuple(resources)})


def _end(one: Resource, client: Clients) -> dict[str, object]:
    try:
        done = ENDINGS[one.kind](client, one.id)
    except NO_ANSWER as error:
        return {"action": f"Could not be ended: {why_unread(error)}"}
    return {"ended": True, "action": done}


def _end_job(client: Clients, job_id: str) -> str:
    batch = client("batch")
    if not any(map(is_live, describe_jobs(batch, [job_id]).values())):
        return "It has ended by itself meanwhile."
    terminate_job(batch, job_id, REASON)
    return "Ended."


def _end_instance(client: Clients, instance_id: str) -> str:
    client("ec2").terminate_instances(InstanceIds=[instance_id])
    return "Ended."


def _end_file_system(client: Clients, file_system_id: str) -> str:
    client("fsx").delete_file_system(FileSystemId=file_system_id)
    return "Deleted."


ENDINGS: Mapping[Kind, Callable[[Clients, str], str]] = {
    "job": _end_job,
    "instance": _end_instance,
    "file system": _end_file_system,
}


def _jobs(config: Config, batch: Any, now: datetime) -> dict[str, list[JobDescription]]:
    """Each queue's jobs, the newest first: finished ones as listed, others as described."""
    since = str(int((now - LOOK_BACK).timestamp() * 1000))
    found = {}
    for queue in published_queues(config.targets):
        pages = batch.get_paginator("list_jobs").paginate(
            jobQueue=queue, filters=[{"name": "AFTER_CREATED_AT", "values": [since]}]
        )
        listed = [job for page in pages for job in page["jobSummaryList"]]
        live = [job["jobId"] for job in listed if is_live(job)]
        found[queue] = [job for job in listed if not is_live(job)]
        found[queue] += describe_jobs(batch, live).values()
    return found


def _judge_job(
    config: Config, job: JobDescription, ask_run: AskRun, limits: Limits, now: datetime
) -> Resource:
    tags = job.get("tags", {})
    run_id = job.get("parameters", {}).get("run_id")
    is_told = run_id and run_id != MANUAL_RUN_ID and slug(run_id) == tags.get(RUN_TAG)
    seen = Resource(
        kind="job",
        id=job["jobId"],
        what=f"{job['jobName']}, {job['status']}",
        target=tags.get("batchmark:target") or _target_of(config, job["jobQueue"]),
        since=moment(job, "createdAt"),
        run=RunName(dag_id=tags.get(DAG_TAG), run_id=run_id) if is_told else None,
        verdict="in use",
        reason="Its run is live.",
    )

    def judged(**changes: object) -> Resource:
        return seen.model_copy(update=changes)

    if tags.get(INSTALLATION_TAG) != config.name:
        return judged(verdict="by hand", reason="It has no tag of ours, so it is never touched.")
    if job.get("isTerminated") or job.get("isCancelled"):
        return judged(verdict="ending", reason="It was told to stop.")
    state = ask_run(seen.run) if seen.run else "unknown"
    if state == "live":
        return seen
    if now - seen.since < timedelta(minutes=limits.grace_minutes):
        return judged(verdict="new", reason=f"It is younger than {limits.grace_minutes:g} minutes.")
    if state == "over":
        return judged(verdict="leaked", reason=f"Its run {run_id} is over.", endable="jobs")
    shown = run_id if seen.run else tags.get(RUN_TAG, "(it names none)")
    return judged(
        verdict="leaked",
        reason=f"This Airflow has no run {shown}: it was deleted, or is another Airflow's.",
        endable="jobs_of_unknown_runs",
    )


def _instances(
    config: Config, client: Clients, jobs: Jobs, _: AskRun, limits: Limits, now: datetime
) -> Iterator[Resource]:
    """Our targets' instances; idle since their start or their target's last job, if that is later.

    A target's instance counts as used while any job of the target runs, on whichever instance.
    """
    pages = (
        client("ec2")
        .get_paginator("describe_instances")
        .paginate(
            Filters=[
                {"Name": f"tag:{INSTALLATION_TAG}", "Values": [config.name]},
                {"Name": "instance-state-name", "Values": ["pending", "running"]},
            ]
        )
    )
    described = [
        instance
        for page in pages
        for reservation in page["Reservations"]
        for instance in reservation["Instances"]
    ]
    for instance in described:
        target_name = _tags(instance).get(TARGET_TAG)
        of_target = _jobs_of(config.targets.get(target_name or ""), jobs)
        running = [job for job in of_target if job["status"] in ON_AN_INSTANCE]
        stopped = [moment(job, "stoppedAt") for job in of_target if "stoppedAt" in job]
        since = instance["LaunchTime"]
        idle_since = max([since, *stopped])
        is_idle = now - idle_since >= timedelta(minutes=limits.idle_minutes)
        waiting = [job for job in of_target if job["status"] == "RUNNABLE"]
        seen = Resource(
            kind="instance",
            id=instance["InstanceId"],
            what=f"{instance['InstanceType']}, {instance['State']['Name']}",
            target=target_name,
            since=since,
            verdict="in use" if running else "new",
            reason=f"{len(running)} job(s) of its target run."
            if running
            else f"Idle for less than {limits.idle_minutes:g} minutes.",
        )
        if running or not is_idle:
            yield seen
            continue
        reason = f"No job in STARTING or RUNNING since {idle_since:%Y-%m-%d %H:%M %Z}"
        if waiting:
            reason += f", though {len(waiting)} in RUNNABLE: it may never have joined its cluster"
        yield seen.model_copy(
            update={"verdict": "leaked", "reason": f"{reason}.", "endable": "instances"}
        )


def _file_systems(
    config: Config, client: Clients, jobs: Jobs, ask_run: AskRun, limits: Limits, now: datetime
) -> Iterator[Resource]:
    """Our file systems: used while their run is live, or any job of ours where none is named."""
    live = [job for listed in jobs.values() for job in listed if is_live(job)]
    pages = client("fsx").get_paginator("describe_file_systems").paginate()
    for described in (one for page in pages for one in page["FileSystems"]):
        tags = _tags(described)
        if tags.get(INSTALLATION_TAG) != config.name:
            continue
        run_id = tags.get(RUN_ID_TAG)
        run = RunName(dag_id=tags.get(DAG_TAG), run_id=run_id) if run_id else None
        is_used = ask_run(run) == "live" if run else bool(live)
        seen = Resource(
            kind="file system",
            id=described["FileSystemId"],
            what=f"{described['FileSystemType']}, {described['StorageCapacity']} GiB, "
            f"{described['Lifecycle']}",
            since=described["CreationTime"],
            run=run,
            verdict="in use",
            reason="Its run is live." if run else f"{len(live)} job(s) of the installation live.",
        )
        age = now - seen.since
        if described["Lifecycle"] == "DELETING":
            yield seen.model_copy(update={"verdict": "ending", "reason": "It is being deleted."})
        elif is_used:
            yield seen
        elif age < timedelta(hours=limits.file_system_hours):
            reason = f"It is younger than {limits.file_system_hours:g} hours."
            yield seen.model_copy(update={"verdict": "new", "reason": reason})
        else:
            reason = f"Its run {run_id} is not live." if run else "No job of ours is live."
            yield seen.model_copy(
                update={"verdict": "leaked", "reason": reason, "endable": "file_systems"}
            )


def _jobs_of(target: Target | None, jobs: Jobs) -> list[JobDescription]:
    if target is None:
        return []
    return [job for queue in published_queues({"": target}) for job in jobs.get(queue, ())]


def _target_of(config: Config, queue: str) -> str | None:
    for name, target in config.targets.items():
        if queue in published_queues({name: target}):
            return name
    return None


def _tags(described: Mapping[str, Any]) -> dict[str, str]:
    """Tags as EC2 and FSx list them."""
    return {tag["Key"]: tag["Value"] for tag in described.get("Tags", ())}
