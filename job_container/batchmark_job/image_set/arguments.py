"""The command `images`, and its options."""

from __future__ import annotations

import argparse
import signal
from typing import Any

from batchmark_job.errors import InputError, say
from batchmark_job.image_set.manifest import Settings
from batchmark_job.image_set.places import parse_place
from batchmark_job.interruption import Interruption
from batchmark_job.option_values import whole_number

COMMAND = "images"
BOUNDS = {
    "count": (1, 10_000_000),
    "size": (16, 4096),
    "shards": (1, 100_000),
    "classes": (1, 1000),
    "seed": (0, 2**31 - 1),
}
DEFAULTS = {"count": 1024, "size": 256, "shards": 16, "classes": 1000, "seed": 0}
MEANINGS = {
    "count": "images",
    "size": "their width and height in pixels",
    "shards": "tar files to spread them over",
    "classes": "that the images belong to",
    "seed": "another one gives other images",
}
# A shard is made in memory, and a pixel takes about half a byte as JPEG.
BYTES_PER_PIXEL, MOST_SHARD_BYTES = 0.6, 2**31


def add(commands: Any) -> None:
    parser = commands.add_parser(
        COMMAND, help="make a synthetic set of images in shards", allow_abbrev=False
    )
    for name, default in DEFAULTS.items():
        parser.add_argument(
            f"--{name}", default=str(default), help=f"{MEANINGS[name]} (default: {default})"
        )
    parser.add_argument(
        "--to",
        required=True,
        help="folder or s3://bucket/prefix/: an empty one, or one with a part of this set",
    )


def run(arguments: argparse.Namespace, interruption: Interruption | None) -> None:
    """Make the set that the options name.

    Raises:
        InputError: a value is out of bounds, or something else is at the place.
        OutputError: it can't be written there.
    """
    settings = settings_of(arguments)
    place = parse_place(arguments.to)
    if interruption is not None:
        interruption.on_stop = _stopped
    # Only now: it loads OpenCV.
    from batchmark_job.image_set.making import make

    make(settings, place)


def _stopped(received: signal.Signals) -> int:
    say(f"batchmark-job: {received.name}: run this again, which makes what is missing")
    return 128 + received


def settings_of(arguments: argparse.Namespace) -> Settings:
    values = {name: _bounded(name, getattr(arguments, name)) for name in BOUNDS}
    settings = Settings(**values)
    if settings.shards > settings.count:
        raise InputError(
            f"--shards {settings.shards} is more than --count {settings.count}; give one image or "
            "more for each shard"
        )
    shard_bytes = BYTES_PER_PIXEL * settings.size**2 * settings.count / settings.shards
    if shard_bytes > MOST_SHARD_BYTES:
        needed = -(-int(shard_bytes * settings.shards) // MOST_SHARD_BYTES)
        raise InputError(
            f"--shards {settings.shards} makes shards of about {shard_bytes / 2**30:.1f} GiB; give "
            f"{needed} or more, for 2 GiB or less each"
        )
    return settings


def _bounded(name: str, text: str) -> int:
    least, most = BOUNDS[name]
    value = whole_number(f"--{name}", text)
    if not least <= value <= most:
        raise InputError(f"--{name} {value} is out of bounds; give {least} to {most}")
    return value
