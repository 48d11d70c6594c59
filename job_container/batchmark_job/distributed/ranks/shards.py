"""Lists a folder's shards, divides them among ranks, and drops them from the page cache."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import NamedTuple

from pydantic import ValidationError

from batchmark_job.distributed.ranks.world import World
from batchmark_job.errors import InputError
from batchmark_job.image_set.manifest import FILE, SUFFIX, Manifest


class ShardFile(NamedTuple):
    path: Path
    size_bytes: int
    sha256: str | None = None  # from the manifest, if there is one


def find_shards(folder: Path, world: World) -> list[ShardFile]:
    """Return all shards, at least one per rank, sorted by name.

    Raises:
        InputError: the folder can't be read, has too few shards, or differs from its manifest.
    """
    try:
        found = [ShardFile(path, path.stat().st_size) for path in sorted(folder.glob(f"*{SUFFIX}"))]
        if not folder.is_dir():
            raise InputError(
                f"the image folder {folder} does not exist; check that the file system is "
                "mounted and that --files names a folder on it"
            )
        manifest = _manifest(folder)
    except OSError as error:
        raise InputError(
            f"the image folder {folder} can't be read ({error.strerror}); check that the file "
            "system is mounted and that this user may read it"
        ) from error
    if manifest is not None:
        found = _compared(folder, found, manifest)
    if len(found) < world.size:
        raise InputError(
            f"{folder} contains {len(found)} shards (*{SUFFIX}) for {world.size} ranks, but each "
            "rank needs a shard of its own; use `batchmark-job images` to create a set with "
            f"--shards {world.size} or more"
        )
    return found


def own_shards(shards: list[ShardFile], world: World) -> list[ShardFile]:
    """Return this rank's share of the shards: every `world.size`-th one."""
    return shards[world.rank :: world.size]


def drop_from_page_cache(path: Path) -> None:
    """Ask the kernel to drop this file from the page cache.

    Mapped and dirty pages stay cached, as does anything in the file system's servers' caches.
    """
    handle = os.open(path, os.O_RDONLY)
    try:
        os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(handle)


def unreadable(path: Path, error: Exception) -> str:
    """Explain why a shard can't be read, and what to do about it."""
    if isinstance(error, OSError) and error.errno == errno.ENOSPC:
        return (
            f"{path} can't be read: the file system is full, so it can't load the file from S3; "
            "create a larger file system, or use a smaller set"
        )
    if isinstance(error, OSError) and error.strerror:
        return (
            f"{path} can't be read ({error.strerror}); check that the file system is still mounted"
        )
    return (
        f"{path} is not a complete tar file ({error.args[0] if error.args else error}); copy "
        "it again"
    )


def _manifest(folder: Path) -> Manifest | None:
    """Return the set's manifest, or None if `batchmark-job images` did not make the shards."""
    path = folder / FILE
    if not path.exists():
        return None
    try:
        return Manifest.model_validate_json(path.read_bytes())
    except ValidationError as error:
        raise InputError(
            f"{path} is not a valid image-set manifest ({error.error_count()} errors); create the "
            "set again with `batchmark-job images`, or remove the file if the shards are your own"
        ) from None


def _compared(folder: Path, found: list[ShardFile], manifest: Manifest) -> list[ShardFile]:
    if not manifest.complete:
        raise InputError(
            f"the image set in {folder} is not complete; run `batchmark-job images` again to add "
            "what is missing"
        )
    sizes = {shard.path.name: shard.size_bytes for shard in found}
    sums = {shard.name: shard.sha256 for shard in manifest.shards}
    if others := sorted(sizes.keys() - sums.keys()):
        raise InputError(
            f"{folder / others[0]} is not part of the set that {FILE} describes; remove it, or "
            "the manifest if all shards are your own"
        )
    for shard in manifest.shards:
        size = sizes.get(shard.name)
        if size != shard.bytes:
            seen = "is missing" if size is None else f"has {size:,} bytes"
            raise InputError(
                f"{folder / shard.name} {seen}, but {FILE} lists it with {shard.bytes:,} bytes; "
                "copy it again"
            )
    return [shard._replace(sha256=sums[shard.path.name]) for shard in found]
