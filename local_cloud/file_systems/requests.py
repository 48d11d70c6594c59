"""What of a request is emulated, and what FSx refuses of it by botocore's model of the service.

Of a file system's version, size and throughput, Terraform's inputs refuse what FSx does.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator
from typing import Any

from botocore.model import ListShape, Shape, StructureShape
from botocore.validate import ParamValidator
from moto.core.exceptions import JsonRESTError
from moto.core.utils import get_service_model

# Java's classes of characters, in Python's words; its letters and digits come with "_".
SPACES = r"\x20\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"
UNICODE = {r"\p{L}": r"\w", r"\p{N}": r"\w", r"\p{Z}": SPACES}

# The operations that are there, and the fields that they heed.
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


class RefusedError(JsonRESTError):
    """One of FSx's errors; `fields` are its members beside the message."""

    def __init__(self, code: str, message: str, **fields: str) -> None:
        super().__init__(code, message)
        self.description = json.dumps({"__type": code, "message": message, **fields})


def bad_request(message: str) -> RefusedError:
    return RefusedError("BadRequest", message)


def missing(what: str) -> RefusedError:
    return bad_request(f"The local cloud has no {what}: see File systems in local_cloud/README.md")


def refuse_others(fields: Collection[str], heeded: Collection[str]) -> None:
    """Raise BadRequest for the first field that nothing here would heed."""
    for field in fields:
        if field not in heeded:
            raise missing(field)


def refuse_other_kinds(request: dict[str, Any]) -> None:
    """Raise BadRequest for a new file system of a kind that is not there."""
    lustre = request.get("LustreConfiguration") or {}
    refuse_others(lustre, LUSTRE_FIELDS)
    storage = request.get("StorageType", "SSD")
    for value, there in ((request["FileSystemType"], "LUSTRE"), (storage, "SSD")):
        if value != there:
            raise missing(f"{value}, only {there}")
    if lustre.get("DeploymentType", "SCRATCH_1") == "SCRATCH_1":
        raise missing("SCRATCH_1")


def checked(operation: str, body: str) -> dict[str, Any]:
    """A request to an operation; raises BadRequest for what its model or the local cloud lacks."""
    request: dict[str, Any] = json.loads(body or "{}")
    shape = get_service_model("fsx").operation_model(operation).input_shape
    report = ParamValidator().validate(request, shape).generate_report()
    for problem in (*report.splitlines(), *problems(shape, request, "")):
        raise bad_request(f"1 validation error detected: {problem}")
    refuse_others(request, FIELDS[operation])
    return request


def problems(shape: Shape, value: Any, path: str) -> Iterator[str]:
    """What is wrong with a value that botocore's clients send, in AWS's words for it."""
    if isinstance(shape, StructureShape):
        for name, member in value.items():
            if name in shape.members:
                yield from problems(shape.members[name], member, joined(path, name))
    elif isinstance(shape, ListShape):
        for item in value:
            yield from problems(shape.member, item, f"{path}.member")
    elif constraint := broken_constraint(shape, value):
        yield f"Value {value!r} at '{path}' failed to satisfy constraint: {constraint}"


def joined(path: str, name: str) -> str:
    """The path of a member as AWS writes it: fileSystemId, lustreConfiguration.deploymentType."""
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
    """Whether a value has a pattern; True for patterns that only Java understands."""
    for written, classes in UNICODE.items():
        pattern = pattern.replace(written, classes)
    try:
        return re.fullmatch(pattern, value) is not None
    except re.error:
        return True
