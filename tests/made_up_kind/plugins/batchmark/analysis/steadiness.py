"""How far apart equal jobs of a target lie."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from batchmark.core.steadiness import SUITE
from pydantic import Field

from batchmark.analysis.judging.noise import job_medians
from batchmark.analysis.sides import PricedTarget
from batchmark.analysis.study import TargetStudy
from batchmark.core import formatting
from batchmark.core.record import Record


class SteadyRow(Record):
    name: str
    jobs: int
    spread: float = Field(description="the slowest job's median over the fastest's")


class Steadiness(TargetStudy):
    refused: str | None
    rows: tuple[SteadyRow, ...]


STUDY = Steadiness


def find(groups: Iterable[Iterable[PricedTarget]]) -> Iterator[Steadiness]:
    for side in (side for group in groups for side in group if side.suite == SUITE):
        rows = [] if side.refused else list(_rows(side))
        yield Steadiness(
            suite=side.suite,
            target=side.record,
            price=side.price,
            refused=side.refused,
            rows=tuple(rows),
        )


def _rows(side: PricedTarget) -> Iterator[SteadyRow]:
    for samples in side.pooled.samples.values():
        medians = job_medians(samples)
        if len(medians) > 1:
            row = samples.row
            name = formatting.row(row.workload, row.parameters, row.dtype)
            yield SteadyRow(name=name, jobs=len(medians), spread=max(medians) / min(medians))
