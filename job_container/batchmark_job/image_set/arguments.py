"""The `images` command and its options."""

from __future__ import annotations

import argparse
import signal
from typing import Any

from batchmark_job.errors import say
from batchmark_job.image_set.manifest import Settings
from batchmark_job.image_set.places import parse_place
from batchmark_job.interruption import Interruption
from batchmark_job.option_values import add_options, parse

COMMAND = "images"


def add(commands: Any) -> None:
    parser = commands.add_parser(
        COMMAND, help="create a synthetic image set, split into shards", allow_abbrev=False
    )
    add_options(parser, Settings)
    parser.add_argument(
        "--to",
        required=True,
        help="folder or s3://bucket/prefix/; it must be empty or contain part of this set",
    )


def run(arguments: argparse.Namespace, interruption: Interruption | None) -> None:
    """Make the image set that the options describe.

    Raises:
        InputError: a value is out of bounds, or the destination holds something else.
        OutputError: the set can't be written there.
    """
    settings = parse(Settings, arguments)
    place = parse_place(arguments.to)
    if interruption is not None:
        interruption.on_stop = _stopped
    # Imported late: it loads OpenCV.
    from batchmark_job.image_set.making import make

    make(settings, place)


def _stopped(received: signal.Signals) -> int:
    say(
        f"batchmark-job: stopped by {received.name}; run the same command again to create the "
        "missing shards"
    )
    return 128 + received
