"""The report of a run: its comparison, and what changed against the history."""

from __future__ import annotations

from datetime import datetime
from typing import Final, Literal, NamedTuple

from pydantic import AwareDatetime, Field

from batchmark.analysis.comparison import Comparison, Pair
from batchmark.analysis.cost import JobCost, PriceBasis, RunCost
from batchmark.analysis.own_jobs.records import OwnJobStudy
from batchmark.analysis.pooling import TargetRecord
from batchmark.analysis.scaling.studies import ScalingStudy
from batchmark.analysis.sharing.tasks import SharedTask
from batchmark.core.prices import PriceTable
from batchmark.core.record import Record
from batchmark.core.run import LostJob
from batchmark.report.changes import AlertBoard, ChangesSection
from batchmark_job.result.document import Device

# History of the report's JSON, newest first. One of version 2 to 5 is read as one of version 6.
#   6  (2026-12) jobs that were not written for Batchmark
#   5  (2026-12) nodes that measured together
#   4  (2026-12) tasks that shared a device
#   3  (2026-12) what changed against the history, and alerts
#   2  (2026-11) crossovers, cold starts (key `ledgers`), noise, roofline and flags of rows, rivals'
#      trials, telemetry
#   1  (2026-11) first version
REPORT_VERSION: Final = 6


class Studied(NamedTuple):
    """A target that a study says something of."""

    suite: str
    target: TargetRecord
    price: PriceBasis


class Report(Record):
    report_version: Literal[2, 3, 4, 5, 6] = REPORT_VERSION
    notices: tuple[str, ...] = Field(description="to be read before any figure")
    run_id: str
    created_at: AwareDatetime
    pairs: tuple[Pair, ...]
    lost: tuple[LostJob, ...]
    prices: PriceTable
    cost: RunCost = Field(description="of all attempts of all jobs, as bought; lost ones last")
    sharing: tuple[SharedTask, ...] = Field(
        default=(), description="tasks that shared a device, one for each target"
    )
    scaling: tuple[ScalingStudy, ...] = Field(
        default=(), description="nodes that measured together, one for each target"
    )
    own_jobs: tuple[OwnJobStudy, ...] = Field(
        default=(), description="jobs not written for Batchmark, each on all its targets"
    )
    changes: ChangesSection | None = Field(
        default=None, description="null where the history was not searched"
    )
    alerts: AlertBoard | None = Field(default=None, description="null where none were read")

    @property
    def fell_back(self) -> set[str]:
        """GPU targets whose jobs ran on the CPU."""
        paired = {pair.gpu.target for pair in self.pairs if pair.cpu_fallback}
        studied = [study.target for study in self.studied]
        return paired | {
            one.target for one in studied if (one.device, one.actual_device) == ("cuda", Device.CPU)
        }

    @property
    def studied(self) -> tuple[Studied, ...]:
        """The targets of all studies, which stand beside the pairs of two."""
        studies: tuple[SharedTask | ScalingStudy, ...] = (*self.sharing, *self.scaling)
        alone = [Studied(study.suite, study.target, study.price) for study in studies]
        together = [
            Studied(study.suite, side.target, side.price)
            for study in self.own_jobs
            for side in study.sides
        ]
        return (*alone, *together)

    @property
    def lost_costs(self) -> tuple[JobCost, ...]:
        """In the order of `lost`."""
        return self.cost.jobs[len(self.cost.jobs) - len(self.lost) :]


def build_report(
    comparison: Comparison,
    *,
    created_at: datetime,
    changes: ChangesSection | None = None,
    alerts: AlertBoard | None = None,
) -> Report:
    """A run's comparison with what the history, if there is one, says of it."""
    compared = {name: getattr(comparison, name) for name in Comparison.model_fields}
    return Report(**compared, created_at=created_at, changes=changes, alerts=alerts)


def render_json(report: Report) -> str:
    return report.model_dump_json(indent=2) + "\n"
