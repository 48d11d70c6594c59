"""Finds what there is: by the token of an earlier request, and by file system."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any, TypeVar

from local_cloud.file_systems.records import Resource
from local_cloud.file_systems.requests import RefusedError, missing

FILE_SYSTEM_ID = "file-system-id"
Record = TypeVar("Record", bound=Resource)


def made_before(records: Iterable[Record], request: dict[str, Any]) -> Record | None:
    """What an earlier request with this token has made; raises if that asked for something else."""
    token = request.get("ClientRequestToken")
    for each in records:
        if token is None or each.request.get("ClientRequestToken") != token:
            continue
        for field in sorted(request.keys() | each.request.keys()):
            if request.get(field) != each.request.get(field):
                raise RefusedError(
                    "IncompatibleParameterError",
                    f"{field} differs from the earlier request with this ClientRequestToken",
                    Parameter=field,
                )
        return each
    return None


def asked_for(request: dict[str, Any], known: Collection[str]) -> Collection[str]:
    """The file systems that a request's filters name, or all; other filters are refused."""
    for each in request.get("Filters", ()):
        if each["Name"] != FILE_SYSTEM_ID:
            raise missing(f"filter {each['Name']}, only {FILE_SYSTEM_ID}")
        known = each.get("Values", ())
    return known
