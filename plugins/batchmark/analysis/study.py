"""What studies of all kinds have in common: they say something of some of a run's targets."""

from __future__ import annotations

from typing import NamedTuple

from batchmark.analysis.cold_start import ColdStart
from batchmark.analysis.cost import PriceBasis
from batchmark.analysis.pooling import TargetRecord
from batchmark.core.record import Record


class Studied(NamedTuple):
    """A target that a study says something of."""

    suite: str
    target: TargetRecord
    price: PriceBasis


class Study(Record):
    """The facts that answer one question about a run: figures with their intervals, no words."""

    suite: str

    @property
    def studied(self) -> tuple[Studied, ...]:
        raise NotImplementedError

    @property
    def cold_starts(self) -> tuple[ColdStart, ...]:
        """That the study tells itself; those of a GPU and a CPU target stand with their pair."""
        return ()


class TargetStudy(Study):
    """What one target measured."""

    target: TargetRecord
    price: PriceBasis

    @property
    def studied(self) -> tuple[Studied, ...]:
        return (Studied(self.suite, self.target, self.price),)
