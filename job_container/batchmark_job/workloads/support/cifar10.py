"""Reads CIFAR-10 images from the binary version's archive, for use instead of random images.

The format is described at https://www.cs.toronto.edu/~kriz/cifar.html ("Binary version"): records
of one byte for the label and 3,072 for the pixels, channel by channel, row by row.
"""

from __future__ import annotations

import os
import tarfile
from pathlib import Path

import numpy as np

from batchmark_job.errors import InputError
from batchmark_job.workloads.tensors import Tensor

VARIABLE = "BATCHMARK_CIFAR10"  # cifar-10-binary.tar.gz, or its unpacked folder
FILE = "data_batch_1.bin"
SHAPE = (3, 32, 32)
RECORD_BYTES = 1 + 3 * 32 * 32


def images_and_labels(count: int) -> tuple[Tensor, Tensor] | None:
    """Return the first `count` images and their labels, or None if no archive is configured.

    Pixels are float32 numbers around 0 with a spread of about 1.

    Raises:
        InputError: the archive can't be read, or is not CIFAR-10's.
    """
    import torch

    place = os.environ.get(VARIABLE)
    if not place:
        return None
    wanted = count * RECORD_BYTES
    try:
        found = _first_bytes(Path(place), wanted)
    except (OSError, tarfile.TarError, KeyError) as error:
        raise InputError(
            f"{VARIABLE} is {place!r}: {error}; set it to cifar-10-binary.tar.gz or its folder"
        ) from error
    if len(found) < wanted or max(found[::RECORD_BYTES]) > 9:
        raise InputError(f"{VARIABLE} is {place!r}: its {FILE} does not contain CIFAR-10 records")
    records = np.frombuffer(found, np.uint8).reshape(count, RECORD_BYTES)
    pixels = torch.from_numpy(records[:, 1:].reshape(count, *SHAPE).astype(np.float32))
    return (pixels - 127.5) / 64, torch.from_numpy(records[:, 0].astype(np.int64))


def _first_bytes(place: Path, wanted: int) -> bytes:
    if place.is_dir():
        with (place / FILE).open("rb") as file:
            return file.read(wanted)
    with tarfile.open(place) as archive:
        name = next((name for name in archive.getnames() if Path(name).name == FILE), FILE)
        member = archive.extractfile(name)
        return b"" if member is None else member.read(wanted)
