"""Finds the installation's file systems that no run needs. FSx bills for their full capacity."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from batchmark.aws import file_systems
from batchmark.aws.batch_targets import NO_ANSWER, why_unread
from batchmark.aws.boto_clients import Clients
from batchmark.checks.leak_judge import Judge, run_of, unknown_run
from batchmark.checks.leak_records import Endable, Resource
from batchmark.core.clusters.multi_node import NO_FILE_SYSTEM, MultiNode


def file_system_resources(
    name: str, judge: Judge, *, live_jobs: int, nodes: MultiNode | None = None
) -> Iterator[Resource]:
    """List the file systems, plus the SSM parameter if it names one that doesn't exist."""
    found = file_systems.of_installation(judge.client("fsx"), name)
    for described in found:
        yield _judge(described, live_jobs, judge)
    if nodes:
        there = {described["FileSystemId"] for described in found}
        yield from _parameter(nodes, judge.client, there)


def _judge(described: Mapping[str, Any], live_jobs: int, judge: Judge) -> Resource:
    """Judge a file system by its run's state and its age; if it names no run, by our live jobs."""
    run, limits = run_of(file_systems.tags_of(described)), judge.limits
    seen = Resource(
        kind="file system",
        id=described["FileSystemId"],
        what=f"{described['FileSystemType']}, {described['StorageCapacity']} GiB, "
        f"{described['Lifecycle']}",
        since=described["CreationTime"],
        run=run,
        verdict="in use",
        reason="Its run is live." if run else f"{live_jobs} job(s) of the installation are live.",
    )
    if described["Lifecycle"] == "DELETING":
        return seen.judged("ending", "It is being deleted.")
    if run is None:
        if live_jobs:
            return seen
        unused = "None of the installation's jobs is live."
        return judge.leaked(seen, unused, "file_systems", hours=limits.file_system_hours)
    # As nodes of EKS: what a run has stood up for itself is its own to end.
    endable: Endable = "run_file_systems"
    state = judge.ask_run(run)
    if state == "live":
        return judge.of_live_run(seen, run, limits.run_file_system_hours, endable)
    if state == "over":
        over = f"Its run {run.run_id} is over."
        return judge.leaked(seen, over, endable, minutes=limits.grace_minutes)
    return judge.leaked(seen, unknown_run(run.run_id), endable, hours=limits.file_system_hours)


def _parameter(nodes: MultiNode, client: Clients, there: set[str]) -> Iterator[Resource]:
    """Yield the SSM parameter if it names a missing file system, which nodes can't mount."""
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
            reason="The file system does not exist, so new nodes can't mount it.",
            endable="run_file_systems",
        )


def end_file_system(client: Clients, file_system_id: str, nodes: MultiNode | None) -> str:
    """Delete a file system, and prevent nodes that boot later from mounting it.

    The file system is deleted even if the parameter can't be changed, because it is billed.
    """
    problem = ""
    if nodes:
        ssm, parameter = client("ssm"), nodes.file_system.id_parameter
        try:
            if file_systems.parameter(ssm, parameter).value == file_system_id:
                file_systems.set_parameter(ssm, parameter, NO_FILE_SYSTEM)
        except NO_ANSWER as error:
            problem = (
                " Nodes may still try to mount it, because the SSM parameter could not be "
                f"reset: {why_unread(error)}"
            )
    file_systems.delete(client("fsx"), file_system_id)
    return f"Deleted.{problem}"


def end_parameter(client: Clients, name: str) -> str:
    file_systems.set_parameter(client("ssm"), name, NO_FILE_SYSTEM)
    return f"Set to {NO_FILE_SYSTEM!r}."
