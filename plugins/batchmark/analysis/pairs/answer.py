"""Answers whether the GPU pays off by comparing each GPU target with each row's best CPU target.

A run can pair several GPU targets with several CPU targets. A GPU pays off on a row if it beats the
CPU target that is best on that row, so the row's verdict is the verdict of that pair.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from enum import StrEnum
from typing import Literal

from pydantic import Field

from batchmark.analysis.pairs.break_even import BreakEven
from batchmark.analysis.pairs.compared_rows import SIGNS, Row
from batchmark.analysis.pairs.pair import Pair
from batchmark.analysis.samples import row_key
from batchmark.core.intervals import Estimate
from batchmark.core.record import Record
from batchmark_job.result.values import Parameter

Winner = Literal["gpu", "cpu", "unknown"]
WINNERS: dict[int, Winner] = {1: "gpu", -1: "cpu", 0: "unknown"}


class Measure(StrEnum):
    """The measure by which targets are compared."""

    TIME = "time"
    DOLLARS = "dollars"


class Duel(Record):
    """A comparison of a GPU target with the best CPU target on one row."""

    parameters: dict[str, Parameter]
    gpu: str
    cpu: str
    winner: Winner
    ratio: Estimate = Field(
        description="CPU time or cost divided by the GPU's: above 1, the GPU is ahead"
    )
    gpu_amount: float = Field(
        description="time in seconds, or cost in dollars per million calls or per job"
    )


class Standing(Record):
    """A GPU target's results on all of a workload's rows."""

    gpu: str
    duels: tuple[Duel, ...]
    axis: str | None = Field(default=None, description="axis along which the workload's sizes vary")
    crossover: BreakEven | None = Field(
        default=None,
        description="null if there is no crossover or more than one, or if there "
        "are several CPU targets",
    )

    def rows(self, winner: Winner) -> int:
        return sum(duel.winner == winner for duel in self.duels)


class WorkloadAnswer(Record):
    workload: str
    dtype: str
    standings: tuple[Standing, ...] = Field(description="one per GPU target that has rows")
    best: tuple[Duel, ...] = Field(
        description="for each row, the duel of the GPU target that is best on it"
    )


class Answer(Record):
    """Whether a run's GPUs pay off in time or cost; `workloads` is empty if nothing is known."""

    measure: Measure
    workloads: tuple[WorkloadAnswer, ...]

    @property
    def gpus(self) -> tuple[str, ...]:
        names = (one.gpu for workload in self.workloads for one in workload.standings)
        return tuple(dict.fromkeys(names))

    def rows(self, *winners: Winner) -> int:
        """Count the best GPU targets' duels with these winners, or all if no winners are given."""
        best = [duel.winner for workload in self.workloads for duel in workload.best]
        return sum(winner in winners for winner in best) if winners else len(best)


def find_answer(pairs: Iterable[Pair], measure: Measure) -> Answer:
    """Combine a run's pairs into one answer, skipping pairs whose GPU target ran on a CPU."""
    contests: dict[tuple[str, str], dict[object, list[tuple[Pair, Row]]]] = {}
    for pair in pairs:
        for row in () if pair.cpu_fallback else pair.rows:
            if _amounts(row, measure):
                rows = contests.setdefault((row.workload, row.dtype), defaultdict(list))
                rows[pair.suite, row_key(row)].append((pair, row))
    return Answer(
        measure=measure,
        workloads=tuple(
            _workload(workload, dtype, [*rows.values()], measure)
            for (workload, dtype), rows in contests.items()
        ),
    )


def _workload(
    workload: str, dtype: str, rows: list[list[tuple[Pair, Row]]], measure: Measure
) -> WorkloadAnswer:
    by_gpu: dict[str, list[tuple[Pair, Duel]]] = defaultdict(list)
    best = []
    for contest in rows:
        rivals: dict[str, tuple[Pair, Row]] = {}
        for pair, row in sorted(contest, key=lambda one: _amounts(one[1], measure)[1]):
            rivals.setdefault(pair.gpu.target, (pair, row))
        duels = {gpu: _duel(pair, row, measure) for gpu, (pair, row) in rivals.items()}
        for gpu, duel in duels.items():
            by_gpu[gpu].append((rivals[gpu][0], duel))
        best.append(min(duels.values(), key=lambda duel: duel.gpu_amount))
    return WorkloadAnswer(
        workload=workload,
        dtype=dtype,
        standings=tuple(
            _standing(gpu, found, workload, dtype, measure) for gpu, found in by_gpu.items()
        ),
        best=tuple(best),
    )


def _standing(
    gpu: str, found: list[tuple[Pair, Duel]], workload: str, dtype: str, measure: Measure
) -> Standing:
    pairs = {(pair.suite, pair.cpu.target): pair for pair, _ in found}
    crossings = [
        (crossover.axis, crossover.warm_seconds if measure == Measure.TIME else crossover.warm_usd)
        for pair in pairs.values()
        for crossover in pair.crossovers
        if (crossover.workload, crossover.dtype) == (workload, dtype)
    ]
    axis, crossover = crossings[0] if len(crossings) == len(pairs) == 1 else (None, None)
    return Standing(
        gpu=gpu,
        duels=tuple(duel for _, duel in found),
        axis=axis,
        crossover=crossover if crossover and crossover.outcome == "crossover" else None,
    )


def _duel(pair: Pair, row: Row, measure: Measure) -> Duel:
    in_time = measure == Measure.TIME
    ratio = row.speedup if in_time else row.efficiency.estimate
    assert ratio is not None  # noqa: S101 - both amounts are known
    return Duel(
        parameters=row.parameters,
        gpu=pair.gpu.target,
        cpu=pair.cpu.target,
        winner=WINNERS[SIGNS[row.verdict if in_time else row.cheaper]],
        ratio=ratio,
        gpu_amount=_amounts(row, measure)[0],
    )


def _amounts(row: Row, measure: Measure) -> tuple[float, ...]:
    """Return a row's time or cost on the GPU and the CPU, or an empty tuple if one is unknown."""
    if measure == Measure.TIME:
        return row.gpu.median_seconds.value, row.cpu.median_seconds.value
    gpu, cpu = row.gpu_usd, row.cpu_usd
    return (gpu.value, cpu.value) if gpu and cpu and row.efficiency.estimate else ()
