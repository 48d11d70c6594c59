"""The options of the suite `sharing`: what is shared, how, and by how many."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace

from batchmark_job.errors import InputError
from batchmark_job.option_values import each_of, one_of, split, whole_number
from batchmark_job.result.sharing import Disturbance, SharingMode
from batchmark_job.sharing.meeting import Place
from batchmark_job.sharing.point import FORMS, REPLICAS, MpsLimits, SharingOptions
from batchmark_job.suites import SHARING, SUITES, Grid, Point, Suite
from batchmark_job.workloads.user_files import refuse_name_clash

MODES = [mode.value for mode in SharingMode]
DISTURBANCES = [disturbance.value for disturbance in Disturbance]
OPTIONS = ("task", "modes", "replicas", "disturbances", "form", "mps_threads", "mps_memory")


def add(run: argparse.ArgumentParser) -> None:
    group = run.add_argument_group(f"only with --suite {SHARING}")
    group.add_argument("--task", help="workload of each replica (default: cnn_training_step)")
    group.add_argument("--modes", help=f"of {', '.join(MODES)} (default: all)")
    many = ",".join(map(str, REPLICAS))
    group.add_argument("--replicas", help=f"how many at once (default: {many})")
    group.add_argument(
        "--disturbances",
        help=f"of {', '.join(DISTURBANCES)}: what one replica does in an experiment of its own "
        "(default: none)",
    )
    group.add_argument(
        "--form",
        help=f"one of {', '.join(FORMS)}: where the replicas are; as jobs and pods this process is "
        "one of them (default: processes)",
    )
    group.add_argument("--mps-threads", help="per cent of the GPU's threads for each MPS client")
    group.add_argument("--mps-memory", help="mebibytes of GPU memory for each MPS client")


def refuse(arguments: argparse.Namespace) -> None:
    """Raises:
    InputError: an option was given that another suite has no use for.
    """
    for name in OPTIONS:
        if getattr(arguments, name) is not None:
            raise InputError(f"--{name.replace('_', '-')} goes with --suite {SHARING} only")


def suite(arguments: argparse.Namespace, axes: Mapping[str, Sequence[int]]) -> Suite:
    """The suite as asked for.

    Raises:
        InputError: an option can't be had.
    """
    usual, given = SUITES[SHARING], SharingOptions()
    limits = MpsLimits(
        _number("--mps-threads", arguments.mps_threads),
        _number("--mps-memory", arguments.mps_memory),
    )
    modes = each_of("--modes", arguments.modes, MODES)
    disturbances = each_of("--disturbances", arguments.disturbances, DISTURBANCES)
    replicas = [whole_number("--replicas", text) for text in split(arguments.replicas)]
    options = replace(
        given,
        modes=tuple(map(SharingMode, modes)) or given.modes,
        replicas=tuple(dict.fromkeys(replicas)) or given.replicas,
        disturbances=tuple(map(Disturbance, disturbances)),
        form=one_of("--form", arguments.form or given.form, FORMS),
        limits=limits,
    )
    options.points()
    (grid,) = usual.grids
    if arguments.task is not None:
        refuse_name_clash(arguments.task)
        grid = Grid(arguments.task, axes)
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


def _number(option: str, text: str | None) -> int | None:
    return None if text is None else whole_number(option, text)
