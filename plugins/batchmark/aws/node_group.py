"""Scales the EKS node group so that its single node exists only while a run needs it."""

from __future__ import annotations

from datetime import datetime
from typing import Any, NamedTuple

from batchmark.core.clusters.cluster import Cluster
from batchmark.core.names import DAG_TAG, RUN_ID_TAG


class NodeGroup(NamedTuple):
    arn: str
    size: int
    changed_at: datetime
    tags: dict[str, str]
    issues: tuple[str, ...]  # why it could not start or end its node


def describe(eks: Any, cluster: Cluster) -> NodeGroup:
    found = eks.describe_nodegroup(clusterName=cluster.cluster, nodegroupName=cluster.node_group)
    group = found["nodegroup"]
    issues = group.get("health", {}).get("issues", ())
    return NodeGroup(
        arn=group["nodegroupArn"],
        size=group["scalingConfig"]["desiredSize"],
        changed_at=group["modifiedAt"],
        tags=group.get("tags", {}),
        issues=tuple(f"{issue['code']}: {issue['message']}" for issue in issues),
    )


def start(eks: Any, cluster: Cluster, *, dag_id: str, run_id: str) -> None:
    """Request the node and tag its group with the run, so the leak guard can end the node later."""
    tags = {DAG_TAG: dag_id, RUN_ID_TAG: run_id}
    eks.tag_resource(resourceArn=describe(eks, cluster).arn, tags=tags)
    _resize(eks, cluster, 1)


def end(eks: Any, cluster: Cluster) -> None:
    _resize(eks, cluster, 0)
    arn = describe(eks, cluster).arn
    eks.untag_resource(resourceArn=arn, tagKeys=[DAG_TAG, RUN_ID_TAG])


def _resize(eks: Any, cluster: Cluster, size: int) -> None:
    eks.update_nodegroup_config(
        clusterName=cluster.cluster,
        nodegroupName=cluster.node_group,
        scalingConfig={"desiredSize": size},
    )
