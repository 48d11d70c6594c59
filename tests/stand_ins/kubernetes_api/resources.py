"""What objects ask for and offer, and how they are merged."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any

Object = dict[str, Any]

SCALES = {"m": 0.001, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "": 1}


def now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def index_of(pod: Object) -> int:
    return int(pod["metadata"]["annotations"]["batch.kubernetes.io/job-completion-index"])


def quantity(text: str) -> float:
    """An amount as Kubernetes writes it."""
    number, unit = re.fullmatch(r"([0-9.]+)([A-Za-z]*)", str(text)).groups()
    return float(number) * SCALES[unit]


def merged(found: Any, patch: Any) -> Any:
    """A strategic merge, in which lists of named things are merged by name."""
    if isinstance(found, dict) and isinstance(patch, dict):
        return {
            key: merged(found.get(key), patch[key]) if key in patch else found[key]
            for key in [*found, *(key for key in patch if key not in found)]
        }
    if isinstance(found, list) and isinstance(patch, list) and all("name" in one for one in patch):
        changed = {one["name"]: one for one in patch}
        kept = [merged(one, changed.pop(one["name"], one)) for one in found]
        return [*kept, *changed.values()]
    return patch


def requests(pod: Object) -> Object:
    (container,) = pod["spec"]["containers"]
    resources = container.get("resources", {})
    return {**resources.get("limits", {}), **resources.get("requests", {})}


def amount(pod: Object, name: str) -> float:
    return quantity(requests(pod).get(name, "0"))


def tolerates(toleration: Object, taint: Object) -> bool:
    same_effect = toleration.get("effect") in {None, "", taint["effect"]}
    if toleration.get("operator", "Equal") == "Exists":
        return same_effect and toleration.get("key") in {None, "", taint["key"]}
    return same_effect and (toleration.get("key"), toleration.get("value")) == (
        taint["key"],
        taint["value"],
    )
