"""Whether a run needs the file systems of the installation, which bill for all their storage."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any

from batchmark.aws import file_systems
from batchmark.aws.batch_targets import NO_ANSWER, why_unread
from batchmark.aws.boto_clients import Clients
from batchmark.checks.leak_records import Endable, LeakAges, LeakVerdict, Resource, RunName
from batchmark.core.clusters.multi_node import NO_FILE_SYSTEM, MultiNode
from batchmark.core.names import DAG_TAG, RUN_ID_TAG


def file_system_resources(
    name: str,
    client: Clients,
    ask_run: Callable[[RunName], str],
    limits: LeakAges,
    now: datetime,
    *,
    live_jobs: int,
    nodes: MultiNode | None = None,
) -> Iterator[Resource]:
    """The installation's file systems, and what nodes would mount if that is none of them."""
    found = file_systems.of_installation(client("fsx"), name)
    for described in found:
        yield _judge(described, live_jobs, ask_run, limits, now)
    if nodes:
        yield from _parameter(nodes, client, {described["FileSystemId"] for described in found})


def _judge(
    described: Mapping[str, Any],
    live_jobs: int,
    ask_run: Callable[[RunName], str],
    limits: LeakAges,
    now: datetime,
) -> Resource:
    """Used while the run that its tags name is live; without one, while any job of ours is."""
    tags = file_systems.tags_of(described)
    run_id = tags.get(RUN_ID_TAG)
    run = RunName(dag_id=tags.get(DAG_TAG), run_id=run_id) if run_id else None
    seen = Resource(
        kind="file system",
        id=described["FileSystemId"],
        what=f"{described['FileSystemType']}, {described['StorageCapacity']} GiB, "
        f"{described['Lifecycle']}",
        since=described["CreationTime"],
        run=run,
        verdict="in use",
        reason="Its run is live." if run else f"{live_jobs} job(s) of the installation live.",
    )

    if described["Lifecycle"] == "DELETING":
        return _judged(seen, "ending", "It is being deleted.")
    if run is None:
        if live_jobs:
            return seen
        return _judge_unused(seen, "No job of ours is live.", "file_systems", limits, now)
    state = ask_run(run)
    if state == "unknown":
        unknown = f"This Airflow has no run {run_id}: it was deleted, or is another Airflow's."
        return _judge_unused(seen, unknown, "run_file_systems", limits, now)
    return _judge_of_run(seen, state, limits, now)


def _judge_of_run(seen: Resource, state: str, limits: LeakAges, now: datetime) -> Resource:
    """As nodes of EKS: what a run has stood up for itself is its own to end."""
    run_id = seen.run.run_id if seen.run else None
    if state == "live":
        most = limits.run_file_system_hours
        if now - seen.since < timedelta(hours=most):
            return seen
        reason = f"Its run {run_id} is live for more than {most:g} hours: cancel it if it hangs."
    elif now - seen.since < timedelta(minutes=limits.grace_minutes):
        return _judged(seen, "new", f"It is younger than {limits.grace_minutes:g} minutes.")
    else:
        reason = f"Its run {run_id} is over."
    return _judged(seen, "leaked", reason, "run_file_systems")


def _judge_unused(
    seen: Resource, reason: str, endable: Endable, limits: LeakAges, now: datetime
) -> Resource:
    if now - seen.since < timedelta(hours=limits.file_system_hours):
        return _judged(seen, "new", f"It is younger than {limits.file_system_hours:g} hours.")
    return _judged(seen, "leaked", reason, endable)


def _judged(
    seen: Resource, verdict: LeakVerdict, reason: str, endable: Endable | None = None
) -> Resource:
    return seen.model_copy(update={"verdict": verdict, "reason": reason, "endable": endable})


def _parameter(nodes: MultiNode, client: Clients, there: set[str]) -> Iterator[Resource]:
    """The SSM parameter, if it names a file system that is gone: no node could mount it."""
    parameter = nodes.file_system.id_parameter
    value, changed_at = file_systems.parameter(client("ssm"), parameter)
    if value not in {NO_FILE_SYSTEM, *there}:
        yield Resource(
            kind="parameter",
            id=parameter,
            what=f"names {value}",
            target=nodes.target,
            since=changed_at,
            verdict="leaked",
            reason="No such file system is there, so nodes that boot can't mount it.",
            endable="run_file_systems",
        )


def end_file_system(client: Clients, file_system_id: str, nodes: MultiNode | None) -> str:
    """Delete a file system; nodes that boot from now on mount none, if they would mount this.

    It bills, so it is deleted even if nodes can't be told.
    """
    problem = ""
    if nodes:
        ssm, parameter = client("ssm"), nodes.file_system.id_parameter
        try:
            if file_systems.parameter(ssm, parameter).value == file_system_id:
                file_systems.set_parameter(ssm, parameter, NO_FILE_SYSTEM)
        except NO_ANSWER as error:
            problem = f" Nodes may still try to mount it: {why_unread(error)}"
    file_systems.delete(client("fsx"), file_system_id)
    return f"Deleted.{problem}"


def end_parameter(client: Clients, name: str) -> str:
    file_systems.set_parameter(client("ssm"), name, NO_FILE_SYSTEM)
    return f"Set to {NO_FILE_SYSTEM!r}."
