"""The options of the suites `sharing` and `scaling`: on the command line as their models say."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from batchmark_job.distributed.node import Node
from batchmark_job.distributed.point import TRAINING_DTYPES
from batchmark_job.errors import InputError
from batchmark_job.option_values import number, split, whole_number
from batchmark_job.result.options import Options, flags, problem, schemas, text
from batchmark_job.result.scaling_options import ScalingOptions
from batchmark_job.result.sharing_options import SharingOptions
from batchmark_job.sharing.meeting import Place
from batchmark_job.suites import SCALING, SHARING, SUITES, Grid, Point, Suite
from batchmark_job.workloads.user_files import refuse_name_clash

MODELS: dict[str, type[Options]] = {SHARING: SharingOptions, SCALING: ScalingOptions}
AXIS = "--axis"  # of any workload, and so none of a suite's own
FILES = "BATCHMARK_FILES"  # folder of the shards

_Options = TypeVar("_Options", bound=Options)


def add(run: argparse.ArgumentParser) -> None:
    for suite, model in MODELS.items():
        group = run.add_argument_group(f"only with --suite {suite}")
        for name, flag in _flags(model).items():
            group.add_argument(flag, dest=name, help=_help(schemas(model)[name]))
    group.add_argument("--files", help=f"folder of the shards (default: {FILES})")


def refuse(arguments: argparse.Namespace, asked: str | None) -> None:
    """Raises:
    InputError: an option was given that the suite asked for has no use for.
    """
    for suite, model in MODELS.items():
        own = _flags(model) | ({"files": "--files"} if suite == SCALING else {})
        for name, flag in own.items():
            if suite != asked and getattr(arguments, name) is not None:
                raise InputError(f"{flag} goes with --suite {suite} only")


def sharing_suite(arguments: argparse.Namespace, axes: Mapping[str, Sequence[int]]) -> Suite:
    """The suite `sharing` as asked for.

    Raises:
        InputError: an option can't be had.
    """
    usual, options = SUITES[SHARING], parse(SharingOptions, arguments)
    (grid,) = usual.grids
    if arguments.task is not None:
        refuse_name_clash(options.task)
        grid = Grid(options.task, axes)
    elif axes:
        grid = replace(grid, axes=axes)
    return replace(usual, grids=(grid,), sharing=options)


def place(points: Sequence[Point]) -> Place | None:
    """Where this process meets the other replicas; None where they are its own.

    Raises:
        InputError: the environment does not say.
    """
    sharing = points[0].sharing
    if sharing is None or sharing.form == "processes":
        return None
    return Place.of(sharing.replicas, os.environ)


def scaling_suite(arguments: argparse.Namespace, node: Node) -> Suite:
    """The suite `scaling` as asked for.

    Raises:
        InputError: an option can't be had.
    """
    usual = SUITES[SCALING]
    options = parse(ScalingOptions, arguments, nodes=node.count)
    files = arguments.files or os.environ.get(FILES)
    if arguments.dtype not in (*TRAINING_DTYPES, "suite"):
        raise InputError(
            f"--dtype {arguments.dtype} is not for --suite {SCALING}; give one of "
            f"{', '.join(TRAINING_DTYPES)}"
        )
    return replace(
        usual,
        limits=replace(usual.limits, samples=options.steps),
        scaling=options,
        files=Path(files) if files else None,
    )


def parse(model: type[_Options], arguments: argparse.Namespace, **more: object) -> _Options:
    """The model of the options given; `more` are fields that the command line does not have.

    Raises:
        InputError: an option can't be had.
    """
    named = _flags(model)
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


def _flags(model: type[Options]) -> dict[str, str]:
    return {name: flag for name, flag in flags(model).items() if flag != AXIS}


def _help(schema: dict[str, Any]) -> str:
    choices = schema.get("items", schema).get("enum")
    known = f"of {', '.join(choices)}: " if choices else ""
    usual = "none" if schema["default"] in (None, []) else text(schema["default"])
    return f"{known}{schema['command']} (default: {usual})"


def _value(flag: str, given: str, schema: dict[str, Any]) -> object:
    if "items" in schema:
        parts = (_value(flag, part, schema["items"]) for part in split(given))
        return tuple(dict.fromkeys(parts))
    if "integer" in schema["type"]:
        return whole_number(flag, given)
    return number(flag, given, schema["default"]) if schema["type"] == "number" else given
