"""Jobs of several parts, described here as one job with its children beside it.

The parent of an array job has neither container nor log, and is PENDING while its children run.
Batch gives children no tags, so nothing but the parent is ever terminated.

A multi-node job has neither container nor log, its main node has both, and is its one child here.
Its state is Batch's own: it follows the main node's. Other nodes are not described, as the main
node's log says what became of them; nothing but the job itself is ever terminated.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from batchmark.aws.job_description import (
    CHILDREN,
    FINISHED,
    ON_AN_INSTANCE,
    PARENT_REASON,
    JobDescription,
    host_terminated,
)

ON_THE_WAY = ("SUBMITTED", "PENDING", "RUNNABLE", *ON_AN_INSTANCE)
NODE_SEPARATOR = "#"


def child_id(job_id: str, index: int) -> str:
    return f"{job_id}:{index}"


def child_ids(job: JobDescription) -> list[str]:
    """The ids of an array job's children; none for any other job, a child included."""
    size = job.get("arrayProperties", {}).get("size", 0)
    return [child_id(job["jobId"], index) for index in range(size)]


def occupies_instance(job: Mapping[str, Any]) -> bool:
    """Whether a job, or a child of it, is on an instance, by what ListJobs says of it, too."""
    counts = job.get("arrayProperties", {}).get("statusSummary") or {}
    return job["status"] in ON_AN_INSTANCE or any(counts.get(each) for each in ON_AN_INSTANCE)


def with_children(parent: JobDescription, children: Sequence[JobDescription]) -> JobDescription:
    """An array job as one job: as far as the child that is furthest behind.

    Container, attempts and times are those of the child that tells most: the first, or, if the job
    has failed, the one that failed first. Where several failed, one that lost its host comes before
    those that waited for it in vain.
    """
    if not children or len(children) < len(child_ids(parent)):  # not all are there yet
        return parent
    told = telling_child(parent | {CHILDREN: children})
    whole = parent | {CHILDREN: list(children), "container": told.get("container", {})}
    if parent["status"] in FINISHED:
        shown = ("attempts", "startedAt", "stoppedAt")
        whole |= {name: told[name] for name in shown if name in told}
        behind = told
    else:
        live = [child for child in children if child["status"] not in FINISHED]
        behind = min(live, key=lambda job: ON_THE_WAY.index(job["status"]), default=told)
        whole |= {"status": behind["status"] if live else "RUNNING"}
        whole |= {"attempts": behind.get("attempts", [])}
    if reason := behind.get("statusReason"):
        whole |= {"statusReason": reason, PARENT_REASON: parent.get("statusReason")}
    return whole


def telling_child(job: JobDescription) -> JobDescription:
    """The child whose container and log tell most of an array job; any other job itself."""
    children = job.get(CHILDREN)
    if not children:
        return job
    failed = [child for child in children if child["status"] == "FAILED"]
    if job["status"] != "FAILED" or not failed:
        return first_child(job)
    return min(failed, key=lambda each: (not host_terminated(each), each.get("stoppedAt", 1e15)))


def first_child(job: JobDescription) -> JobDescription:
    """What writes the result document: an array job's first child, a multi-node job's main node.

    Any other job itself.
    """
    children: Sequence[JobDescription] = job.get(CHILDREN, ())
    writers = (child_id(job["jobId"], 0), main_node_id(job["jobId"]))
    return next((each for each in children if each["jobId"] in writers), job)


def main_node_id(job_id: str) -> str:
    """The id of the main node, which is the first by terraform/stacks/multi_node."""
    return f"{job_id}{NODE_SEPARATOR}0"


def main_node_ids(job: JobDescription) -> list[str]:
    """The id of a multi-node job's main node; none for any other job, a node included."""
    has_nodes = job.get("nodeProperties", {}).get("numNodes")
    is_node = NODE_SEPARATOR in job["jobId"]
    return [main_node_id(job["jobId"])] if has_nodes and not is_node else []


def job_id_of(node_or_job_id: str) -> str:
    """The id of the job that a node belongs to, or of any other job itself."""
    return node_or_job_id.partition(NODE_SEPARATOR)[0]


def with_main_node(job: JobDescription, nodes: Sequence[JobDescription]) -> JobDescription:
    """A multi-node job with the container and attempts of its main node, once there is one."""
    if not nodes:
        return job
    (node,) = nodes
    attempts = node.get("attempts") or job.get("attempts", [])
    node = moments_of(job) | node | {"attempts": attempts}
    own = {CHILDREN: [node], "container": node.get("container", {}), "attempts": attempts}
    return moments_of(node) | job | own


def moments_of(job: JobDescription) -> JobDescription:
    return {name: job[name] for name in ("startedAt", "stoppedAt") if name in job}
