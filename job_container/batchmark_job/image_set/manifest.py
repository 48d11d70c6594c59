"""The manifest stored with a set's shards, which lists them once all have been made."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

from pydantic import Field

from batchmark_job.result.options import Options, Whole, option
from batchmark_job.result.values import Model, optional

FILE = "manifest.json"
SUFFIX = ".tar"
# A shard is made in memory; a pixel takes about half a byte as JPEG.
BYTES_PER_PIXEL, MOST_SHARD_BYTES = 0.6, 2**31


class Settings(Options):
    """All settings that determine a set's content; the same settings give the same bytes."""

    count: Annotated[Whole, Field(ge=1, le=10_000_000)] = option(1024, command="number of images")
    size: Annotated[Whole, Field(ge=16, le=4096)] = option(
        256, command="width and height of an image in pixels"
    )
    shards: Annotated[Whole, Field(ge=1, le=100_000)] = option(
        16, command="number of tar files that hold the images"
    )
    classes: Annotated[Whole, Field(ge=1, le=1000)] = option(1000, command="number of classes")
    seed: Annotated[Whole, Field(ge=0, lt=2**31)] = option(
        0, command="different seeds give different images"
    )

    def contradiction(self, name: Callable[[str], str]) -> str | None:
        shards = f"{name('shards')} {self.shards}"
        if self.shards > self.count:
            return (
                f"{shards} is more than {name('count')} {self.count}; each shard needs at least "
                "one image"
            )
        shard_bytes = BYTES_PER_PIXEL * self.size**2 * self.count / self.shards
        if shard_bytes > MOST_SHARD_BYTES:
            needed = -(-int(shard_bytes * self.shards) // MOST_SHARD_BYTES)
            return (
                f"{shards} creates shards of about {shard_bytes / 2**30:.1f} GiB; use {needed} or "
                "more, so that no shard exceeds 2 GiB"
            )
        return None

    def images_of(self, shard: int) -> range:
        return range(shard * self.count // self.shards, (shard + 1) * self.count // self.shards)


class Shard(Model):
    """A tar file in WebDataset's format: 000000.jpg is an image, 000000.cls its class as text."""

    name: str
    images: int
    bytes: int
    sha256: str


class Manifest(Model):
    settings: Settings
    shards: tuple[Shard, ...] = optional("empty until all shards are made", ())

    @property
    def complete(self) -> bool:
        return len(self.shards) == self.settings.shards


def shard_name(number: int) -> str:
    return f"shard-{number:06d}{SUFFIX}"
