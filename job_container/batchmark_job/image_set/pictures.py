"""Images as a camera's are to a decoder: coarse structure, finer and finer, and noise."""

from __future__ import annotations

from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

Pixels = NDArray[np.uint8]

QUALITY = 90
CLASS_NUMBERS = 4  # along each side of the pattern that all images of a class share
CLASS_CONTRAST = 40.0
# The finer, the weaker: photographs' contrast falls with frequency. Numbers along a side: contrast.
STRUCTURE = {3: 40.0, 8: 22.0, 24: 14.0, 72: 9.0}
NOISE = 14.0
_OF_CLASSES = 1  # parts their random numbers from those of the images


def image(number: int, size: int, classes: int, seed: int) -> tuple[bytes, int]:
    """As JPEG, with its class; the same arguments give the same bytes."""
    rng = np.random.default_rng([seed, number])
    label = int(rng.integers(classes))
    of_class = np.random.default_rng([seed, label, _OF_CLASSES])
    picture = 128 + _structure(of_class, CLASS_NUMBERS, size, CLASS_CONTRAST)
    for numbers, contrast in STRUCTURE.items():
        if numbers < size:
            picture += _structure(rng, numbers, size, contrast)
    picture += NOISE * rng.standard_normal(picture.shape, np.float32)
    pixels: Pixels = np.clip(picture, 0, 255).astype(np.uint8)
    _, encoded = cv2.imencode(".jpg", pixels, [cv2.IMWRITE_JPEG_QUALITY, QUALITY])
    return bytes(encoded), label


def _structure(
    rng: np.random.Generator, numbers: int, size: int, contrast: float
) -> NDArray[np.float32]:
    coarse = contrast * rng.standard_normal((numbers, numbers, 3), np.float32)
    scaled: Any = cv2.resize(coarse, (size, size), interpolation=cv2.INTER_CUBIC)
    return np.asarray(scaled, np.float32)
