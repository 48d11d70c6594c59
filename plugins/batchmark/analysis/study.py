"""Base records for all kinds of studies."""

from __future__ import annotations

from typing import NamedTuple

from batchmark.analysis.cold_start import ColdStart
from batchmark.analysis.cost import PriceBasis
from batchmark.analysis.pooling import TargetRecord
from batchmark.core.record import Record


class Studied(NamedTuple):
    """A target that a study covers."""

    suite: str
    target: TargetRecord
    price: PriceBasis


class Study(Record):
    """The results that answer one question about a run; reports put them into words."""

    suite: str

    @property
    def studied(self) -> tuple[Studied, ...]:
        raise NotImplementedError

    @property
    def cold_starts(self) -> tuple[ColdStart, ...]:
        """The cold starts that the study itself reports; pairs report those of paired targets."""
        return ()


class TargetStudy(Study):
    """A study of one target."""

    target: TargetRecord
    price: PriceBasis

    @property
    def studied(self) -> tuple[Studied, ...]:
        return (Studied(self.suite, self.target, self.price),)
