"""What a run says: of each GPU target against each CPU target, and of each study that it has.

Only rows that both targets measured are compared; all others are listed with the reason. Each
target's samples are pooled once, for its rows, whole jobs and crossovers alike.

Studies have the names that core/kinds gives them. A study's room here has two names for others:
`STUDY`, the record of its facts, and `find`, which makes one for each thing that a run's sides
measured. Its room in report/ puts them into words.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib import import_module
from typing import Annotated, Any, TypeVar

from pydantic import BeforeValidator, Field, SerializeAsAny

from batchmark.analysis.cost import RunCost, run_costs
from batchmark.analysis.failures import failed_jobs
from batchmark.analysis.judging.noise import NoiseTable
from batchmark.analysis.pairs.notes import run_notices
from batchmark.analysis.pairs.pair import Pair, find_pairs
from batchmark.analysis.pooling import TargetRecord
from batchmark.analysis.sides import PricedTarget, priced_targets
from batchmark.analysis.study import Studied, Study
from batchmark.core.failures.endings import FailedJob
from batchmark.core.kinds import STUDIES
from batchmark.core.prices import PriceTable
from batchmark.core.record import Record
from batchmark.core.run import CollectedRun, LostJob

AnyStudy = TypeVar("AnyStudy", bound=Study)


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


class Comparison(Record):
    run_id: str
    notices: tuple[str, ...] = Field(description="to be read before any figure")
    pairs: tuple[Pair, ...]
    lost: tuple[LostJob, ...]
    failed: tuple[FailedJob, ...] = Field(
        default=(), description="lost ones among them; none in what older releases stored"
    )
    prices: PriceTable = Field(description="of the instance types in the pairs and studies")
    cost: RunCost = Field(description="of all attempts of all jobs, as bought; lost ones last")
    studies: Annotated[dict[str, tuple[SerializeAsAny[Study], ...]], BeforeValidator(_read)] = (
        Field(default={}, description="of what asks no GPU against a CPU, by name")
    )

    def of(self, kind: type[AnyStudy]) -> tuple[AnyStudy, ...]:
        found = (one for studies in self.studies.values() for one in studies)
        return tuple(one for one in found if isinstance(one, kind))

    @property
    def targets(self) -> Iterator[TargetRecord]:
        """All of which anything is told, some more than once."""
        for pair in self.pairs:
            yield from (pair.gpu, pair.cpu)
        yield from (one.target for one in self.studied)

    @property
    def studied(self) -> tuple[Studied, ...]:
        """The targets of all studies, which stand beside the pairs of two."""
        return tuple(one for study in self.of(Study) for one in study.studied)


def compare(
    run: CollectedRun,
    prices: PriceTable,
    calibrations: Iterable[NoiseTable] = (),
    file_system_usd_per_hour: float | None = None,
) -> Comparison:
    """Compare every GPU target with every CPU target, for each suite and dtype.

    Several nodes that measure together are no such target: they have studies of their own. Own jobs
    have one beside their pairs, as their targets need not be a GPU and a CPU.

    A calibration is used in the environment that it was made in.
    """
    groups = priced_targets(run, prices, calibrations, file_system_usd_per_hour)
    cost = run_costs(run, prices)
    pairs = find_pairs(groups, {job.job_id: job for job in cost.jobs})
    studies = _studies(groups)
    found = Comparison(
        run_id=run.run_id,
        notices=tuple(run_notices(run, compared=bool(pairs or studies))),
        pairs=pairs,
        lost=run.lost,
        failed=failed_jobs(run),
        prices=prices,
        cost=cost,
        studies=studies,
    )
    compared = prices.only(target.instance_type for target in found.targets)
    return found.model_copy(update={"prices": compared})


def _studies(groups: Sequence[Sequence[PricedTarget]]) -> dict[str, tuple[Study, ...]]:
    """All that a run has, by name; those that ask something else are left out."""
    found = {name: tuple(_room(name).find(groups)) for name in STUDIES}
    return {name: studies for name, studies in found.items() if studies}
