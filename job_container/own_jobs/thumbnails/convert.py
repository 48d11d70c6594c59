"""Shrinks pictures to thumbnails, with torch on a GPU or else with Pillow on all CPUs.

It stands in for any existing job: only `metric` is specific to Batchmark. The pictures are mosaics
of random colours from a seed, so a check knows what each thumbnail must look like.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from PIL import Image

if TYPE_CHECKING:
    from collections.abc import Callable

    Pictures = np.ndarray  # uint8: picture, row, column, colour
    Shrink = Callable[[Pictures], Pictures]

TILES = 8  # tiles of a picture, each way
SIDE = 128  # side of a thumbnail, in pixels
BATCH = 8  # judgment: bounds memory; too few leave a GPU or some CPUs idle
QUALITY = 90  # JPEG quality
TOLERANCE = 12  # in a tile's central colour, of 255, for JPEG and filter errors
CPUS = len(os.sched_getaffinity(0))


def main() -> int:
    options = _options()
    if options.check:
        return check(options.to, options.pictures, options.seed)
    if options.size < SIDE or options.size % TILES:
        print(
            f"--size is {options.size}, but it must be a multiple of {TILES} and at least {SIDE}",
            file=sys.stderr,
        )
        return 2
    device, shrink = ("cuda", _torch_on("cuda")) if _has_gpu() else ("cpu", by_pillow)
    options.to.mkdir(parents=True, exist_ok=True)
    seconds = convert(options.to, options.pictures, options.size, options.seed, shrink)
    print(
        f"shrank {options.pictures} pictures in {seconds:.2f} s on {device}; thumbnails are in "
        f"{options.to}"
    )
    rate = metric("throughput", options.pictures / seconds, "images/s", higher_is_better=True)
    with Path(os.environ.get("BATCHMARK_METRICS", os.devnull)).open("a") as file:
        print(rate, file=file)
    megabytes = sum(path.stat().st_size for path in options.to.glob("*.jpg")) / 1e6
    print("BATCHMARK_METRIC", metric("encoded", megabytes, "MB", higher_is_better=False))
    return 0


def _options() -> argparse.Namespace:
    job = os.environ.get("AWS_BATCH_JOB_ID", "by-hand")
    folder = Path(tempfile.gettempdir()) / f"thumbnails-{job}"
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", type=int, default=512, help="side length of a picture in pixels")
    parser.add_argument("--pictures", type=int, default=240)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--to", type=Path, default=folder, help="folder for the thumbnails")
    parser.add_argument(
        "--check", action="store_true", help="check each thumbnail, then remove them all"
    )
    return parser.parse_args()


def convert(folder: Path, pictures: int, size: int, seed: int, shrink: Shrink) -> float:
    """Make, shrink and write all pictures; return the seconds spent shrinking and writing."""
    seconds = 0.0
    with ThreadPoolExecutor(CPUS) as threads:
        for first in range(0, pictures, BATCH):
            numbers = range(first, min(first + BATCH, pictures))
            batch = np.stack([picture(seed, number, size) for number in numbers])
            began = time.monotonic()
            paths = [folder / f"{number:06d}.jpg" for number in numbers]
            list(threads.map(_write, paths, shrink(batch)))
            seconds += time.monotonic() - began
    return seconds


def mosaic(seed: int, number: int) -> np.ndarray:
    """Return the colours of a picture's tiles, indexed by row, column and colour channel."""
    return np.random.default_rng((seed, number)).integers(0, 256, (TILES, TILES, 3), dtype=np.uint8)


def picture(seed: int, number: int, size: int) -> np.ndarray:
    return mosaic(seed, number).repeat(size // TILES, axis=0).repeat(size // TILES, axis=1)


def by_pillow(pictures: Pictures) -> Pictures:
    with ThreadPoolExecutor(CPUS) as threads:  # Pillow releases the GIL meanwhile
        return np.stack(list(threads.map(_shrink_one, pictures)))


def _shrink_one(one: np.ndarray) -> np.ndarray:
    return np.asarray(Image.fromarray(one).resize((SIDE, SIDE), Image.Resampling.BICUBIC))


def _has_gpu() -> bool:
    """Return whether torch can use a GPU, without loading torch if there is no driver."""
    if not Path("/dev/nvidiactl").exists() or not find_spec("torch"):
        return False
    import torch

    return torch.cuda.is_available()


def _torch_on(device: str) -> Shrink:
    return lambda pictures: by_torch(pictures, device)


def by_torch(pictures: Pictures, device: str) -> Pictures:
    import torch

    planes = torch.from_numpy(pictures).to(device).permute(0, 3, 1, 2).float()
    small = torch.nn.functional.interpolate(planes, (SIDE, SIDE), mode="bicubic", antialias=True)
    return small.round().clamp(0, 255).byte().permute(0, 2, 3, 1).contiguous().cpu().numpy()


def _write(path: Path, thumbnail: np.ndarray) -> None:
    Image.fromarray(thumbnail).save(path, quality=QUALITY)


def metric(name: str, value: float, unit: str, *, higher_is_better: bool) -> str:
    """Format a metric as a Batchmark metric line."""
    line = {"metric": name, "value": value, "unit": unit, "higher_is_better": higher_is_better}
    return json.dumps(line)


def check(folder: Path, pictures: int, seed: int) -> int:
    """Remove the folder, and return 0 if every thumbnail had its mosaic's colours, or else 1."""
    wrong = [number for number in range(pictures) if not _is_right(folder, seed, number)]
    shutil.rmtree(folder, ignore_errors=True)
    if wrong:
        print(
            f"{len(wrong)} of {pictures} thumbnails are wrong, starting with number {wrong[0]}",
            file=sys.stderr,
        )
    return 1 if wrong else 0


def _is_right(folder: Path, seed: int, number: int) -> bool:
    try:
        with Image.open(folder / f"{number:06d}.jpg") as file:
            seen = np.asarray(file, dtype=int)
    except OSError:
        return False
    tile = SIDE // TILES
    middles = seen[tile // 2 :: tile, tile // 2 :: tile]
    wanted = mosaic(seed, number).astype(int)
    return middles.shape == wanted.shape and np.abs(middles - wanted).max() <= TOLERANCE


if __name__ == "__main__":
    sys.exit(main())
