"""What nodes measured together, as tables; the page and the terminal draw them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from batchmark.analysis.scaling.curves import Curve
from batchmark.analysis.scaling.points import TrainingPoint
from batchmark.analysis.scaling.prediction import Prediction
from batchmark.analysis.scaling.published import published_point
from batchmark.analysis.scaling.studies import FILES, ScalingStudy, Training
from batchmark.core import formatting
from batchmark.core.formatting import Figure
from batchmark.core.intervals import Estimate
from batchmark.report.blocks import Table, capitalized, plain
from batchmark.report.scaling import words
from batchmark.report.words import IMAGE_RATE

OTHERS = "published by others"
IMAGES = capitalized(IMAGE_RATE)
LOSS = "Loss, first and last"
CHECKED = {"holds": "yes", "wrong": "no", "too_noisy": "too noisy to tell"}


def training_tables(study: ScalingStudy, training: Training) -> Iterator[Table]:
    """Speed and price, the parts of a step, and the curves one by one."""
    points, priced = training.points, study.price.usd_per_hour is not None
    each = words.device(study)
    if not points:
        return
    yield Table(
        "Speed and price" if priced else "Speed",
        _paid(study, training) if priced else "",
        [
            *("Nodes", _plural(study), f"Batch per {each}", "Step", IMAGES, f"Per {each}"),
            *(("An epoch", "A million images") if priced else ()),
        ],
        [_speed(point, priced=priced) for point in points],
    )
    for curve in (*training.weak, *training.strong):
        yield _curve_table(study, curve)
    if any(point.split for point in points):
        busy = () if words.on_cpu(study) else ("GPUs busy",)
        yield Table(
            "Where a step's time goes",
            "About: each part in time, and as its share of the three. Their spread is not known.",
            [
                *("Nodes", f"Batch per {each}", "Step", "Data", "Compute", "Communication"),
                *busy,
                LOSS,
            ],
            [_parts(point, busy=bool(busy)) for point in points],
            folded=True,
        )


def _paid(study: ScalingStudy, training: Training) -> str:
    """What the dollars are for."""
    text = "All nodes are paid for, at On-Demand prices, for as long as the steps take"
    if training.settings:
        images = f"{training.settings.images_per_epoch:,}"
        text = f"An epoch is {images} images. {text}"
    if training.parameters.get("data") != FILES:
        return f"{text}; starting them is not counted."
    if not study.file_system_usd_per_hour:
        return f"{text}; starting them is not counted, nor the file system: its price is not known."
    hourly = formatting.usd_per_hour(study.file_system_usd_per_hour)
    return f"{text}, and so is the file system, at {hourly}; starting them is not counted."


def study_tables(study: ScalingStudy) -> Iterator[Table]:
    """Settings against each other, and the network and the file system by themselves."""
    if variants := _settings(study):
        yield Table(
            "Settings",
            "The variants of the study, beside the run's own settings on the same nodes. Few steps "
            "of made-up images say nothing of the accuracy in the end.",
            ("Settings", "Data", "Nodes", IMAGES, LOSS),
            variants,
        )
    if study.all_reduces:
        yield Table(
            "All-reduce",
            f"Summing a tensor over all ranks by {words.backend(study)}. Bus bandwidth is what "
            "each link carries.",
            ("Nodes", _plural(study), "Tensor", "Time", "Bus bandwidth"),
            [
                (
                    plain(str(point.nodes)),
                    plain(str(point.ranks)),
                    plain(formatting.memory(point.size_bytes)),
                    formatting.time(point.seconds),
                    formatting.rate(point.bus_bytes_per_second, "B"),
                )
                for point in study.all_reduces
            ],
            folded=True,
        )
    if study.readings:
        yield Table(
            "Reading the files",
            "A pass of all nodes over all files, each over its own share. The cold pass is the "
            f"run's first, which takes from S3 what the file system does not have.{_doubt(study)}",
            ("Nodes", "Pass", "Time", "Read by all nodes"),
            [
                (
                    plain(str(point.nodes)),
                    plain(point.kind),
                    formatting.time(point.seconds),
                    formatting.rate(point.bytes_per_second, "B"),
                )
                for point in study.readings
            ],
            folded=True,
        )


def published_table(study: ScalingStudy) -> Table | None:
    """Our most nodes beside a point that others published; None where nothing was measured."""
    other = published_point()
    ours = [
        _ours(study, training, label)
        for _, training, label in words.labelled([study])
        if training.points
    ]
    if not ours:
        return None
    theirs = (
        plain(f"{OTHERS}: {other.gpu}"),
        plain(f"{other.gpus} GPUs"),
        plain(f"about {other.images_per_second:,}"),
        plain(f"{other.images_per_second_per_gpu:.0f}"),
        plain("not known"),
    )
    return Table(
        "Beside what others published",
        _missing(),
        ("Who", "On", IMAGES, "Per device", "Efficiency"),
        [*ours, theirs],
    )


def _missing() -> str:
    other = published_point()
    return (
        f"{other.name}: {other.model} on {other.nodes} {formatting.TIMES} {other.instance_type}, "
        f"batch {other.batch} a GPU. It calls scaling over {other.claimed_from_gpus} to "
        f"{other.gpus} GPUs {other.claim}, and lacks what that takes: the speed of one node, a "
        "spread, the number format, and the share of a step that waits for data. Each GPU made "
        f"{formatting.percent(other.share_of_vendor)} of the {other.vendor_images_per_second:,} "
        f"{IMAGE_RATE} that NVIDIA published for one, which is no efficiency, as the code is "
        "another."
    )


def _ours(study: ScalingStudy, training: Training, label: str) -> Sequence[Figure]:
    most = max(training.points, key=lambda point: (point.nodes, point.batch))
    curve = next(
        (
            found
            for one in training.weak
            if (found := one.point(most.nodes)) and found.batch == most.batch
        ),
        None,
    )
    known = curve and curve.efficiency.interval
    return (
        plain(f"this run: {', '.join(filter(None, (words.machine(study), label)))}"),
        plain(words.devices(study, most.ranks)),
        formatting.number(most.images_per_second),
        formatting.number(most.images_per_second_per_device),
        formatting.number(curve.efficiency) if curve and known else plain("not known"),
    )


def prediction_table(study: ScalingStudy, prediction: Prediction) -> Table:
    """All of it is predicted, also where something was measured."""
    caption = "Intervals hold what the samples leave open"
    caption += (
        ", and how far off the model was where it was checked." if prediction.checked else "."
    )
    if prediction.at_least:
        caption = f"Each efficiency is the least that it may be. {caption}"
    if prediction.outcome == "wrong":
        caption = "What the model that failed its check says; it is no prediction of what happens."
    return Table(
        "The model" if prediction.outcome == "wrong" else "Predicted",
        caption,
        ("Nodes", _plural(study), "Efficiency", IMAGES, "Communication", "Measured, too"),
        [
            (
                plain(str(point.nodes)),
                plain(str(point.ranks)),
                plain("1")
                if point.efficiency.interval is None
                else formatting.number(point.efficiency),
                formatting.number(point.images_per_second),
                _seconds(point.communication_seconds),
                plain("yes" if point.measured else "-"),
            )
            for point in prediction.points
        ],
    )


def check_table(prediction: Prediction) -> Table | None:
    if not prediction.checked:
        return None
    return Table(
        "Check",
        "The model, fitted without these numbers of nodes, against what was measured there. It "
        "holds where it is off by 5 % or less, or by no more than the samples leave open, if that "
        "is 15 % or less.",
        ("Nodes", "Predicted", "Measured", "Off by", "Holds"),
        [
            (
                plain(str(point.nodes)),
                formatting.number(point.predicted),
                formatting.number(point.measured),
                plain(formatting.change(round(point.error, 3))),
                plain(CHECKED[point.outcome]),
            )
            for point in prediction.checked
        ],
    )


def _speed(point: TrainingPoint, *, priced: bool) -> Sequence[Figure]:
    costs = (point.usd_per_epoch, point.usd_per_million_images)
    return (
        plain(str(point.nodes)),
        plain(str(point.ranks)),
        plain(str(point.batch)),
        formatting.time(point.seconds),
        formatting.number(point.images_per_second),
        formatting.number(point.images_per_second_per_device),
        *([formatting.usd_figure(usd) if usd else plain("-") for usd in costs] if priced else []),
    )


def _curve_table(study: ScalingStudy, curve: Curve) -> Table:
    name = words.curve_name(study, curve)
    return Table(
        capitalized(name),
        f"Against {words.nodes(curve.base_nodes)}.",
        ("Nodes", f"Batch per {words.device(study)}", IMAGES, "Speed-up", "Efficiency"),
        [
            (
                plain(str(point.nodes)),
                plain(str(point.batch)),
                formatting.number(point.images_per_second),
                plain("1") if point.nodes == curve.base_nodes else formatting.factor(point.speedup),
                plain("1")
                if point.nodes == curve.base_nodes
                else formatting.number(point.efficiency),
            )
            for point in curve.points
        ],
    )


def _settings(study: ScalingStudy) -> list[Sequence[Figure]]:
    """Variants, and what is measured as they are at the run's own settings."""

    def place(training: Training, point: TrainingPoint) -> tuple[object, ...]:
        own = {name: training.parameters.get(name) for name in ("image", "data", "devices")}
        return (*own.values(), training.dtype, point.nodes, point.batch)

    of_variants = {
        place(one, point) for one in study.trainings if one.is_variant for point in one.points
    }
    return [
        (
            plain(words.variant(one)),
            plain(words.data_source(one)),
            plain(str(point.nodes)),
            formatting.number(point.images_per_second),
            _losses(point),
        )
        for one in study.trainings
        for point in one.points
        if place(one, point) in of_variants
    ]


def _doubt(study: ScalingStudy) -> str:
    warm = {point.nodes: point.seconds.value for point in study.readings if point.kind == "warm"}
    if any(
        point.kind == "cold" and point.seconds.value <= warm.get(point.nodes, 0.0)
        for point in study.readings
    ):
        return " It took no longer than a warm one: the files are too small to tell."
    return ""


def _losses(point: TrainingPoint) -> Figure:
    known = [f"{loss:.3g}" for loss in (point.first_loss, point.last_loss) if loss is not None]
    return plain(", ".join(known) or "-")


def _parts(point: TrainingPoint, *, busy: bool) -> Sequence[Figure]:
    split = point.split
    parts = (
        [
            Figure(formatting.seconds(seconds), f"({formatting.percent(split.shares[name])})")
            for name, seconds in split.parts.items()
        ]
        if split
        else [plain("-")] * 3
    )
    share = point.gpu_busy_share
    return (
        plain(str(point.nodes)),
        plain(str(point.batch)),
        formatting.time(point.seconds),
        *parts,
        *([plain("-" if share is None else formatting.percent(share))] if busy else []),
        _losses(point),
    )


def _seconds(estimate: Estimate) -> Figure:
    return plain("0 s") if estimate.value <= 0 else formatting.time(estimate)


def _plural(study: ScalingStudy) -> str:
    return "Processes" if words.on_cpu(study) else "GPUs"
