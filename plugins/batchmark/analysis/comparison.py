"""Compares each of a run's GPU targets with each CPU target, and builds the run's studies.

Only rows that both targets measured are compared; all others are listed with the reason. Each
target's samples are pooled once and used for rows, whole jobs and crossovers.

core/kinds lists the kinds of studies. Each kind has a package here that exports `STUDY`, its record
class, and `find`, which builds a run's studies. A package in report/ puts them into words.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib import import_module
from typing import Annotated, Any, TypeVar

from pydantic import AwareDatetime, BeforeValidator, Field, SerializeAsAny

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
    """Parse stored studies, keyed by name; reject names that this release doesn't know."""
    if not isinstance(stored, Mapping):
        return stored
    if unknown := stored.keys() - set(STUDIES):
        raise ValueError(
            f"unknown studies {', '.join(sorted(unknown))}: use a newer release to read them"
        )
    return {
        name: tuple(_study_module(name).STUDY.model_validate(one) for one in found)
        for name, found in stored.items()
    }


def _study_module(name: str) -> Any:
    return import_module(f"batchmark.analysis.{name}")


class Comparison(Record):
    run_id: str
    began_at: AwareDatetime | None = Field(default=None, description="when its first job began")
    notices: tuple[str, ...] = Field(description="caveats to read before the figures")
    pairs: tuple[Pair, ...]
    lost: tuple[LostJob, ...]
    failed: tuple[FailedJob, ...] = Field(
        default=(),
        description="failed jobs, including lost ones; empty in comparisons made by older releases",
    )
    prices: PriceTable = Field(description="prices of the instance types in pairs and studies")
    cost: RunCost = Field(
        description="cost of every job, including all its attempts, at the prices paid; lost "
        "jobs come last"
    )
    studies: Annotated[dict[str, tuple[SerializeAsAny[Study], ...]], BeforeValidator(_read)] = (
        Field(default={}, description="studies other than the GPU/CPU comparison, by name")
    )

    def of(self, kind: type[AnyStudy]) -> tuple[AnyStudy, ...]:
        found = (one for studies in self.studies.values() for one in studies)
        return tuple(one for one in found if isinstance(one, kind))

    @property
    def targets(self) -> Iterator[TargetRecord]:
        """Yield the targets of all pairs and studies; a target can appear more than once."""
        for pair in self.pairs:
            yield from (pair.gpu, pair.cpu)
        yield from (one.target for one in self.studied)

    @property
    def studied(self) -> tuple[Studied, ...]:
        """Every target that a study covers, with its suite and price."""
        return tuple(one for study in self.of(Study) for one in study.studied)


def compare(
    run: CollectedRun,
    prices: PriceTable,
    calibrations: Iterable[NoiseTable] = (),
    file_system_usd_per_hour: float | None = None,
) -> Comparison:
    """Compare GPU targets with CPU targets for each suite and dtype, and build the run's studies.

    Multi-node targets aren't paired, as they have their own studies. Users' own jobs get a
    study in addition to any pairs, because their targets need not be one GPU and one CPU target.

    A calibration applies only to the environment it was measured in.
    """
    groups = priced_targets(run, prices, calibrations, file_system_usd_per_hour)
    cost = run_costs(run, prices)
    pairs = find_pairs(groups, {job.job_id: job for job in cost.jobs})
    studies = _studies(groups)
    found = Comparison(
        run_id=run.run_id,
        began_at=run.began_at,
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
    """Return the run's studies keyed by name, leaving out kinds without results."""
    found = {name: tuple(_study_module(name).find(groups)) for name in STUDIES}
    return {name: studies for name, studies in found.items() if studies}
