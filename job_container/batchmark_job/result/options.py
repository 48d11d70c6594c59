"""Declares each option once, in a model from which forms, plans and command lines are derived."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Annotated, Any

from pydantic import Field, ValidationError

from batchmark_job.result.values import Model

UNUSED = ("additionalProperties", "title")  # schema keys from pydantic that are dropped
NULL = {"type": "null"}
STRICT = Field(strict=True)  # rejects "5" and True as numbers
Whole = Annotated[int, STRICT]


def option(
    default: Any,
    description: str | None = None,
    *,
    command: str | None = None,
    flag: str | None = None,
    **form: Any,
) -> Any:
    """Return the model field for an option.

    Args:
        description: help text shown in the form, or None to hide the option there.
        command: help text on the command line, or None to leave the option out there.
        flag: name on the command line, if it differs from the field's.
        form: more settings for the form's field: its `section`, a label for each choice (`says`),
            and `must` for a field that users have to fill in although its default is empty.
    """
    extra = {"command": command, "flag": flag, **form}
    given = {name: value for name, value in extra.items() if value is not None}
    return Field(default, description=description, json_schema_extra=given)


class Options(Model):
    """Options for a kind of run, or for one job of such a run."""

    def contradiction(self, name: Callable[[str], str]) -> str | None:  # noqa: ARG002
        """Return why the options conflict, or None; `name` maps a field to its public name."""
        return None


@cache
def schemas(model: type[Model]) -> Mapping[str, dict[str, Any]]:
    """Return each option's JSON Schema, keyed by name, with references resolved.

    If a field is itself a record, each of that record's fields is an option.
    """
    whole = model.model_json_schema()
    found = {}
    for name, given in whole["properties"].items():
        schema = _plain(given, whole.get("$defs", {}))
        if "properties" not in schema:
            found[name] = schema
        for part, inner in schema.get("properties", {}).items():
            shared = {"command": schema["command"], "default": schema["default"][part]}
            found[part] = _plain(inner, {}) | shared
    return found


def flags(model: type[Model]) -> dict[str, str]:
    """Return the command-line flags for a model's options, keyed by option name."""
    return {
        name: "--" + schema.get("flag", name).replace("_", "-")
        for name, schema in schemas(model).items()
        if "command" in schema
    }


def arguments(options: Options) -> list[str]:
    """Return options as command-line arguments, without nulls and empty lists that are defaults."""
    model = type(options)
    values, named = dict(_values(options)), flags(model)
    found = []
    for name, flag in named.items():
        value = values[name]
        if isinstance(value, dict):
            for key, size in value.items():
                found += [flag, f"{key}={size}"]
        elif value is not None and (value != [] or schemas(model)[name]["default"]):
            found += [flag, text(value)]
    return found


def text(value: object) -> str:
    """Format a value as a command-line argument."""
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)


def problem(model: type[Model], error: ValidationError, name: Callable[[str], str]) -> str:
    """Say which option is invalid and what it accepts; `name` maps an option to its public name."""
    where = error.errors()[0]["loc"][:2]
    # A union has an error for each of its types.
    *_, first = (each for each in error.errors() if each["loc"][:2] == where)
    option_name = next(str(part) for part in first["loc"] if part in schemas(model))
    schema = schemas(model)[option_name]
    each, seen, called = schema.get("items", schema), first["input"], name(option_name)
    kind = first["type"]
    if kind == "too_short":
        return f"{called} is empty; specify at least one value, such as {text(schema['default'])}"
    if kind == "too_long":
        return f"{called} has {len(seen)} values; use at most {schema['maxItems']}"
    if kind in {"enum", "literal_error"}:
        return f"unknown {called} {seen!r}; known: {', '.join(each['enum'])}"
    if kind.startswith(("greater_than", "less_than")):
        return f"{called} {seen!r} is out of range; use {_range(each)}"
    if kind.startswith(("int_", "float_", "finite_")):
        whole = "whole " if "integer" in each["type"] else ""
        return f"{called} expects {whole}numbers, got {seen!r}"
    return f"{called}: {first['msg'].removeprefix('Value error, ')}, got {seen!r}"


def _values(record: Model) -> Iterator[tuple[str, Any]]:
    for name, value in record.model_dump(mode="json").items():
        if isinstance(getattr(record, name), Model):
            yield from value.items()
        else:
            yield name, value


def _plain(schema: dict[str, Any], definitions: dict[str, Any]) -> dict[str, Any]:
    """Resolve a schema's references, and fold null into its types."""
    found = {key: value for key, value in schema.items() if key not in UNUSED}
    if reference := found.pop("$ref", None):
        target = _plain(definitions[reference.rpartition("/")[2]], definitions)
        found = target | {"description": None} | found
    if one_of := found.pop("anyOf", None):
        # For a union of integers and floats, the floats' bounds apply to both.
        *_, some = (_plain(each, definitions) for each in one_of if each != NULL)
        found = some | found | ({"type": [some["type"], "null"]} if NULL in one_of else {})
    if "items" in found:
        found["items"] = _plain(found["items"], definitions)
    return {key: value for key, value in found.items() if value is not None or key == "default"}


def _range(schema: dict[str, Any]) -> str:
    if "minimum" not in schema:
        return f"a number above {schema['exclusiveMinimum']}, up to {schema['maximum']:g}"
    least, most = schema["minimum"], schema.get("maximum")
    return f"{least} or more" if most is None else f"{least} to {most}"
