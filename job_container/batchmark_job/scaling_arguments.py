"""The options of the suite `scaling`: what the nodes of a job measure together."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from pydantic import ValidationError

from batchmark_job.distributed.node import Node
from batchmark_job.distributed.point import DATA, PASSES, SETTINGS, TRAINING_DTYPES, ScalingOptions
from batchmark_job.errors import InputError
from batchmark_job.option_values import each_of, number, split, whole_number
from batchmark_job.result.scaling import TrainingSettings
from batchmark_job.result.values import MOST_SAMPLES
from batchmark_job.suites import SCALING, SUITES, Suite

FILES = "BATCHMARK_FILES"  # folder of the shards
SETTING_NAMES = tuple(TrainingSettings.model_fields)
OPTIONS = (
    "devices",
    "batches",
    "image",
    "data",
    "files",
    "passes",
    "steps",
    "all_reduce_mib",
    "varied",
    *SETTING_NAMES,
)


def add(run: argparse.ArgumentParser) -> None:
    usual = ScalingOptions()
    group = run.add_argument_group(f"only with --suite {SCALING}")
    group.add_argument("--devices", help="of each node: GPUs, or processes on the CPU (default: 1)")
    group.add_argument(
        "--batches",
        help="images of each device at each step; several are rows of their own (default: "
        f"{_listed(usual.batches)})",
    )
    group.add_argument("--image", help=f"width and height in pixels (default: {usual.image})")
    group.add_argument("--data", help=f"of {', '.join(DATA)} (default: synthetic)")
    group.add_argument("--files", help=f"folder of the shards (default: {FILES})")
    group.add_argument(
        "--passes",
        help=f"of {', '.join(PASSES)}, over the files: only the first job that reads them has a "
        "cold one (default: both)",
    )
    group.add_argument(
        "--steps",
        help="most samples of a row (default: 50); of training on files each is a step of every "
        "worker that loads them",
    )
    group.add_argument(
        "--all-reduce-mib",
        help=f"sizes in mebibytes; may be empty (default: {_listed(usual.all_reduce_mib)})",
    )
    group.add_argument(
        "--varied", help="settings of those below that tell this job's rows from others of its run"
    )
    for name in SETTING_NAMES:
        option = f"--{name.replace('_', '-')}"
        group.add_argument(option, help=f"(default: {getattr(SETTINGS, name)})")


def refuse(arguments: argparse.Namespace) -> None:
    """Raises:
    InputError: an option was given that another suite has no use for.
    """
    for name in OPTIONS:
        if getattr(arguments, name) is not None:
            raise InputError(f"--{name.replace('_', '-')} goes with --suite {SCALING} only")


def suite(arguments: argparse.Namespace, node: Node) -> Suite:
    """The suite as asked for.

    Raises:
        InputError: an option can't be had.
    """
    usual, given = SUITES[SCALING], ScalingOptions(nodes=node.count)
    files = arguments.files or os.environ.get(FILES)
    data = each_of("--data", arguments.data, DATA) or given.data
    options = replace(
        given,
        devices=_number("--devices", arguments.devices, given.devices),
        batches=_numbers("--batches", arguments.batches, given.batches),
        image=_number("--image", arguments.image, given.image),
        data=data,
        folder=Path(files) if files and "files" in data else None,
        passes=each_of("--passes", arguments.passes, PASSES) or given.passes,
        all_reduce_mib=_numbers("--all-reduce-mib", arguments.all_reduce_mib, given.all_reduce_mib),
        settings=_settings(arguments),
        varied=each_of("--varied", arguments.varied, SETTING_NAMES),
    )
    options.points()
    steps = _number("--steps", arguments.steps, usual.limits.samples)
    if steps < usual.limits.minimum_samples:
        raise InputError(f"--steps {steps} is too few; give {usual.limits.minimum_samples} or more")
    if steps > MOST_SAMPLES:
        raise InputError(f"--steps {steps} is too many; give {MOST_SAMPLES} or fewer")
    if arguments.dtype not in (*TRAINING_DTYPES, "suite"):
        raise InputError(
            f"--dtype {arguments.dtype} is not for --suite {SCALING}; give one of "
            f"{', '.join(TRAINING_DTYPES)}"
        )
    return replace(usual, limits=replace(usual.limits, samples=steps), scaling=options)


def _settings(arguments: argparse.Namespace) -> TrainingSettings:
    values = {}
    for name in SETTING_NAMES:
        text, usual = getattr(arguments, name), getattr(SETTINGS, name)
        option = f"--{name.replace('_', '-')}"
        whole = isinstance(usual, int)
        values[name] = _number(option, text, usual) if whole else number(option, text, usual)
    try:
        return TrainingSettings(**values)
    except ValidationError as error:
        first = error.errors()[0]
        name = str(first["loc"][0])
        option = f"--{name.replace('_', '-')}"
        raise InputError(f"{option} {first['input']} can't be: {first['msg']}") from None


def _number(option: str, text: str | None, default: int) -> int:
    return default if text is None else whole_number(option, text)


def _numbers(option: str, text: str | None, default: Sequence[int]) -> list[int]:
    if text is None:
        return list(default)
    found = [whole_number(option, part) for part in split(text)]
    if 0 in found:
        raise InputError(f"{option} has 0; give whole numbers from 1")
    return list(dict.fromkeys(found))


def _listed(numbers: Sequence[int]) -> str:
    return ",".join(map(str, numbers))
