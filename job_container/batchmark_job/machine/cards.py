"""The GPU models that EC2 offers, and which of them a torch build supports."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

Capability = tuple[int, int]

# From libtorch_python.so in PyPI's Linux wheel (torch._C._cuda_getArchFlags()); it has no PTX.
TORCH = "2.13.0"
CUDA = "13.0"
BUILT_FOR = ("sm_75", "sm_80", "sm_86", "sm_90", "sm_100", "sm_120")


class Card(NamedTuple):
    """A GPU model: part of its CUDA name, its capability, and the EC2 families that have it."""

    model: str
    capability: Capability
    families: tuple[str, ...]


# The image lacks the plugins' instance_families.json, so its x86_64 families are repeated here.
CARDS = (
    Card("K520", (3, 0), ("g2",)),
    Card("K80", (3, 7), ("p2",)),
    Card("M60", (5, 2), ("g3", "g3s")),
    Card("V100", (7, 0), ("p3", "p3dn")),
    Card("T4", (7, 5), ("g4dn",)),
    Card("A10G", (8, 6), ("g5",)),
    Card("L4", (8, 9), ("g6", "g6f", "gr6", "gr6f")),
    Card("L40S", (8, 9), ("g6e",)),
    Card("A100", (8, 0), ("p4d", "p4de")),
    Card("H100", (9, 0), ("p5",)),
    Card("H200", (9, 0), ("p5e", "p5en")),
    Card("B200", (10, 0), ("p6-b200",)),
    Card("B300", (10, 3), ("p6-b300",)),
    Card("RTX PRO 4500", (12, 0), ("g7",)),
    Card("RTX PRO 6000", (12, 0), ("g7e",)),
)


def card_of(model: str) -> Card | None:
    """Return the card with a CUDA name such as NVIDIA A100-SXM4-40GB, or None if it is unknown."""
    return next((card for card in CARDS if re.search(rf"\b{card.model}\b", model)), None)


def runs_on(capability: Capability, built_for: Iterable[str]) -> bool:
    """Return whether a torch build has code for a GPU.

    Binary code (sm_) runs on the same major version with the same or a later minor version.
    Architecture-specific code (sm_90a) runs only on its own version, and PTX (compute_) also on all
    later ones. Source: CUDA programming guide, "Compute capabilities" and "Binary compatibility".
    """
    return any(_covers(name, capability) for name in built_for)


def _covers(name: str, capability: Capability) -> bool:
    found = re.fullmatch(r"(sm|compute)_(\d+)(\d)([af]?)", name)
    if found is None:
        return False
    kind, major, minor, specific = found.groups()
    version = int(major), int(minor)
    if specific == "a":
        return capability == version
    if kind == "compute":
        return capability >= version
    return capability[0] == version[0] and capability >= version
