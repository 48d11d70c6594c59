"""Parses option values; error messages name the rejected value."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from batchmark_job.errors import InputError
from batchmark_job.result.options import Options, flags, problem, schemas, text

AXIS = "--axis"  # an axis of every workload, added automatically

Choice = TypeVar("Choice", bound=str)
_Options = TypeVar("_Options", bound=Options)


def add_options(to: Any, model: type[Options]) -> None:
    """Add a model's options to a parser or an argument group."""
    for name, flag in command_flags(model).items():
        to.add_argument(flag, dest=name, help=_help(schemas(model)[name]))


def command_flags(model: type[Options]) -> dict[str, str]:
    """Return the command-line flags that add_options adds, keyed by option name."""
    return {name: flag for name, flag in flags(model).items() if flag != AXIS}


def parse(model: type[_Options], arguments: argparse.Namespace, **more: object) -> _Options:
    """Build the model from parsed options; `more` provides fields that aren't on the command line.

    Raises:
        InputError: an option is invalid.
    """
    named = command_flags(model)
    given = {
        name: _value(flag, getattr(arguments, name), schemas(model)[name])
        for name, flag in named.items()
        if getattr(arguments, name) is not None
    }
    for name, field in model.model_fields.items():
        if isinstance(field.default, BaseModel):
            usual = field.default.model_dump()
            more[name] = {part: given.pop(part, value) for part, value in usual.items()}
    try:
        options = model(**given, **more)
    except ValidationError as error:
        raise InputError(problem(model, error, named.__getitem__)) from None
    if contradiction := options.contradiction(named.__getitem__):
        raise InputError(contradiction)
    return options


def number(option: str, text: str | None, default: float) -> float:
    if text is None:
        return default
    try:
        return float(text)
    except ValueError:
        raise InputError(
            f"{option} {text!r} is not a number; use a number such as {default:g}"
        ) from None


def one_of(option: str, value: str, known: Sequence[Choice]) -> Choice:
    for choice in known:
        if value == choice:
            return choice
    raise InputError(f"unknown {option} {value!r}; known: {', '.join(known)}")


def whole_number(option: str, text: str) -> int:
    if not re.fullmatch(r"-?[0-9]{1,18}", text.strip()):
        raise InputError(f"{option} {text!r} is not a whole number; use digits only")
    number = int(text)
    if number < 0:
        raise InputError(f"{option} {number} is negative; use 0 or more")
    return number


def _help(schema: dict[str, Any]) -> str:
    choices = schema.get("items", schema).get("enum")
    known = f"choose from {', '.join(choices)}: " if choices else ""
    usual = "none" if schema["default"] in (None, []) else text(schema["default"])
    return f"{known}{schema['command']} (default: {usual})"


def _value(flag: str, given: str, schema: dict[str, Any]) -> object:
    if "items" in schema:
        parts = given.split(",") if given else ()
        return tuple(dict.fromkeys(_value(flag, part, schema["items"]) for part in parts))
    if "integer" in schema["type"]:
        return whole_number(flag, given)
    return number(flag, given, schema["default"]) if schema["type"] == "number" else given
