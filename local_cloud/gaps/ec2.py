"""Corrects moto's EC2: launch templates, VPC endpoints, security group rules and Spot prices.

A launch template's own tags can be changed, and are kept separate from its data. Deleted
endpoints disappear. Rules for groups and prefix lists keep their descriptions.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from moto.core.responses import ActionResult
from moto.ec2.models.launch_templates import LaunchTemplate, LaunchTemplateBackend
from moto.ec2.models.security_groups import SecurityGroupBackend, SecurityGroupRule
from moto.ec2.models.vpcs import VPCBackend
from moto.ec2.responses.spot_instances import SpotInstances

from local_cloud.prices import Prices


def fill(prices: Prices | None) -> None:
    answer_spot_prices(prices)
    separate_tags()
    show_changed_tags()
    forget_deleted_endpoints()
    describe_all_rules()


def answer_spot_prices(prices: Prices | None) -> None:
    """Make EC2 return the price file's Spot prices; moto returns 0.00001 USD for everything."""
    filters = {"InstanceTypes": "InstanceType", "ProductDescriptions": "ProductDescription"}

    def describe_spot_price_history(self: SpotInstances) -> ActionResult:
        history: tuple[dict[str, Any], ...] = ()
        if prices and prices.region == self.ec2_backend.region_name:
            history = prices.spot_history
        for parameter, field in filters.items():
            if wanted := self._get_param(parameter, []):
                history = tuple(entry for entry in history if entry[field] in wanted)
        return ActionResult({"SpotPriceHistory": history})

    SpotInstances.describe_spot_price_history = describe_spot_price_history  # type: ignore[method-assign]


def describe_all_rules() -> None:
    """Keep descriptions that moto drops: those of rules for groups and prefix lists."""
    create = SecurityGroupBackend._iterate_security_rules
    modify = SecurityGroupBackend.modify_security_group_rules

    def iterate_security_rules(
        self: SecurityGroupBackend, *arguments: Any, **named: Any
    ) -> Iterator[SecurityGroupRule]:
        *_, ranges, groups, prefix_lists = arguments
        described = [*ranges, *groups, *prefix_lists]
        for rule, target in zip(create(self, *arguments, **named), described, strict=True):
            rule.description = target.get("Description")  # type: ignore[misc]
            yield rule

    def modify_security_group_rules(
        self: SecurityGroupBackend, group_id: str, rules: dict[str, dict[str, Any]]
    ) -> None:
        modify(self, group_id, rules)
        group = self.get_security_group_by_name_or_id(group_id)
        for rule_id, changed in rules.items():
            rule = group.get_rule(rule_id) if group else None
            if rule is not None and "Description" in changed:
                rule.description = changed["Description"]  # type: ignore[misc]

    SecurityGroupRule.description = None  # type: ignore[method-assign,assignment]
    SecurityGroupBackend._iterate_security_rules = iterate_security_rules  # type: ignore[method-assign]
    SecurityGroupBackend.modify_security_group_rules = modify_security_group_rules  # type: ignore[method-assign]


def forget_deleted_endpoints() -> None:
    """Remove VPC endpoints that are deleted; moto only marks them as "deleted"."""
    delete = VPCBackend.delete_vpc_endpoints

    def delete_vpc_endpoints(self: VPCBackend, vpce_ids: list[str] | None = None) -> None:
        delete(self, vpce_ids)
        for endpoint_id in vpce_ids or []:
            self.vpc_end_points.pop(endpoint_id, None)

    VPCBackend.delete_vpc_endpoints = delete_vpc_endpoints  # type: ignore[method-assign]


def show_changed_tags() -> None:
    """Show a launch template's current tags; moto shows its original ones."""

    def keep_nothing(self: LaunchTemplate, tags: Any) -> None:
        """Ignore the tags that moto's constructor sets, as the EC2 backend already has them."""

    LaunchTemplate.tags = property(LaunchTemplate.get_tags, keep_nothing)  # type: ignore[assignment]


def separate_tags() -> None:
    """Keep a launch template's own tags separate from the tags of the resources it launches."""
    create = LaunchTemplateBackend.create_launch_template

    def create_launch_template(
        self: LaunchTemplateBackend,
        name: str,
        description: str,
        template_data: dict[str, Any],
        tag_spec: dict[str, Any],
    ) -> Any:
        launched = [
            specification
            for specification in template_data.pop("TagSpecifications", [])
            if specification["ResourceType"] != "launch-template"
        ]
        if launched:
            template_data["TagSpecifications"] = launched
        return create(self, name, description, template_data, tag_spec)

    LaunchTemplateBackend.create_launch_template = create_launch_template  # type: ignore[method-assign]
