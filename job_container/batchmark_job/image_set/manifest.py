"""What a set of images holds: a file beside its shards, written empty first and in full last."""

from __future__ import annotations

from pydantic import Field

from batchmark_job.result.values import Model

FILE = "manifest.json"
SUFFIX = ".tar"


class Settings(Model):
    """All that decides the content of a set; the same settings give the same bytes."""

    count: int = Field(description="images")
    size: int = Field(description="their width and height in pixels")
    shards: int
    classes: int
    seed: int

    def images_of(self, shard: int) -> range:
        return range(shard * self.count // self.shards, (shard + 1) * self.count // self.shards)


class Shard(Model):
    """One tar file, in WebDataset's naming: 000000.jpg, and its class as text in 000000.cls."""

    name: str
    images: int
    bytes: int
    sha256: str


class Manifest(Model):
    settings: Settings
    shards: tuple[Shard, ...] = Field(
        default=(), description="none while the set is being made, then all of them"
    )

    @property
    def complete(self) -> bool:
        return len(self.shards) == self.settings.shards


def shard_name(number: int) -> str:
    return f"shard-{number:06d}{SUFFIX}"
