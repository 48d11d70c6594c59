"""Checks whether any run needs the EKS cluster's GPU node, which is billed while it exists."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from batchmark.aws.boto_clients import Clients
from batchmark.aws.node_group import NodeGroup, describe, end
from batchmark.checks.leak_judge import Judge, run_of
from batchmark.checks.leak_records import Resource
from batchmark.core.clusters.cluster import Cluster
from batchmark.core.names import TARGET_TAG


def cluster_resources(cluster: Cluster, judge: Judge) -> list[Resource]:
    """List the control plane, and the node or, if the group has none, any leftover instances."""
    eks = judge.client("eks")
    described = eks.describe_cluster(name=cluster.cluster)["cluster"]
    found = Resource(
        kind="cluster",
        id=cluster.cluster,
        what=f"EKS, Kubernetes {described['version']}",
        since=described["createdAt"],
        verdict="in use",
        reason="Managed by Terraform; billed until `terraform destroy` in eks_gpu_sharing.",
    )
    group = describe(eks, cluster)
    if group.size:
        return [found, _judge(cluster, group, judge)]
    return [found, *_left(cluster, group, judge)]


def _judge(cluster: Cluster, group: NodeGroup, judge: Judge) -> Resource:
    run = run_of(group.tags)
    seen = Resource(
        kind="node",
        id=f"{cluster.cluster}/{cluster.node_group}",
        what=f"{group.size} x {cluster.instance_type}",
        target=cluster.target,
        since=group.changed_at,
        run=run,
        verdict="in use",
        reason="Its run is live.",
    )
    if run and judge.ask_run(run) == "live":
        return judge.of_live_run(seen, run, judge.limits.node_hours, "nodes")
    grace = judge.limits.grace_minutes
    if judge.is_younger(seen, minutes=grace):
        return seen.judged("new", f"It was requested less than {grace:g} minutes ago.")
    reason = f"Its run {run.run_id} is not live." if run else "No run requested it."
    return seen.judged("leaked", reason, "nodes")


def _left(cluster: Cluster, group: NodeGroup, judge: Judge) -> Iterator[Resource]:
    """List instances that are still running although their node group's desired size is 0."""
    reason, since = "Its node group's desired size is 0", f"{group.changed_at:%Y-%m-%d %H:%M %Z}"
    may_end = judge.now - group.changed_at < timedelta(minutes=judge.limits.idle_minutes)
    for seen in judge.running_instances(cluster.name, **{TARGET_TAG: cluster.target}):
        if may_end:
            yield seen.judged("ending", f"{reason}.")
        else:
            yield seen.judged("leaked", f"{reason} since {since}.", "instances")


def end_node(cluster: Cluster, client: Clients) -> str:
    end(client("eks"), cluster)
    return "Ended."
