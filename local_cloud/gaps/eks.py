"""Extends moto's EKS, which has only clusters and node groups.

Adds access entries, add-ons, pod identities and node group tags, and refuses the clusters and
node groups that EKS would refuse. Access entries and add-ons can't be updated.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from moto.core.responses import ActionResult
from moto.core.utils import utcnow
from moto.ec2.models import ec2_backends
from moto.eks import urls
from moto.eks.exceptions import (
    InvalidParameterException,
    ResourceInUseException,
    ResourceNotFoundException,
)
from moto.eks.models import Cluster, EKSBackend
from moto.eks.responses import EKSResponse
from moto.iam.exceptions import NotFoundException
from moto.iam.models import iam_backends
from moto.moto_api._internal import mock_random

# moto calls the response's method with the operation's name; its methods are untyped.
Response = Any

VERSIONS = ("1.35", "1.36")  # versions that EKS supports without a surcharge from 2026-12-02 on
ADDONS = {
    "coredns": "v1.12.4-eksbuild.1",
    "eks-pod-identity-agent": "v1.3.9-eksbuild.3",
    "kube-proxy": "v1.35.0-eksbuild.2",
    "vpc-cni": "v1.20.4-eksbuild.1",
}
LEAST_ZONES = 2  # of a cluster's subnets: EKS refuses fewer

Entries = dict[str, dict[str, Any]]


class Kind(NamedTuple):
    """A kind of cluster resource, with its names in calls, responses and ARNs."""

    name: str
    plural: str
    key: str
    shown: str
    arn_type: str = ""


ADDON = Kind("addon", "addons", "addonName", "addon", "addon")
ACCESS_ENTRY = Kind("access_entry", "access_entries", "principalArn", "accessEntry", "access-entry")
POD_IDENTITY = Kind(
    *("pod_identity_association", "pod_identity_associations", "associationId", "association"),
    "podidentityassociation",
)
UPDATE = Kind("update", "updates", "updateId", "update")


def fill() -> None:
    """Add the calls that Terraform makes but moto lacks, and refuse what EKS refuses."""
    check_clusters()
    check_node_groups()
    tag_node_groups()
    in_cluster = "{0}/clusters/(?P<name>[^/]+)"
    for path in (
        "updates/(?P<updateId>[^/]+)$",
        "addons$",
        "addons/(?P<addonName>[^/]+)$",
        "access-entries$",
        "access-entries/(?P<principalArn>.+)$",
        "pod-identity-associations$",
        "pod-identity-associations/(?P<associationId>[^/]+)$",
    ):
        urls.url_paths[f"{in_cluster}/{path}"] = urls.response.dispatch
    for call in (
        create_addon,
        create_access_entry,
        create_pod_identity_association,
        update_pod_identity_association,
        untag_resource,
    ):
        setattr(EKSResponse, call.__name__, call)
    for kind in (ADDON, ACCESS_ENTRY, POD_IDENTITY, UPDATE):
        setattr(EKSResponse, f"describe_{kind.name}", describing(kind))
    for kind in (ADDON, ACCESS_ENTRY, POD_IDENTITY):
        setattr(EKSResponse, f"delete_{kind.name}", deleting(kind))


def describing(kind: Kind) -> Callable[[Response], ActionResult]:
    return lambda self: ActionResult({kind.shown: find(self, kind)})


def deleting(kind: Kind) -> Callable[[Response], ActionResult]:
    def delete(self: Response) -> ActionResult:
        entry = find(self, kind)
        del entries(find_cluster(self), kind)[self._get_param(kind.key)]
        return ActionResult({kind.shown: {**entry, "status": "DELETING"}})

    return delete


def entries(cluster: Cluster, kind: Kind) -> Entries:
    """Return a cluster's resources of one kind, keyed by identifier."""
    found: Entries = cluster.__dict__.setdefault(kind.plural, {})
    return found


def add(
    self: Response, kind: Kind, key: str, arn_name: str, fields: dict[str, Any]
) -> ActionResult:
    """Add a resource with these fields and the fields common to all kinds."""
    cluster = find_cluster(self)
    found = entries(cluster, kind)
    if key in found:
        raise ResourceInUseException(
            clusterName=cluster.name, message=f"{kind.name} already exists: {key}"
        )
    found[key] = {
        "clusterName": cluster.name,
        f"{kind.shown}Arn": (
            f"arn:{self.eks_backend.partition}:eks:{self.region}:{self.current_account}:"
            f"{kind.arn_type}/{cluster.name}/{arn_name}"
        ),
        "createdAt": utcnow(),
        "modifiedAt": utcnow(),
        "tags": self._get_param("tags") or {},
        **fields,
    }
    return ActionResult({kind.shown: found[key]})


def find_cluster(self: Response) -> Cluster:
    found: Cluster = self.eks_backend.describe_cluster(name=self._get_param("name"))
    return found


def find(self: Response, kind: Kind) -> dict[str, Any]:
    cluster, key = find_cluster(self), self._get_param(kind.key)
    entry = entries(cluster, kind).get(key)
    if entry is None:
        raise ResourceNotFoundException(
            clusterName=cluster.name, message=f"No {kind.name} found for {key} in {cluster.name}."
        )
    return entry


def role_of(self: Response, arn: str) -> None:
    """Raise InvalidParameterException if the role does not exist."""
    backend = iam_backends[self.current_account][self.eks_backend.partition]
    try:
        backend.get_role_by_arn(arn)
    except NotFoundException:
        raise InvalidParameterException(message=f"Role {arn} does not exist.") from None


def check_clusters() -> None:
    """Let clusters keep their access and upgrade settings, and give each one a security group.

    Clusters with a missing role, an unknown version or subnets in only one zone are refused.
    """
    create: Callable[[Response], ActionResult] = EKSResponse.create_cluster

    def create_cluster(self: Response) -> ActionResult:
        version = self._get_param("version") or VERSIONS[-1]
        if version not in VERSIONS:
            raise InvalidParameterException(
                message=f"version is {version!r}, but must be one of {', '.join(VERSIONS)}"
            )
        access = self._get_param("accessConfig") or {}
        mode = access.get("authenticationMode") or "CONFIG_MAP"
        support = (self._get_param("upgradePolicy") or {}).get("supportType") or "EXTENDED"
        role_of(self, self._get_param("roleArn"))
        vpc_id = check_subnets(self, self._get_param("resourcesVpcConfig")["subnetIds"])
        answer = create(self)
        cluster = self.eks_backend.describe_cluster(name=self._get_param("name"))
        group = ec2_of(self).create_security_group(
            f"eks-cluster-sg-{cluster.name}", "EKS created security group", vpc_id
        )
        made = {"vpcId": vpc_id, "clusterSecurityGroupId": group.id}
        cluster.resources_vpc_config = {**cluster.resources_vpc_config, **made}
        admin = "bootstrapClusterCreatorAdminPermissions"
        cluster.access_config = {"authenticationMode": mode, admin: access.get(admin, True)}
        cluster.upgrade_policy = {"supportType": support}
        return answer

    delete: Callable[[Response], ActionResult] = EKSResponse.delete_cluster

    def delete_cluster(self: Response) -> ActionResult:
        """Delete a cluster and the security group that EKS created for it."""
        group = find_cluster(self).resources_vpc_config["clusterSecurityGroupId"]
        answer = delete(self)
        ec2_of(self).delete_security_group(group_id=group)
        return answer

    EKSResponse.create_cluster = create_cluster  # type: ignore[method-assign]
    EKSResponse.delete_cluster = delete_cluster  # type: ignore[method-assign]


def check_subnets(self: Response, subnet_ids: list[str]) -> str:
    """Return the subnets' VPC, refusing unknown subnets or subnets that are all in one zone."""
    known = {subnet.id: subnet for subnet in ec2_of(self).describe_subnets()}
    if missing := [one for one in subnet_ids if one not in known]:
        raise InvalidParameterException(message=f"The subnet ID '{missing[0]}' does not exist")
    zones = {known[one].availability_zone for one in subnet_ids}
    if len(zones) < LEAST_ZONES:
        raise InvalidParameterException(
            message="Subnets specified must be in at least two different AZs"
        )
    return str(known[subnet_ids[0]].vpc_id)


def ec2_of(self: Response) -> Any:
    return ec2_backends[self.current_account][self.region]


def check_node_groups() -> None:
    """Refuse node groups with contradictory sizes or a missing role.

    As in EKS, groups that have a launch template get no disk size or remote access. Updates are
    kept so that DescribeUpdate finds them.
    """
    create: Callable[[Response], ActionResult] = EKSResponse.create_nodegroup
    update = EKSBackend.update_nodegroup_config

    def create_nodegroup(self: Response) -> ActionResult:
        check_sizes(self._get_param("scalingConfig") or {})
        role_of(self, self._get_param("nodeRole"))
        answer = create(self)
        if self._get_param("launchTemplate"):
            group = answer.result["nodegroup"]  # type: ignore[index]
            group.disk_size = group.remote_access = None
        return answer

    def update_nodegroup_config(self: EKSBackend, *names: Any, **changes: Any) -> dict[str, Any]:
        if sizes := changes.get("scaling_config"):
            group = self.describe_nodegroup(changes["cluster_name"], changes["nodegroup_name"])
            check_sizes({**group.scaling_config, **sizes})
        answer = update(self, *names, **changes)
        cluster = self.clusters[changes["cluster_name"]]
        entries(cluster, UPDATE)[answer["id"]] = answer
        return answer

    EKSResponse.create_nodegroup = create_nodegroup  # type: ignore[method-assign]
    EKSBackend.update_nodegroup_config = update_nodegroup_config  # type: ignore[method-assign]


def tag_node_groups() -> None:
    """Support tags on node groups; moto supports them only on clusters."""

    def named(call: Callable[..., Any]) -> Callable[..., Any]:
        def with_groups(self: EKSBackend, resource_arn: str, *given: Any, **named: Any) -> Any:
            groups = (
                group for cluster in self.clusters.values() for group in cluster.nodegroups.values()
            )
            found = next((group for group in groups if group.arn == resource_arn), None)
            if found is None:
                return call(self, resource_arn, *given, **named)
            return call(_Only(found), resource_arn, *given, **named)

        return with_groups

    for name in ("tag_resource", "untag_resource", "list_tags_for_resource"):
        setattr(EKSBackend, name, named(getattr(EKSBackend, name)))


def untag_resource(self: Response) -> ActionResult:
    """Remove all given tags; moto removes only the first."""
    arn = self._extract_arn_from_path()
    self.eks_backend.untag_resource(arn, self.querystring.get("tagKeys", []))
    return ActionResult({})


class _Only:
    """A fake backend that presents a node group as its only cluster, so that moto can tag it."""

    def __init__(self, group: Any) -> None:
        self.clusters = {"": group}


def check_sizes(sizes: dict[str, int]) -> None:
    least, wanted, most = (sizes.get(name, 1) for name in ("minSize", "desiredSize", "maxSize"))
    if wanted > most:
        raise InvalidParameterException(
            message=f"desired capacity {wanted} can't be greater than max size {most}"
        )
    if wanted < least:
        raise InvalidParameterException(
            message=f"desired capacity {wanted} can't be less than min size {least}"
        )


def create_addon(self: Response) -> ActionResult:
    name = self._get_param("addonName")
    if name not in ADDONS:
        raise InvalidParameterException(message=f"Addon {name} is not supported")
    fields = {
        "addonName": name,
        "status": "ACTIVE",
        "addonVersion": self._get_param("addonVersion") or ADDONS[name],
        "health": {"issues": []},
        "configurationValues": self._get_param("configurationValues"),
    }
    return add(self, ADDON, name, f"{name}/{mock_random.uuid4()}", fields)


def create_access_entry(self: Response) -> ActionResult:
    principal = self._get_param("principalArn")
    role_of(self, principal)
    fields = {
        "principalArn": principal,
        "kubernetesGroups": self._get_param("kubernetesGroups") or [],
        "username": self._get_param("username") or principal,
        "type": self._get_param("type") or "STANDARD",
    }
    return add(self, ACCESS_ENTRY, principal, f"role/{mock_random.uuid4()}", fields)


def create_pod_identity_association(self: Response) -> ActionResult:
    cluster = find_cluster(self)
    names = {name: self._get_param(name) for name in ("namespace", "serviceAccount")}
    known = entries(cluster, POD_IDENTITY).values()
    if any(names.items() <= other.items() for other in known):
        raise ResourceInUseException(
            clusterName=cluster.name, message=f"Association already exists: {names}"
        )
    role_of(self, self._get_param("roleArn"))
    key = f"a-{mock_random.get_random_hex(17)}"
    fields = {**names, "roleArn": self._get_param("roleArn"), "associationId": key}
    return add(self, POD_IDENTITY, key, key, fields)


def update_pod_identity_association(self: Response) -> ActionResult:
    found = find(self, POD_IDENTITY)
    if role := self._get_param("roleArn"):
        role_of(self, role)
        found["roleArn"] = role
    return ActionResult({"association": found})
