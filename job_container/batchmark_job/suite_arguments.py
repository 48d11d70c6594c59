"""Command-line options for the suites `sharing` and `scaling`, derived from their models.

All functions except `add` raise an InputError if an option or the environment is invalid.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from batchmark_job.distributed.node import Node
from batchmark_job.distributed.point import TRAINING_DTYPES
from batchmark_job.errors import InputError
from batchmark_job.option_values import add_options, command_flags, parse
from batchmark_job.result.options import Options
from batchmark_job.result.scaling_options import ScalingOptions
from batchmark_job.result.sharing_options import SharingOptions
from batchmark_job.sharing.meeting import Place
from batchmark_job.suites import SCALING, SHARING, SUITES, Grid, Point, Suite
from batchmark_job.workloads.own.files import refuse_name_clash

MODELS: dict[str, type[Options]] = {SHARING: SharingOptions, SCALING: ScalingOptions}
FILES = "BATCHMARK_FILES"  # folder of the shards


def add(run: argparse.ArgumentParser) -> None:
    for suite, model in MODELS.items():
        group = run.add_argument_group(f"only with --suite {suite}")
        add_options(group, model)
    group.add_argument(
        "--files", help=f"folder that contains the shards (default: the value of {FILES})"
    )


def refuse(arguments: argparse.Namespace, asked: str | None) -> None:
    """Reject options that the requested suite does not use."""
    for suite, model in MODELS.items():
        own = command_flags(model) | ({"files": "--files"} if suite == SCALING else {})
        for name, flag in own.items():
            if suite != asked and getattr(arguments, name) is not None:
                raise InputError(f"{flag} works only with --suite {suite}")


def sharing_suite(arguments: argparse.Namespace, axes: Mapping[str, Sequence[int]]) -> Suite:
    usual, options = SUITES[SHARING], parse(SharingOptions, arguments)
    (grid,) = usual.grids
    if arguments.task is not None:
        refuse_name_clash(options.task)
        grid = Grid(options.task, axes)
    elif axes:
        grid = replace(grid, axes=axes)
    return replace(usual, grids=(grid,), sharing=options)


def place(points: Sequence[Point]) -> Place | None:
    """Return this process's place among replicas in other containers; None if there are none."""
    sharing = points[0].sharing
    if sharing is None or sharing.form == "processes":
        return None
    return Place.of(sharing.replicas, os.environ)


def scaling_suite(arguments: argparse.Namespace, node: Node) -> Suite:
    usual = SUITES[SCALING]
    options = parse(ScalingOptions, arguments, nodes=node.count)
    files = arguments.files or os.environ.get(FILES)
    if arguments.dtype not in (*TRAINING_DTYPES, "suite"):
        raise InputError(
            f"--dtype {arguments.dtype} is not supported by --suite {SCALING}; use one of "
            f"{', '.join(TRAINING_DTYPES)}"
        )
    return replace(
        usual,
        limits=replace(usual.limits, samples=options.steps),
        scaling=options,
        files=Path(files) if files else None,
    )
