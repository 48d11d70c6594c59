"""Refuses requests that use unsupported features or violate botocore's model of FSx.

A file system's version, size and throughput are validated by Terraform's variables instead.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any, TypeVar

from botocore.model import ListShape, Shape, StructureShape
from botocore.validate import ParamValidator
from moto.core.exceptions import JsonRESTError
from moto.core.utils import get_service_model

from local_cloud.file_systems import repository
from local_cloud.file_systems.records import Association, FileSystem, Resource

# Java's character classes in Python's regex syntax; its letters and digits include "_".
SPACES = r"\x20\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"
UNICODE = {r"\p{L}": r"\w", r"\p{N}": r"\w", r"\p{Z}": SPACES}

# The supported operations, and the fields that they use.
FIELDS: dict[str, tuple[str, ...]] = {
    "CreateDataRepositoryAssociation": (
        "BatchImportMetaDataOnCreate",
        "ClientRequestToken",
        "DataRepositoryPath",
        "FileSystemId",
        "FileSystemPath",
        "Tags",
    ),
    "CreateFileSystem": (
        "ClientRequestToken",
        "FileSystemType",
        "FileSystemTypeVersion",
        "KmsKeyId",
        "LustreConfiguration",
        "SecurityGroupIds",
        "StorageCapacity",
        "StorageType",
        "SubnetIds",
        "Tags",
    ),
    "DeleteFileSystem": ("ClientRequestToken", "FileSystemId"),
    "DescribeDataRepositoryAssociations": ("Filters",),
    "DescribeDataRepositoryTasks": ("Filters",),
    "DescribeFileSystems": ("FileSystemIds",),
}
LUSTRE_FIELDS = ("DeploymentType", "PerUnitStorageThroughput")
FILE_SYSTEM_ID = "file-system-id"  # the supported filter

Record = TypeVar("Record", bound=Resource)


class RefusedError(JsonRESTError):
    """An FSx error; `fields` are its members besides the message."""

    def __init__(self, code: str, message: str, **fields: str) -> None:
        super().__init__(code, message)
        self.description = json.dumps({"__type": code, "message": message, **fields})


def bad_request(message: str) -> RefusedError:
    return RefusedError("BadRequest", message)


def missing(what: str) -> RefusedError:
    return bad_request(
        f"The local cloud does not support {what}: see File systems in local_cloud/README.md"
    )


def refuse_others(fields: Collection[str], heeded: Collection[str]) -> None:
    """Raise BadRequest for the first unsupported field."""
    for field in fields:
        if field not in heeded:
            raise missing(field)


def refuse_other_kinds(request: dict[str, Any]) -> None:
    """Raise BadRequest if a new file system's kind is unsupported."""
    lustre = request.get("LustreConfiguration") or {}
    refuse_others(lustre, LUSTRE_FIELDS)
    storage = request.get("StorageType", "SSD")
    for value, there in ((request["FileSystemType"], "LUSTRE"), (storage, "SSD")):
        if value != there:
            raise missing(f"{value}, only {there}")
    if lustre.get("DeploymentType", "SCRATCH_1") == "SCRATCH_1":
        raise missing("SCRATCH_1")


def checked(operation: str, body: str) -> dict[str, Any]:
    """Parse and check a request; raise BadRequest for invalid or unsupported fields."""
    request: dict[str, Any] = json.loads(body or "{}")
    shape = get_service_model("fsx").operation_model(operation).input_shape
    report = ParamValidator().validate(request, shape).generate_report()
    for problem in (*report.splitlines(), *problems(shape, request, "")):
        raise bad_request(f"1 validation error detected: {problem}")
    refuse_others(request, FIELDS[operation])
    return request


def problems(shape: Shape, value: Any, path: str) -> Iterator[str]:
    """Yield the constraints that a value violates, in AWS's wording."""
    if isinstance(shape, StructureShape):
        for name, member in value.items():
            if name in shape.members:
                yield from problems(shape.members[name], member, member_path(path, name))
    elif isinstance(shape, ListShape):
        for item in value:
            yield from problems(shape.member, item, f"{path}.member")
    elif constraint := broken_constraint(shape, value):
        yield f"Value {value!r} at '{path}' failed to satisfy constraint: {constraint}"


def member_path(path: str, name: str) -> str:
    """Return a member's path as AWS writes it, such as lustreConfiguration.deploymentType."""
    lowered = name[0].lower() + name[1:]
    return f"{path}.{lowered}" if path else lowered


def broken_constraint(shape: Shape, value: Any) -> str | None:
    allowed, metadata = getattr(shape, "enum", None), shape.metadata
    if allowed and value not in allowed:
        return f"Member must satisfy enum value set: [{', '.join(allowed)}]"
    if (pattern := metadata.get("pattern")) and not matches(pattern, value):
        return f"Member must satisfy regular expression pattern: {pattern}"
    if isinstance(value, str) and len(value) > metadata.get("max", len(value)):
        return f"Member must have length less than or equal to {metadata['max']}"
    return None


def matches(pattern: str, value: str) -> bool:
    """Return whether a value matches a Java pattern, or True if Python can't compile it."""
    for written, classes in UNICODE.items():
        pattern = pattern.replace(written, classes)
    try:
        return re.fullmatch(pattern, value) is not None
    except re.error:
        return True


def earlier_record(records: Iterable[Record], request: dict[str, Any]) -> Record | None:
    """Return what an earlier request with the same token created; refuse a request that differs."""
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


def requested_file_systems(request: dict[str, Any], known: Collection[str]) -> Collection[str]:
    """Return the ids in a request's filter, or all ids without a filter; refuse other filters."""
    for each in request.get("Filters", ()):
        if each["Name"] != FILE_SYSTEM_ID:
            raise missing(f"the filter {each['Name']}, only {FILE_SYSTEM_ID}")
        known = each.get("Values", ())
    return known


def check_association(
    request: dict[str, Any], file_system: FileSystem, others: Sequence[Association], account: str
) -> None:
    """Raise BadRequest for an invalid CreateDataRepositoryAssociation request.

    Source: FSx API Reference, CreateDataRepositoryAssociation.
    """
    if file_system.lifecycle != "AVAILABLE":
        raise bad_request(
            f"File system '{file_system.id}' is {file_system.lifecycle}; it must be AVAILABLE"
        )
    if others:
        raise missing(
            "a second data repository association for a file system that already has "
            f"{others[0].id}"
        )
    path = str(request.get("FileSystemPath") or "")
    if not path.startswith("/") or {".", ".."} & set(path.split("/")):
        raise bad_request(
            f"FileSystemPath must start with '/' and must not contain '..', got {path!r}"
        )
    asked = request["DataRepositoryPath"]
    if not repository.bucket_exists(account, asked):
        raise bad_request(f"DataRepositoryPath {asked}: {repository.missing_bucket(asked)}")
