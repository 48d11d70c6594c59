"""Describes an array or multi-node job as a single job that includes its children.

An array job's parent has neither a container nor a log, and stays PENDING while its children run.
Batch gives the children no tags, and Airflow may only terminate tagged jobs, so only the parent is
ever terminated.

A multi-node job has neither a container nor a log; its main node has both, and is its only child
here. Batch derives the job's state from the main node. Other nodes are not described, because the
main node's log says what happened to them. Only the job itself is ever terminated.
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
    """Return the ids of an array job's children, or an empty list for a child or any other job."""
    size = job.get("arrayProperties", {}).get("size", 0)
    return [child_id(job["jobId"], index) for index in range(size)]


def occupies_instance(job: Mapping[str, Any]) -> bool:
    """Whether a job or one of its children is on an instance; also accepts a ListJobs summary."""
    counts = job.get("arrayProperties", {}).get("statusSummary") or {}
    return job["status"] in ON_AN_INSTANCE or any(counts.get(each) for each in ON_AN_INSTANCE)


def with_children(parent: JobDescription, children: Sequence[JobDescription]) -> JobDescription:
    """Merge an array job with its children; until it finishes, it has its slowest child's state.

    It has the container and, once finished, the attempts and times of the most informative child:
    the first one or, if the job failed, the one that failed first. A child that lost its host takes
    precedence over those that waited in vain for it. If children are missing, the parent is
    returned unchanged.
    """
    if not children or len(children) < len(child_ids(parent)):  # not all are there yet
        return parent
    told = most_informative_child(parent | {CHILDREN: children})
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


def most_informative_child(job: JobDescription) -> JobDescription:
    """Return the most informative child of an array or multi-node job; return others unchanged."""
    children = job.get(CHILDREN)
    if not children:
        return job
    failed = [child for child in children if child["status"] == "FAILED"]
    if job["status"] != "FAILED" or not failed:
        return first_child(job)
    return min(failed, key=lambda each: (not host_terminated(each), each.get("stoppedAt", 1e15)))


def first_child(job: JobDescription) -> JobDescription:
    """Return the child that writes the result: an array job's first child, or the main node.

    Any other job is returned unchanged.
    """
    children: Sequence[JobDescription] = job.get(CHILDREN, ())
    writers = (child_id(job["jobId"], 0), main_node_id(job["jobId"]))
    return next((each for each in children if each["jobId"] in writers), job)


def main_node_id(job_id: str) -> str:
    """Return the id of the main node, which is node 0 in terraform/stacks/multi_node."""
    return f"{job_id}{NODE_SEPARATOR}0"


def main_node_ids(job: JobDescription) -> list[str]:
    """Return a list with the ID of a multi-node job's main node; empty for nodes and other jobs."""
    has_nodes = job.get("nodeProperties", {}).get("numNodes")
    is_node = NODE_SEPARATOR in job["jobId"]
    return [main_node_id(job["jobId"])] if has_nodes and not is_node else []


def job_id_of(node_or_job_id: str) -> str:
    """Return the id of the job that a node belongs to; other ids are returned unchanged."""
    return node_or_job_id.partition(NODE_SEPARATOR)[0]


def with_main_node(job: JobDescription, nodes: Sequence[JobDescription]) -> JobDescription:
    """Add the main node's container and attempts to a multi-node job, if `nodes` contains it."""
    if not nodes:
        return job
    (node,) = nodes
    attempts = node.get("attempts") or job.get("attempts", [])
    node = moments_of(job) | node | {"attempts": attempts}
    own = {CHILDREN: [node], "container": node.get("container", {}), "attempts": attempts}
    return moments_of(node) | job | own


def moments_of(job: JobDescription) -> JobDescription:
    return {name: job[name] for name in ("startedAt", "stoppedAt") if name in job}
