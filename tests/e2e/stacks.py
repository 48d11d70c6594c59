"""Stacks for tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

from laptop.session import Clock
from laptop.stack import Ports, Stack

if TYPE_CHECKING:
    from pathlib import Path


def open_stack(folder: Path) -> Stack:
    """A stack on free ports, of which nothing is started yet; leaving its context ends it."""
    return Stack(folder, Ports(), Clock().say)
