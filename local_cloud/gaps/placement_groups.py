"""Adds EC2 placement groups, which moto lacks."""

from __future__ import annotations

from typing import Any

from moto.core.responses import ActionResult, EmptyResult
from moto.ec2.exceptions import EC2ClientError
from moto.ec2.models.core import TaggedEC2Resource
from moto.ec2.responses import EC2Response
from moto.ec2.utils import generic_filter
from moto.moto_api._internal import mock_random


class PlacementGroup(TaggedEC2Resource):
    def __init__(self, ec2_backend: Any, name: str, strategy: str) -> None:
        self.ec2_backend = ec2_backend
        self.id = f"pg-{mock_random.get_random_hex(17)}"
        self.group_name = name
        self.strategy = strategy
        self.state = "available"
        self.group_arn = (
            f"arn:aws:ec2:{ec2_backend.region_name}:{ec2_backend.account_id}:placement-group/{name}"
        )

    def described(self) -> dict[str, Any]:
        return {
            "GroupName": self.group_name,
            "GroupId": self.id,
            "GroupArn": self.group_arn,
            "State": self.state,
            "Strategy": self.strategy,
            "Tags": [{"Key": tag["key"], "Value": tag["value"]} for tag in self.get_tags()],
        }


def fill() -> None:
    for call in (create_placement_group, describe_placement_groups, delete_placement_group):
        setattr(EC2Response, call.__name__, call)


def groups_of(ec2_backend: Any) -> dict[str, PlacementGroup]:
    groups: dict[str, PlacementGroup] = ec2_backend.__dict__.setdefault("placement_groups", {})
    return groups


def create_placement_group(self: EC2Response) -> ActionResult:
    name, strategy = self._get_param("GroupName"), self._get_param("Strategy") or "cluster"
    groups = groups_of(self.ec2_backend)
    if name in groups:
        raise EC2ClientError(
            "InvalidPlacementGroup.Duplicate", f"The Placement Group '{name}' already exists."
        )
    group = groups[name] = PlacementGroup(self.ec2_backend, name, strategy)
    group.add_tags(self._parse_tag_specification().get("placement-group", {}))
    return ActionResult({"PlacementGroup": group.described()})


def describe_placement_groups(self: EC2Response) -> ActionResult:
    found = list(groups_of(self.ec2_backend).values())
    for parameter, field in (("GroupNames", "group_name"), ("GroupIds", "id")):
        wanted = self._get_param(parameter, [])
        if unknown := [
            value for value in wanted if value not in {getattr(g, field) for g in found}
        ]:
            raise unknown_group(unknown[0])
        found = [group for group in found if not wanted or getattr(group, field) in wanted]
    found = generic_filter(self._filters_from_querystring(), found)
    return ActionResult({"PlacementGroups": [group.described() for group in found]})


def delete_placement_group(self: EC2Response) -> EmptyResult:
    name = self._get_param("GroupName")
    if groups_of(self.ec2_backend).pop(name, None) is None:
        raise unknown_group(name)
    return EmptyResult()


def unknown_group(name: str) -> EC2ClientError:
    return EC2ClientError(
        "InvalidPlacementGroup.Unknown", f"The Placement Group '{name}' is unknown."
    )
