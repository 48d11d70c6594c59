"""Builds a run's scaling studies, one for each target and number format."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

from pydantic import Field

from batchmark.analysis.cost import PriceBasis
from batchmark.analysis.judging.noise import job_medians
from batchmark.analysis.samples import codes_of, parameters_json
from batchmark.analysis.scaling.curves import Curve, Measured, curves_of
from batchmark.analysis.scaling.points import TrainingPoint, training_point
from batchmark.analysis.scaling.prediction import Prediction, predict
from batchmark.analysis.scaling.reach import Reach, reach_of
from batchmark.analysis.scaling.rows import ALL_REDUCE, TRAINING, NodesSamples
from batchmark.analysis.scaling.transfers import (
    AllReducePoint,
    ReadingPoint,
    all_reduce_points,
    reading_points,
)
from batchmark.analysis.sides import PricedTarget
from batchmark.analysis.study import TargetStudy
from batchmark.core import formatting
from batchmark.core.record import Record
from batchmark.core.run import LostJob
from batchmark.core.suites import SCALING
from batchmark_job.result.document import Implementation
from batchmark_job.result.scaling import Scaling, TrainingSettings
from batchmark_job.result.scaling_options import IMAGES_OF_RATE
from batchmark_job.result.values import Parameter

FILES = "files"  # of the parameter data
OF_POINT = {"nodes", "batch"}  # parameters that differ between a training's points


class Unmeasured(Record):
    """A row without a figure, or a job without a result."""

    name: str
    reason: str


class Training(Record):
    """Training at one or more node counts and batch sizes, with all other settings fixed."""

    workload: str
    parameters: dict[str, Parameter] = Field(
        description="all parameters except `nodes` and `batch`"
    )
    dtype: str
    settings: TrainingSettings | None = Field(
        description="settings of the first point; null if no job reported them"
    )
    learning_rate: float | None = Field(
        default=None, description="scaled to 256 images per step, as it is in the run's settings"
    )
    codes: tuple[Implementation, ...]
    points: tuple[TrainingPoint, ...] = Field(
        description="ordered by node count, then by batch size"
    )
    weak: tuple[Curve, ...] = Field(description="curves with the same batch size per device")
    strong: tuple[Curve, ...] = Field(description="curves with the same total batch size")
    reach: Reach = Field(
        description="reach of the first weak-scaling curve, or of the first strong-scaling "
        "curve if there is none"
    )
    prediction: Prediction

    @property
    def is_variant(self) -> bool:
        """Whether the training's settings differ from the run's."""
        return not TrainingSettings.model_fields.keys().isdisjoint(self.parameters)


class ScalingStudy(TargetStudy):
    """Everything that a target's multi-node jobs measured in one number format."""

    dtype: str = Field(description="number format planned for its jobs")
    backend: str | None = Field(description="torch.distributed backend; null if no job reported it")
    loopback: bool = Field(
        description="whether the nodes shared one machine, as their loopback addresses show"
    )
    price: PriceBasis = Field(description="price of one node; every node is billed")
    file_system_usd_per_hour: float | None = Field(
        default=None,
        description="included in the cost of training that reads files; if unknown, it is null "
        "and not included",
    )
    refused: str | None = Field(description="why nothing was judged")
    trainings: tuple[Training, ...]
    all_reduces: tuple[AllReducePoint, ...]
    readings: tuple[ReadingPoint, ...]
    unmeasured: tuple[Unmeasured, ...]

    @property
    def reads_files(self) -> bool:
        trains = any(one.parameters.get("data") == FILES for one in self.trainings)
        return trains or bool(self.readings)


STUDY = ScalingStudy


def find(groups: Iterable[Iterable[PricedTarget]]) -> Iterator[ScalingStudy]:
    """Return a study for each target and number format, in the order of the run's jobs."""
    return (_study(side) for group in groups for side in group if side.suite == SCALING)


def _study(side: PricedTarget) -> ScalingStudy:
    rows = list(filter(None, map(NodesSamples.of, side.pooled.samples.values())))
    known = [] if side.refused else rows
    told = [one for samples in rows for one in samples.scalings]
    return ScalingStudy(
        suite=side.suite,
        dtype=side.dtype,
        target=side.record,
        backend=told[0].backend if told else None,
        loopback=any(_on_one_machine(one) for one in told),
        price=side.price,
        file_system_usd_per_hour=side.file_system_usd_per_hour,
        refused=side.refused,
        trainings=tuple(_trainings(known, side, apart=all(map(_on_separate_machines, told)))),
        all_reduces=all_reduce_points(known),
        readings=reading_points(known),
        unmeasured=(*_unmeasured(known), *_lost(side.pooled.lost)),
    )


def _on_one_machine(scaling: Scaling) -> bool:
    return len(scaling.nodes) > 1 and all(node.host.startswith("127.") for node in scaling.nodes)


def _on_separate_machines(scaling: Scaling) -> bool:
    """Check whether each node is known to have its own machine; outside EC2, they can share one."""
    known = all(node.instance_type for node in scaling.nodes)
    return len(scaling.nodes) == 1 or (known and not _on_one_machine(scaling))


def _trainings(
    rows: Sequence[NodesSamples], side: PricedTarget, *, apart: bool
) -> Iterator[Training]:
    groups: dict[tuple[str, str], list[NodesSamples]] = defaultdict(list)
    for samples in rows:
        if samples.workload == TRAINING:
            groups[parameters_json(_own(samples)), samples.pooled.row.dtype].append(samples)
    all_reduces = [one for one in rows if one.workload == ALL_REDUCE]
    for found in groups.values():
        yield _training(found, all_reduces, side, apart=apart)


def _training(
    found: Sequence[NodesSamples],
    all_reduces: Sequence[NodesSamples],
    side: PricedTarget,
    *,
    apart: bool,
) -> Training:
    reads_files = found[0].parameters.get("data") == FILES
    file_system = side.file_system_usd_per_hour if reads_files else None
    measured = [
        Measured(
            training_point(samples, batch, median, side.price, file_system),
            median,
            job_medians(samples.pooled),
        )
        for samples in found
        if (batch := samples.number("batch")) and (median := samples.median)
    ]
    measured.sort(key=lambda one: (one.point.nodes, one.point.batch))
    points = tuple(one.point for one in measured)
    weak, strong = curves_of(measured, "weak"), curves_of(measured, "strong")
    told = [
        (one.settings, samples)
        for samples in found
        for one in samples.scalings
        if one.settings and samples.number("batch")
    ]
    settings, of = told[0] if told else (None, found[0])
    images = of.ranks * (of.number("batch") or 1)
    row = found[0].pooled.row
    return Training(
        workload=row.workload,
        parameters=_own(found[0]),
        dtype=row.dtype,
        settings=settings,
        learning_rate=settings and settings.learning_rate * IMAGES_OF_RATE / images,
        codes=codes_of(one.pooled for one in found),
        points=points,
        weak=weak,
        strong=strong,
        reach=reach_of(next(iter((*weak, *strong)), None), points),
        prediction=predict(next(iter(weak), None), measured, all_reduces, apart=apart),
    )


def _own(samples: NodesSamples) -> dict[str, Parameter]:
    return {name: value for name, value in samples.parameters.items() if name not in OF_POINT}


def _unmeasured(rows: Sequence[NodesSamples]) -> Iterator[Unmeasured]:
    """List rows without a figure, except single-rank all-reduces, which have nothing to reduce."""
    for samples in rows:
        if samples.problem and not (samples.workload == ALL_REDUCE and samples.ranks < 2):
            row = samples.pooled.row
            name = f"{row.workload} {formatting.parameters(row.parameters)}, {row.dtype}"
            yield Unmeasured(name=name, reason=samples.problem)


def _lost(lost: Sequence[LostJob]) -> Iterator[Unmeasured]:
    for job in lost:
        nodes = formatting.count(job.planned.nodes, "node")
        variant = job.planned.scaling.variant if job.planned.scaling else 0
        of_variant = f", variant {variant}" if variant else ""
        yield Unmeasured(
            name=f"{nodes}, repeat {job.planned.repeat}{of_variant}",
            reason=job.left_nothing,
        )
