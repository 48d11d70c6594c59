"""Multi-node jobs: the job itself has neither container nor log, its main node has both.

So such a job is described here with its main node as its one child. Its state is Batch's own: it
follows the main node's. Other nodes are not described, as the main node's log says what became of
them; nothing but the job itself is ever terminated.
"""

from __future__ import annotations

from collections.abc import Sequence

from batchmark.aws.job_description import CHILDREN, JobDescription

NODE_SEPARATOR = "#"


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
