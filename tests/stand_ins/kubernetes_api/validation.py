"""What the API refuses in an object, beyond its schema, and what it answers then."""

from __future__ import annotations

import re
from typing import Any

import kubernetes_validate

REASONS = {
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    409: "AlreadyExists",
    415: "UnsupportedMediaType",
    422: "Invalid",
}


class RefusedError(Exception):
    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code, self.message = code, message

    def status(self) -> dict[str, object]:
        return {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
            "reason": REASONS[self.code],
            "code": self.code,
        }


def not_found(plural: str, name: str) -> RefusedError:
    return RefusedError(404, f'{plural} "{name}" not found')


VERSION = "1.36"
LABEL = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?")
SUBDOMAIN = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?")
LONGEST_DNS_LABEL = 63

Object = dict[str, Any]


def check_schema(found: Object) -> None:
    """Refuse what the version's schema does not know; the API itself would drop it silently."""
    try:
        kubernetes_validate.validate(found, VERSION, strict=True)
    except kubernetes_validate.ValidationError as error:
        raise RefusedError(400, f"{'.'.join(map(str, error.path))}: {error.message}") from error


def check_job(job: Object) -> None:
    check_schema(job)
    name, spec = job["metadata"].get("name", ""), job["spec"]
    if not SUBDOMAIN.fullmatch(name):
        raise _invalid(name, f'metadata.name: Invalid value: "{name}": a RFC 1123 subdomain')
    last = f"{name}-{(spec.get('completions') or 1) - 1}"
    if spec.get("completionMode") == "Indexed":
        if spec.get("completions") is None:
            raise _invalid(name, "spec.completions: Required value: when mode is Indexed")
        if len(last) > LONGEST_DNS_LABEL:
            raise _invalid(name, f'metadata.name: Invalid value: "{last}": must be no more than 63')
    _check_labels(name, job["metadata"].get("labels") or {})
    template = spec["template"]
    _check_labels(name, (template.get("metadata") or {}).get("labels") or {})
    _check_pod(name, template["spec"])


def _check_labels(name: str, labels: dict[str, str]) -> None:
    for key, value in labels.items():
        prefix, _, label = key.rpartition("/")
        if not LABEL.fullmatch(label) or (prefix and not SUBDOMAIN.fullmatch(prefix)):
            raise _invalid(name, f'metadata.labels: Invalid value: "{key}"')
        if value and not LABEL.fullmatch(value):
            raise _invalid(name, f'metadata.labels: Invalid value: "{value}"')


def _check_pod(name: str, pod: Object) -> None:
    if pod.get("restartPolicy") not in {"Never", "OnFailure"}:
        raise _invalid(
            name,
            f'spec.template.spec.restartPolicy: Unsupported value: "{pod.get("restartPolicy")}": '
            'supported values: "OnFailure", "Never"',
        )
    volumes = {volume["name"] for volume in pod.get("volumes") or ()}
    for container in pod["containers"]:
        for mount in container.get("volumeMounts") or ():
            if mount["name"] not in volumes:
                raise _invalid(name, f'volumeMounts.name: Not found: "{mount["name"]}"')


def _invalid(name: str, problem: str) -> RefusedError:
    return RefusedError(422, f'Job.batch "{name}" is invalid: {problem}')
