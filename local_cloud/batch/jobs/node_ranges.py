"""Node ranges of multi-node parallel jobs: `0:3`, `2`, `:1`, `4:`."""

from __future__ import annotations

from typing import Any


def indices(target_nodes: str, num_nodes: int) -> range:
    """The node indices in a range; an open end reaches to the first or last node."""
    first, colon, last = target_nodes.partition(":")
    start = int(first or 0)
    end = int(last or num_nodes - 1) if colon else start
    return range(start, end + 1)


def containers(node_properties: dict[str, Any], num_nodes: int) -> list[dict[str, Any]]:
    """The container properties of each node; the inner of two nested ranges wins."""
    by_index: dict[int, dict[str, Any]] = {}
    ranges = [
        (indices(node_range["targetNodes"], num_nodes), node_range["container"])
        for node_range in node_properties["nodeRangeProperties"]
    ]
    for node_range, container in sorted(ranges, key=lambda pair: -len(pair[0])):
        by_index.update(dict.fromkeys(node_range, container))
    missing = [index for index in range(num_nodes) if index not in by_index]
    if missing:
        raise ValueError(
            f"nodeRangeProperties name no container for node {missing[0]} of {num_nodes}"
        )
    return [by_index[index] for index in range(num_nodes)]


def overrides(
    node_overrides: dict[str, Any], node_properties: dict[str, Any], num_nodes: int
) -> list[dict[str, Any]]:
    """The overrides of each node; they must be for node ranges that the definition has."""
    defined = [
        indices(node_range["targetNodes"], num_nodes)
        for node_range in node_properties["nodeRangeProperties"]
    ]
    by_index: list[dict[str, Any]] = [{} for _ in range(num_nodes)]
    for override in node_overrides.get("nodePropertyOverrides") or []:
        targets = indices(override["targetNodes"], num_nodes)
        if targets not in defined:
            raise ValueError(
                "NodeOverride targets should match job definition. Non matching targets - "
                f"{override['targetNodes']}"
            )
        for index in targets:
            if index < num_nodes:
                by_index[index] = override.get("containerOverrides") or {}
    return by_index


def open_ended(node_properties: dict[str, Any]) -> bool:
    """Whether a range has an open end, which lets numNodes be overridden."""
    return any(
        node_range["targetNodes"].endswith(":")
        for node_range in node_properties["nodeRangeProperties"]
    )
