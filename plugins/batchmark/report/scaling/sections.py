"""Builds sections on each training, each target's network and files, and the prediction."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from batchmark.analysis.published import OTHERS
from batchmark.analysis.scaling.curves import Curve
from batchmark.analysis.scaling.points import TrainingPoint
from batchmark.analysis.scaling.prediction import Prediction
from batchmark.analysis.scaling.published import published_point
from batchmark.analysis.scaling.studies import FILES, ScalingStudy, Training
from batchmark.core import formatting
from batchmark.core.formatting import Figure, Others
from batchmark.core.intervals import Estimate
from batchmark.report.blocks import (
    Block,
    Charts,
    ComparedFigure,
    Remarks,
    Section,
    Table,
    Text,
    Traces,
    capitalized,
    figure,
)
from batchmark.report.model import Report
from batchmark.report.scaling import words
from batchmark.report.scaling.answer import WHAT_IF, WHAT_IF_SECTION, what_if
from batchmark.report.scaling.charts import training_charts
from batchmark.report.words import IMAGE_RATE, measured_target, target_and_gpu
from batchmark_job.result.confidence import CONFIDENCE_TEXT

IMAGES = capitalized(IMAGE_RATE)
LOSS, BUSY = "Loss, first and last", "GPUs busy"
EPOCH, MILLION = "An epoch", "A million images"
CHECKED = {"holds": "yes", "wrong": "no", "too_noisy": "too noisy to tell"}


def sections(report: Report) -> Iterator[Section]:
    for number, study in enumerate(report.of(ScalingStudy), start=1):
        if study.refused:
            refused = Text(f"Not judged: {study.refused}", "notice")
            yield Section(f"scaling-{number}", target_and_gpu(study.target), [refused])
        for place, training in enumerate(words.trainings(study), start=1):
            name = words.training_name(study, training)
            yield Section(f"scaling-{number}-{place}", name, list(_blocks(study, training)))
        name = f"Network, files and jobs on {measured_target(study.target)}, {study.dtype}"
        yield Section(f"scaling-{number}-rest", name, list(_rest(study)))
    if predicted := what_if(report.of(ScalingStudy)):
        more = "The prediction, its check and its assumptions"
        yield Section(WHAT_IF_SECTION, WHAT_IF, [Text(capitalized(predicted), "")], more)


def _blocks(study: ScalingStudy, training: Training) -> Iterator[Block]:
    yield Text(words.about(study, training))
    yield Charts(
        f"Medians over the number of nodes, and their {CONFIDENCE_TEXT} intervals as bands. A "
        "dotted line is the ideal.",
        training_charts(study, training),
    )
    yield from training_tables(study, training)


def _rest(study: ScalingStudy) -> Iterator[Block]:
    if published := published_table(study):
        yield published
    yield from study_tables(study)
    yield Remarks(list(words.remarks(study)))
    yield Traces(study.target.jobs, words.job_nodes(study))


def training_tables(study: ScalingStudy, training: Training) -> Iterator[Table]:
    """Yield tables for speed and price, each curve, and the parts of a step."""
    points, priced = training.points, study.price.usd_per_hour is not None
    each = words.device(study)
    yield Table.of(
        "Speed and price" if priced else "Speed",
        _paid(study, training) if priced else "",
        points,
        {
            "Nodes": lambda point: point.nodes,
            _plural(study): lambda point: point.ranks,
            f"Batch per {each}": lambda point: point.batch,
            "Step": lambda point: ComparedFigure(point.seconds, formatting.time, point.nodes),
            IMAGES: lambda point: ComparedFigure(
                point.images_per_second, formatting.number, point.nodes
            ),
            f"Per {each}": lambda point: ComparedFigure(
                point.images_per_second_per_device, formatting.number
            ),
            EPOCH: lambda point: ComparedFigure(point.usd_per_epoch, formatting.usd_figure),
            MILLION: lambda point: ComparedFigure(
                point.usd_per_million_images, formatting.usd_figure
            ),
        },
        without=() if priced else (EPOCH, MILLION),
    )
    for curve in (*training.weak, *training.strong):
        yield _curve_table(study, curve)
    if any(point.split for point in points):
        yield Table.of(
            "Where a step's time goes",
            "Approximate: each part in time, and as a share of all three. Spreads are not known.",
            points,
            {
                "Nodes": lambda point: point.nodes,
                f"Batch per {each}": lambda point: point.batch,
                "Step": lambda point: ComparedFigure(point.seconds, formatting.time, point.nodes),
                "Data": lambda point: _part(point, "data"),
                "Compute": lambda point: _part(point, "compute"),
                "Communication": lambda point: _part(point, "communication"),
                BUSY: lambda point: _percent(point.gpu_busy_share),
                LOSS: _losses,
            },
            without=(BUSY,) if words.on_cpu(study) else (),
            folded=True,
        )


def _paid(study: ScalingStudy, training: Training) -> str:
    """Say which costs the dollar figures include, and which they don't."""
    text = "Dollars cover all nodes at On-Demand prices, for as long as the steps take"
    if training.settings:
        images = f"{training.settings.images_per_epoch:,}"
        text = f"An epoch is {images} images. {text}"
    if training.parameters.get("data") != FILES:
        return f"{text}; starting the nodes is not included."
    if not study.file_system_usd_per_hour:
        return (
            f"{text}; starting the nodes is not included, nor is the file system, whose price is "
            "not known."
        )
    hourly = formatting.usd_per_hour(study.file_system_usd_per_hour)
    return f"{text}, and the file system at {hourly}; starting the nodes is not included."


def study_tables(study: ScalingStudy) -> Iterator[Table]:
    """Yield tables that compare settings, and tables of standalone all-reduces and file reads."""
    if variants := _variants(study):
        yield Table.of(
            "Settings",
            "The variants of the study, beside the run's own settings on the same nodes. Few steps "
            "of made-up images say nothing about the final accuracy.",
            variants,
            {
                "Settings": lambda found: words.variant(found[0]),
                "Data": lambda found: words.data_source(found[0]),
                "Nodes": lambda found: found[1].nodes,
                IMAGES: lambda found: ComparedFigure(
                    found[1].images_per_second, formatting.number, found[1].nodes
                ),
                LOSS: lambda found: _losses(found[1]),
            },
        )
    if study.all_reduces:
        yield Table.of(
            "All-reduce",
            f"Summing a tensor over all ranks by {words.backend(study)}. Bus bandwidth is what "
            "each link carries.",
            study.all_reduces,
            {
                "Nodes": lambda point: point.nodes,
                _plural(study): lambda point: point.ranks,
                "Tensor": lambda point: formatting.memory(point.size_bytes),
                "Time": lambda point: formatting.time(point.seconds),
                "Bus bandwidth": lambda point: formatting.rate(point.bus_bytes_per_second, "B"),
            },
            folded=True,
        )
    if study.readings:
        yield Table.of(
            "Reading the files",
            "A pass of all nodes over all files, each over its own share. The cold pass is the "
            f"run's first, which takes from S3 what the file system does not have.{_doubt(study)}",
            study.readings,
            {
                "Nodes": lambda point: point.nodes,
                "Pass": lambda point: point.kind,
                "Time": lambda point: ComparedFigure(point.seconds, formatting.time, point.nodes),
                "Read by all nodes": lambda point: ComparedFigure(
                    point.bytes_per_second, _bytes, point.nodes
                ),
            },
            folded=True,
        )


def published_table(study: ScalingStudy) -> Table | None:
    """Set the run's points with the most nodes beside a published one; None if the run has none."""
    other = published_point()
    ours = [
        _ours(study, training, label)
        for _, training, label in words.labelled([study])
        if training.points
    ]
    if not ours:
        return None
    theirs = (
        figure(f"{OTHERS}: {other.gpu}"),
        figure(f"{other.gpus} GPUs"),
        figure(f"about {other.images_per_second:,}"),
        figure(f"{other.images_per_second_per_gpu:.0f}"),
        figure("not known"),
    )
    return Table(
        "Beside what others published",
        f"{other.name}: {other.model} on {other.nodes} {formatting.TIMES} {other.instance_type}, "
        f"batch {other.batch} a GPU. It calls scaling over {other.claimed_from_gpus} to "
        f"{other.gpus} GPUs {other.claim}, and lacks what that takes: the speed of one node, a "
        "spread, the number format, and the share of a step that waits for data. Each GPU made "
        f"{formatting.percent(other.share_of_vendor)} of the {other.vendor_images_per_second:,} "
        f"{IMAGE_RATE} that NVIDIA published for one; that isn't an efficiency, as the code "
        "differs.",
        ("Who", "On", IMAGES, "Per device", "Efficiency"),
        [*ours, theirs],
    )


def _ours(study: ScalingStudy, training: Training, label: str) -> Sequence[Figure]:
    most = max(training.points, key=lambda point: (point.nodes, point.batch))
    curve = next(filter(None, (words.on_curve(one, most) for one in training.weak)), None)
    known = curve and curve.efficiency.interval
    return (
        figure(f"this run: {', '.join(filter(None, (words.machine(study), label)))}"),
        figure(words.devices(study, most.ranks)),
        formatting.number(most.images_per_second),
        formatting.number(most.images_per_second_per_device),
        formatting.number(curve.efficiency) if curve and known else figure("not known"),
    )


def prediction_table(study: ScalingStudy, prediction: Prediction) -> Table:
    """List the predictions, including those for node counts that were measured."""
    caption = "Intervals cover the uncertainty of the samples"
    caption += (
        ", and how far off the model was where it was checked." if prediction.checked else "."
    )
    if prediction.at_least:
        caption = f"Efficiencies are lower bounds. {caption}"
    if prediction.outcome == "wrong":
        caption = "The output of a model that failed its check: not a prediction."
    return Table.of(
        "The model" if prediction.outcome == "wrong" else "Predicted",
        caption,
        prediction.points,
        {
            "Nodes": lambda point: point.nodes,
            _plural(study): lambda point: point.ranks,
            "Efficiency": lambda point: (
                ComparedFigure(point.efficiency, formatting.number)
                if point.efficiency.interval
                else 1
            ),
            IMAGES: lambda point: formatting.number(point.images_per_second),
            "Communication": lambda point: _seconds(point.communication_seconds),
            "Measured, too": lambda point: "yes" if point.measured else None,
        },
    )


def check_table(prediction: Prediction) -> Table | None:
    if not prediction.checked:
        return None
    return Table.of(
        "Check",
        "The model, fitted without these numbers of nodes, against what was measured there. It "
        "holds where it is off by 5 % or less, or by no more than the samples leave open, if that "
        "is 15 % or less.",
        prediction.checked,
        {
            "Nodes": lambda point: point.nodes,
            "Predicted": lambda point: formatting.number(point.predicted, [point.measured]),
            "Measured": lambda point: formatting.number(point.measured, [point.predicted]),
            "Off by": lambda point: formatting.change(round(point.error, 3)),
            "Holds": lambda point: CHECKED[point.outcome],
        },
    )


def _curve_table(study: ScalingStudy, curve: Curve) -> Table:
    return Table.of(
        capitalized(words.curve_name(study, curve)),
        f"Against {words.nodes(curve.base_nodes)}.",
        curve.points,
        {
            "Nodes": lambda point: point.nodes,
            f"Batch per {words.device(study)}": lambda point: point.batch,
            IMAGES: lambda point: formatting.number(point.images_per_second),
            "Speed-up": lambda point: (
                1 if point.nodes == curve.base_nodes else formatting.factor(point.speedup)
            ),
            "Efficiency": lambda point: (
                1
                if point.nodes == curve.base_nodes
                else ComparedFigure(point.efficiency, formatting.number)
            ),
        },
    )


def _variants(study: ScalingStudy) -> list[tuple[Training, TrainingPoint]]:
    """List the variants' points, and those for the run's own settings at the same node counts."""

    def place(training: Training, point: TrainingPoint) -> tuple[object, ...]:
        own = {name: training.parameters.get(name) for name in ("image", "data", "devices")}
        return (*own.values(), training.dtype, point.nodes, point.batch)

    points = [(one, point) for one in study.trainings for point in one.points]
    of_variants = {place(*found) for found in points if found[0].is_variant}
    return [found for found in points if place(*found) in of_variants]


def _doubt(study: ScalingStudy) -> str:
    warm = {point.nodes: point.seconds.value for point in study.readings if point.kind == "warm"}
    if any(
        point.kind == "cold" and point.seconds.value <= warm.get(point.nodes, 0.0)
        for point in study.readings
    ):
        return " It took no longer than a warm one: the files are too small to show a difference."
    return ""


def _losses(point: TrainingPoint) -> str | None:
    known = [f"{loss:.3g}" for loss in (point.first_loss, point.last_loss) if loss is not None]
    return ", ".join(known) or None


def _part(point: TrainingPoint, name: str) -> Figure | None:
    if point.split is None:
        return None
    share = formatting.percent(point.split.shares[name])
    return Figure(formatting.seconds(point.split.parts[name]), f"({share})")


def _bytes(rate: Estimate, beside: Others) -> Figure:
    return formatting.rate(rate, "B", beside)


def _percent(share: float | None) -> str | None:
    return None if share is None else formatting.percent(share)


def _seconds(estimate: Estimate) -> Figure:
    return figure("0 s") if estimate.value <= 0 else formatting.time(estimate)


def _plural(study: ScalingStudy) -> str:
    return "Processes" if words.on_cpu(study) else "GPUs"
