"""The studies of a run, by the names that core/kinds gives them.

A study's room here has two names for others: `STUDY`, the record of its facts, and `find`, which
makes one for each thing that a run's sides measured. Its room in report/ puts them into words.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Annotated, Any, TypeVar

from pydantic import BeforeValidator, SerializeAsAny

from batchmark.analysis.sides import PricedTarget
from batchmark.analysis.study import Study
from batchmark.core.kinds import STUDIES

AnyStudy = TypeVar("AnyStudy", bound=Study)


def find_studies(groups: Sequence[Sequence[PricedTarget]]) -> dict[str, tuple[Study, ...]]:
    """All that a run has, by name; those that ask something else are left out."""
    found = {name: tuple(_room(name).find(groups)) for name in STUDIES}
    return {name: studies for name, studies in found.items() if studies}


def _read(stored: Any) -> Any:
    """Each study as the record of its name; one that this release doesn't know is refused."""
    if not isinstance(stored, Mapping):
        return stored
    if unknown := stored.keys() - set(STUDIES):
        raise ValueError(
            f"unknown studies {', '.join(sorted(unknown))}: read it by a newer release"
        )
    return {
        name: tuple(_room(name).STUDY.model_validate(one) for one in found)
        for name, found in stored.items()
    }


def _room(name: str) -> Any:
    return import_module(f"batchmark.analysis.{name}")


Studies = Annotated[dict[str, tuple[SerializeAsAny[Study], ...]], BeforeValidator(_read)]
