"""Who may do what: EKS's tokens and access entries, and the rules of applied roles."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

from tests.stand_ins.kubernetes_api.validation import RefusedError

if TYPE_CHECKING:
    from tests.stand_ins.kubernetes_api.api import Call

PREFIX = "k8s-aws-v1."


class Access:
    """Lets in who has an AWS access key with an access entry, by signed requests to STS.

    Args:
        groups: Kubernetes groups by access key.
    """

    def __init__(self, cluster_name: str, groups: Mapping[str, Sequence[str]]) -> None:
        self.cluster_name = cluster_name
        self.groups = groups

    def groups_of(self, authorization: str | None) -> Sequence[str]:
        """The groups of the caller; refuses a token that EKS would."""
        scheme, _, token = (authorization or "").partition(" ")
        if scheme != "Bearer" or not token.startswith(PREFIX):
            raise RefusedError(401, "Unauthorized")
        text = token.removeprefix(PREFIX)
        url = urlsplit(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)).decode())
        query = {name: values[0] for name, values in parse_qs(url.query).items()}
        key = query.get("X-Amz-Credential", "").partition("/")[0]
        is_signed = (
            (url.hostname or "").startswith("sts.")
            and query.get("Action") == "GetCallerIdentity"
            and "x-k8s-aws-id" in query.get("X-Amz-SignedHeaders", "").split(";")
            and int(query.get("X-Amz-Expires", "0")) <= 900
        )
        if not is_signed or key not in self.groups:
            raise RefusedError(401, "Unauthorized")
        return self.groups[key]


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
