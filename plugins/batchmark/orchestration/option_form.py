"""The fields of a form, of the options that a run may have."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow.sdk import Param

from batchmark_job.result.options import Options, schemas

REQUIRED = {"enum", "minItems", "minLength", "must", "pattern"}
NOT_OF_THE_FORM = ("command", "default", "flag", "must", "says")


def params(model: type[Options], **more: Mapping[str, Any]) -> dict[str, Param]:
    """Return the fields of a model's options; scheduled runs take their defaults.

    `more` goes into the JSON Schema of the field of that name.
    """
    return {
        name: _param({**schema, **more.get(name, {})})
        for name, schema in schemas(model).items()
        if "description" in schema
    }


def _param(schema: Mapping[str, Any]) -> Param:
    field = {key: value for key, value in schema.items() if key not in NOT_OF_THE_FORM}
    default, kind = schema["default"], schema["type"]
    if kind == "object":  # sizes, which are typed as text
        default, kind = " ".join(f"{key}={size}" for key, size in default.items()), "string"
    # Without "null" the form marks the field as one that must be filled in.
    if kind in ("array", "string") and not REQUIRED & schema.keys():
        kind = [kind, "null"]
    if says := schema.get("says"):
        field["values_display"] = {choice: f"{choice}: {text}" for choice, text in says.items()}
    if choices := schema.get("items", {}).get("enum"):
        field["examples"] = choices
    return Param(default, **field | {"type": kind})
