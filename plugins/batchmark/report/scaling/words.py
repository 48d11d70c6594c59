"""Describes distributed training in words, for both the page and the terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from batchmark.analysis.scaling.curves import Curve, CurvePoint
from batchmark.analysis.scaling.points import TrainingPoint
from batchmark.analysis.scaling.studies import ScalingStudy, Training
from batchmark.core import formatting
from batchmark.report.blocks import capitalized, grouped
from batchmark.report.words import (
    NOT_KNOWN,
    implementation,
    measured_target,
    on_demand,
    target_and_gpu,
)
from batchmark_job.result.document import Device
from batchmark_job.result.scaling import TrainingSettings
from batchmark_job.result.scaling_options import IMAGES_OF_RATE

BACKENDS = {"nccl": "NCCL"}
OWN = "the run's own"  # names the settings that aren't a variant's
DATA = {"synthetic": "synthetic images", "files": "images from files"}


def on_cpu(study: ScalingStudy) -> bool:
    return study.target.actual_device is not Device.CUDA


def device(study: ScalingStudy) -> str:
    """Return the word for a rank's device: "GPU", or "process" if it runs on a CPU."""
    return "process" if on_cpu(study) else "GPU"


def devices(study: ScalingStudy, number: int) -> str:
    return formatting.count(number, device(study), "processes" if on_cpu(study) else None)


def backend(study: ScalingStudy) -> str:
    return BACKENDS.get(study.backend or "", study.backend or NOT_KNOWN)


def nodes(number: int) -> str:
    return formatting.count(number, "node")


def machine(study: ScalingStudy) -> str:
    """Return the target's GPU model or, failing that, its CPU model."""
    environment = study.target.environment
    model = environment and (environment.gpu_model or environment.cpu_model)
    return model or NOT_KNOWN


def trainings(study: ScalingStudy) -> list[Training]:
    """List the trainings that use the run's own settings and have figures."""
    return [one for one in study.trainings if one.points and not one.is_variant]


def training_name(study: ScalingStudy, training: Training) -> str:
    """Name a training by its workload, what sets it apart, and where it ran."""
    parts = (training.workload, *_parts(study, training), f"on {target_and_gpu(study.target)}")
    return ", ".join(parts)


def labelled(
    studies: Sequence[ScalingStudy],
) -> Iterator[tuple[ScalingStudy, Training, str]]:
    """Yield each training that used the run's own settings, and what sets it apart from others."""
    found = [(study, one) for study in studies for one in study.trainings if not one.is_variant]
    parts = [[measured_target(study.target), *_parts(study, training)] for study, training in found]
    for (study, training), own in zip(found, parts, strict=True):
        apart = [part for part in own if any(part not in other for other in parts)]
        yield study, training, ", ".join(apart)


def with_label(label: str, text: str) -> str:
    return capitalized(f"{label}: {text}" if label else text)


def variant(training: Training) -> str:
    """Name the settings that differ from the run's own, or say that none do."""
    own = {name: training.parameters.get(name) for name in TrainingSettings.model_fields}
    if own["learning_rate"] is not None and training.learning_rate:
        own["learning_rate"] = float(f"{training.learning_rate:g}")
    named = (
        f"{name.replace('_', ' ')} {value}" for name, value in own.items() if value is not None
    )
    return ", ".join(named) or OWN


def _of_training(training: Training) -> str:
    parts = [data_source(training), training.dtype]
    return ", ".join([*parts, variant(training)] if training.is_variant else parts)


def data_source(training: Training) -> str:
    data = str(training.parameters.get("data"))
    return DATA.get(data, data)


def _parts(study: ScalingStudy, training: Training) -> list[str]:
    """List what might distinguish a training from others."""
    own = {
        name: value
        for name, value in training.parameters.items()
        if name not in TrainingSettings.model_fields
    }
    image, _, number = (own.pop(name, None) for name in ("image", "data", "devices"))
    return [
        f"{image or NOT_KNOWN} pixels",
        data_source(training),
        training.dtype,
        f"{devices(study, number if isinstance(number, int) else 1)} a node",
        *(f"{name} {value}" for name, value in own.items()),
    ]


def curve_name(study: ScalingStudy, curve: Curve) -> str:
    if curve.kind == "weak":
        return f"weak, {curve.images} images a {device(study)}"
    return f"strong, {curve.images} images in all"


def on_curve(curve: Curve, point: TrainingPoint) -> CurvePoint | None:
    """Return the curve's point that matches a training's point; None if it isn't on the curve."""
    found = curve.point(point.nodes)
    return found if found and found.batch == point.batch else None


def about(study: ScalingStudy, training: Training) -> str:
    """State a training's suite, code, settings and price."""
    codes = " and ".join(map(implementation, training.codes)) or NOT_KNOWN
    parts = "; ".join(filter(None, (f"Code: {codes}", _settings(training))))
    paid = on_demand(study.price, "each node")
    return " ".join(filter(None, (f"Suite {study.suite}. {parts}.", paid)))


def _settings(training: Training) -> str | None:
    """List the hyperparameters in one line; None if no job reports them."""
    found = training.settings
    if found is None or training.learning_rate is None:
        return None
    return (
        f"learning rate {training.learning_rate:g} for {IMAGES_OF_RATE} images, "
        f"momentum {found.momentum:g}, weight decay {found.weight_decay:g}, {found.epochs} "
        f"epochs, {found.warmup_epochs} of them warm-up, "
        f"{found.images_per_epoch:,} images an epoch"
    )


def remarks(study: ScalingStudy) -> Iterator[str]:
    """Say what was not measured, then give cautions, with each reason only once."""
    missing = grouped((one.reason, one.name) for one in study.unmeasured)
    yield from (f"Not measured: {'; '.join(names)}: {why}" for why, names in missing.items())
    cautions = (
        (text, f"{nodes(point.nodes)}, batch {point.batch}, {_of_training(one)}")
        for one in study.trainings
        for point in one.points
        for text in (*point.remarks, *point.warnings)
    )
    for text, places in grouped(cautions).items():
        yield f"Caution: {'; '.join(places)}: {text}"


def job_nodes(study: ScalingStudy) -> dict[str, str]:
    """Map the id of each job with a figure to a phrase such as "on 4 nodes"."""
    points = [point for training in study.trainings for point in training.points]
    return {job.job_id: f"on {nodes(point.nodes)}" for point in points for job in point.provenance}
