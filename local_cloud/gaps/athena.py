"""Adds workgroup updates and saved-query deletion to moto's Athena."""

from __future__ import annotations

from typing import Any

from moto.athena.responses import AthenaResponse

Reply = str | tuple[str, dict[str, int]]


def fill() -> None:
    AthenaResponse.update_work_group = update_work_group  # type: ignore[attr-defined]
    AthenaResponse.delete_named_query = delete_named_query  # type: ignore[attr-defined]


def update_work_group(self: AthenaResponse) -> Reply:
    group = self.athena_backend.work_groups.get(self._get_param("WorkGroup"))
    if group is None:
        return self.error("WorkGroup is not found.", 400)
    group.description = self._get_param("Description", group.description)
    group.state = self._get_param("State", group.state)
    updates = dict(self._get_param("ConfigurationUpdates") or {})
    result_updates = updates.pop("ResultConfigurationUpdates", {})
    update(group.configuration, updates)
    update(group.configuration.setdefault("ResultConfiguration", {}), result_updates)
    return "{}"


def update(configuration: dict[str, Any], updates: dict[str, Any]) -> None:
    """Set each updated value in `configuration`; if `RemoveNAME` is true, remove NAME instead."""
    for name, value in updates.items():
        if not name.startswith("Remove"):
            configuration[name] = value
        elif value:
            configuration.pop(name.removeprefix("Remove"), None)


def delete_named_query(self: AthenaResponse) -> Reply:
    query_id = self._get_param("NamedQueryId")
    if self.athena_backend.named_queries.pop(query_id, None) is None:
        return self.error(f"NamedQuery {query_id} was not found", 400)
    return "{}"
