"""Whether a run needs the EKS cluster's GPU node, which bills as long as it is there."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from typing import Any

from batchmark.aws.boto_clients import Clients
from batchmark.aws.node_group import NodeGroup, describe, end
from batchmark.checks.leak_records import LeakAges, Resource, RunName
from batchmark.core.clusters.cluster import Cluster
from batchmark.core.names import DAG_TAG, INSTALLATION_TAG, RUN_ID_TAG, TARGET_TAG


def cluster_resources(
    cluster: Cluster,
    client: Clients,
    ask_run: Callable[[RunName], str],
    limits: LeakAges,
    now: datetime,
) -> list[Resource]:
    """The control plane, and the node or, where none is wanted, what is left of it."""
    eks = client("eks")
    described = eks.describe_cluster(name=cluster.cluster)["cluster"]
    found = Resource(
        kind="cluster",
        id=cluster.cluster,
        what=f"EKS, Kubernetes {described['version']}",
        since=described["createdAt"],
        verdict="in use",
        reason="Terraform keeps it; it bills until `terraform destroy` in eks_gpu_sharing.",
    )
    group = describe(eks, cluster)
    if group.size:
        return [found, _judge(cluster, group, ask_run, limits, now)]
    return [found, *_left(cluster, group, client("ec2"), limits, now)]


def _judge(
    cluster: Cluster,
    group: NodeGroup,
    ask_run: Callable[[RunName], str],
    limits: LeakAges,
    now: datetime,
) -> Resource:
    run_id = group.tags.get(RUN_ID_TAG)
    run = RunName(dag_id=group.tags.get(DAG_TAG), run_id=run_id) if run_id else None
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
    if run and ask_run(run) == "live":
        if now - seen.since < timedelta(hours=limits.node_hours):
            return seen
        reason = (
            f"Its run {run_id} is live for more than {limits.node_hours:g} hours: "
            "cancel it if it hangs."
        )
        return seen.model_copy(update={"verdict": "leaked", "reason": reason, "endable": "nodes"})
    if now - seen.since < timedelta(minutes=limits.grace_minutes):
        reason = f"It was asked for less than {limits.grace_minutes:g} minutes ago."
        return seen.model_copy(update={"verdict": "new", "reason": reason})
    reason = f"Its run {run_id} is not live." if run else "No run asked for it."
    return seen.model_copy(update={"verdict": "leaked", "reason": reason, "endable": "nodes"})


def _left(
    cluster: Cluster, group: NodeGroup, ec2: Any, limits: LeakAges, now: datetime
) -> Iterator[Resource]:
    """Instances of the node group that run although it wants none."""
    filters = [
        {"Name": f"tag:{INSTALLATION_TAG}", "Values": [cluster.name]},
        {"Name": f"tag:{TARGET_TAG}", "Values": [cluster.target]},
        {"Name": "instance-state-name", "Values": ["pending", "running"]},
    ]
    pages = ec2.get_paginator("describe_instances").paginate(Filters=filters)
    for reservation in (entry for page in pages for entry in page["Reservations"]):
        for instance in reservation["Instances"]:
            seen = Resource(
                kind="instance",
                id=instance["InstanceId"],
                what=f"{instance['InstanceType']}, {instance['State']['Name']}",
                target=cluster.target,
                since=instance["LaunchTime"],
                verdict="ending",
                reason="Its node group wants no node.",
            )
            if now - group.changed_at < timedelta(minutes=limits.idle_minutes):
                yield seen
            else:
                reason = f"Its node group wants no node since {group.changed_at:%Y-%m-%d %H:%M %Z}."
                yield seen.model_copy(
                    update={"verdict": "leaked", "reason": reason, "endable": "instances"}
                )


def end_node(cluster: Cluster, client: Clients) -> str:
    end(client("eks"), cluster)
    return "Ended."
