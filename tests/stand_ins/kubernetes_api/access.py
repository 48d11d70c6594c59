"""Who may do what: EKS's tokens and access entries, and the rules of applied roles."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

from tests.stand_ins.kubernetes_api.errors import RefusedError

if TYPE_CHECKING:
    from tests.stand_ins.kubernetes_api.api import Call

PREFIX = "Bearer k8s-aws-v1."
KEY = "AKIAIOSFODNN7EXAMPLE"  # the only AWS access key with an access entry
GROUPS = ("batchmark-airflow",)


def groups_of(authorization: str | None) -> Sequence[str]:
    """The caller's groups, by the request to STS that its token is; refuses what EKS would."""
    token = (authorization or "").removeprefix(PREFIX)
    url = urlsplit(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)).decode())
    query = {name: values[0] for name, values in parse_qs(url.query).items()}
    is_signed = "x-k8s-aws-id" in query["X-Amz-SignedHeaders"].split(";")
    if not is_signed or query["X-Amz-Credential"].partition("/")[0] != KEY:
        raise RefusedError(401, "Unauthorized")
    return GROUPS


def check(objects: Sequence[Mapping[str, Any]], groups: Sequence[str], call: Call) -> None:
    """Refuse a call that no role bound to the groups allows."""
    for rule in _rules(objects, groups, call.namespace):
        if (
            call.verb in rule["verbs"]
            and call.group in rule["apiGroups"]
            and call.resource in rule["resources"]
            and (not rule.get("resourceNames") or call.name in rule["resourceNames"])
        ):
            return
    where = f'in the namespace "{call.namespace}"' if call.namespace else "at the cluster scope"
    named = f' "{call.name}"' if call.name else ""
    raise RefusedError(
        403,
        f'{call.resource}{named} is forbidden: User "airflow" cannot {call.verb} resource '
        f'"{call.resource}" in API group "{call.group}" {where}',
    )


def _rules(
    objects: Sequence[Mapping[str, Any]], groups: Sequence[str], namespace: str | None
) -> Iterator[Mapping[str, Any]]:
    for binding in objects:
        cluster_wide = binding["kind"] == "ClusterRoleBinding"
        local = binding["kind"] == "RoleBinding" and binding["metadata"]["namespace"] == namespace
        bound = (cluster_wide or local) and any(
            subject["kind"] == "Group" and subject["name"] in groups
            for subject in binding["subjects"]
        )
        for role in objects if bound else ():
            reference = binding["roleRef"]
            same_place = cluster_wide or role["metadata"].get("namespace") == namespace
            if (role["kind"], role["metadata"]["name"]) == (
                reference["kind"],
                reference["name"],
            ) and same_place:
                yield from role["rules"]
