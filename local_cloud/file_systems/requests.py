"""What FSx refuses of any request, by botocore's model of the service."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from botocore.model import ListShape, Shape, StructureShape
from moto.core.exceptions import JsonRESTError
from moto.core.utils import get_service_model

TYPES: dict[str, type] = {
    "string": str,
    "integer": int,
    "long": int,
    "boolean": bool,
    "list": list,
    "structure": dict,
}


# Java's classes of characters, in Python's words; its letters and digits come with "_".
SPACES = r"\x20\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"
UNICODE = {r"\p{L}": r"\w", r"\p{N}": r"\w", r"\p{Z}": SPACES}


class RefusedError(JsonRESTError):
    """One of FSx's errors; `fields` are its members beside the message."""

    def __init__(self, code: str, message: str, **fields: str) -> None:
        super().__init__(code, message)
        self.description = json.dumps({"__type": code, "message": message, **fields})


def bad_request(message: str) -> RefusedError:
    return RefusedError("BadRequest", message)


def checked(operation: str, body: str) -> dict[str, Any]:
    """A request to an operation; raises BadRequest for what its model does not allow."""
    request = json.loads(body or "{}")
    shape = get_service_model("fsx").operation_model(operation).input_shape
    problem = next(problems(shape, request, ""), None)
    if problem is not None:
        raise bad_request(f"1 validation error detected: {problem}")
    return dict(request)


def problems(shape: Shape, value: Any, path: str) -> Iterator[str]:
    """What is wrong with a value, in AWS's words for it."""
    if not has_type(shape, value):
        yield f"Value {value!r} at '{path}' must be a {shape.type_name}"
    elif isinstance(shape, StructureShape):
        yield from problems_of_members(shape, value, path)
    else:
        if constraint := broken_constraint(shape, value):
            yield f"Value {value!r} at '{path}' failed to satisfy constraint: {constraint}"
        if isinstance(shape, ListShape):
            for item in value:
                yield from problems(shape.member, item, f"{path}.member")


def has_type(shape: Shape, value: Any) -> bool:
    expected = TYPES.get(shape.type_name)
    return expected is None or type(value) is expected


def problems_of_members(shape: StructureShape, value: dict[str, Any], path: str) -> Iterator[str]:
    members = shape.members
    for name in sorted(value.keys() - members.keys()):
        yield f"Unknown parameter '{joined(path, name)}', must be one of: {', '.join(members)}"
    for name in shape.required_members:
        if value.get(name) is None:
            yield (
                f"Value null at '{joined(path, name)}' failed to satisfy constraint: "
                "Member must not be null"
            )
    for name, member in value.items():
        if name in members and member is not None:
            yield from problems(members[name], member, joined(path, name))


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
    size, what = (len(value), "length ") if isinstance(value, (str, list)) else (value, "value ")
    if size < metadata.get("min", size):
        return f"Member must have {what}greater than or equal to {metadata['min']}"
    if size > metadata.get("max", size):
        return f"Member must have {what}less than or equal to {metadata['max']}"
    return None


def matches(pattern: str, value: str) -> bool:
    """Whether a value has a pattern; True for patterns that only Java understands."""
    for written, classes in UNICODE.items():
        pattern = pattern.replace(written, classes)
    try:
        return re.fullmatch(pattern, value) is not None
    except re.error:
        return True
