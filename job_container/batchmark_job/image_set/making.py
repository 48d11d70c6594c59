"""Makes an image set shard by shard, resuming where an earlier attempt ended.

To a decoder, the images resemble a camera's: they have coarse and fine structure, and noise.
"""

from __future__ import annotations

import hashlib
import io
import os
import tarfile
import time
from concurrent.futures import Executor, ThreadPoolExecutor
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray
from pydantic import ValidationError

from batchmark_job.errors import InputError, say
from batchmark_job.image_set.manifest import FILE, Manifest, Settings, Shard, shard_name
from batchmark_job.image_set.places import Place

REPORT_SECONDS = 10.0  # judgment: shows progress without filling the log
QUALITY = 90  # judgment: usual for photographs; decides the files' size
CLASS_NUMBERS = 4  # side length of the pattern that all images of a class share
CLASS_CONTRAST = 40.0  # as the coarsest of STRUCTURE, so that classes can be told apart
# Side lengths: contrast. Finer structure is weaker, as contrast falls with frequency in
# photographs.
STRUCTURE = {3: 40.0, 8: 22.0, 24: 14.0, 72: 9.0}
NOISE = 14.0
_OF_CLASSES = 1  # separates their random numbers from those of the images


def make(settings: Settings, place: Place) -> Manifest:
    """Make the set's missing shards, and return the set's manifest.

    Raises:
        InputError: the place holds something else.
        OutputError: a file can't be read or written; finished shards stay for the next attempt.
    """
    names = [shard_name(number) for number in range(settings.shards)]
    there = place.names()
    if FILE in there:
        found = _read_manifest(place)
        if found.settings != settings:
            raise InputError(
                f"{place} contains another image set ({_described(found.settings)}); use the same "
                "options or choose another place"
            )
        if found.complete and there.issuperset(names):
            say(f"batchmark-job: the image set in {place} already exists; nothing to do")
            return found
    elif there:
        raise InputError(
            f"{place} contains {len(there)} other file(s), such as {min(there)}; choose an empty "
            "folder or prefix"
        )
    _write_manifest(Manifest(settings=settings), place)
    shards = []
    reported = time.monotonic()
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        for number, name in enumerate(names):
            content = place.read(name) if name in there else None
            if content is None:
                content = encoded_shard(number, settings, pool)
                place.write(name, content)
            checksum = hashlib.sha256(content).hexdigest()
            count = len(settings.images_of(number))
            shards.append(Shard(name=name, images=count, bytes=len(content), sha256=checksum))
            if time.monotonic() - reported >= REPORT_SECONDS:
                reported = time.monotonic()
                made = sum(shard.images for shard in shards)
                say(f"batchmark-job: {made:,} of {settings.count:,} images written to {place}")
    manifest = Manifest(settings=settings, shards=tuple(shards))
    _write_manifest(manifest, place)
    size = sum(shard.bytes for shard in shards)
    say(
        f"batchmark-job: the image set in {place} is complete: {settings.count:,} images in "
        f"{settings.shards} shards, {size / 1e6:,.1f} MB"
    )
    return manifest


def encoded_shard(number: int, settings: Settings, pool: Executor) -> bytes:
    """Encode a shard as a tar file without times or owners, to make its bytes reproducible."""
    images = settings.images_of(number)
    encoded = pool.map(
        lambda index: image(index, settings.size, settings.classes, settings.seed), images
    )
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for index, (jpeg, label) in zip(images, encoded, strict=True):
            for suffix, content in (("jpg", jpeg), ("cls", str(label).encode())):
                member = tarfile.TarInfo(f"{index:06d}.{suffix}")
                member.size = len(content)
                archive.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


def _read_manifest(place: Place) -> Manifest:
    try:
        return Manifest.model_validate_json(place.read(FILE))
    except ValidationError:
        raise InputError(
            f"{place} contains a {FILE} that is not from an image set; choose another place"
        ) from None


def _write_manifest(manifest: Manifest, place: Place) -> None:
    place.write(FILE, manifest.model_dump_json(indent=2).encode())


def _described(settings: Settings) -> str:
    return ", ".join(f"--{name} {value}" for name, value in settings.model_dump().items())


def image(number: int, size: int, classes: int, seed: int) -> tuple[bytes, int]:
    """Return an image as a JPEG, and its class; the same arguments give the same bytes."""
    rng = np.random.default_rng([seed, number])
    label = int(rng.integers(classes))
    of_class = np.random.default_rng([seed, label, _OF_CLASSES])
    picture = 128 + _structure(of_class, CLASS_NUMBERS, size, CLASS_CONTRAST)
    for numbers, contrast in STRUCTURE.items():
        if numbers < size:
            picture += _structure(rng, numbers, size, contrast)
    picture += NOISE * rng.standard_normal(picture.shape, np.float32)
    pixels = np.clip(picture, 0, 255).astype(np.uint8)
    _, encoded = cv2.imencode(".jpg", pixels, [cv2.IMWRITE_JPEG_QUALITY, QUALITY])
    return bytes(encoded), label


def _structure(
    rng: np.random.Generator, numbers: int, size: int, contrast: float
) -> NDArray[np.float32]:
    coarse = contrast * rng.standard_normal((numbers, numbers, 3), np.float32)
    scaled: Any = cv2.resize(coarse, (size, size), interpolation=cv2.INTER_CUBIC)
    return np.asarray(scaled, np.float32)
