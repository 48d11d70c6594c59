"""Names of what several nodes measured together, the same on the page and on the terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from batchmark.analysis.scaling.curves import Curve
from batchmark.analysis.scaling.studies import ScalingStudy, Training
from batchmark.core import formatting
from batchmark.report.words import NOT_KNOWN, implementation
from batchmark_job.result import Device

SIMULATED = "simulated"  # how the model of a GPU begins that tests imitate
BACKENDS = {"nccl": "NCCL"}
DATA = {"synthetic": "synthetic images", "files": "images from files"}


def on_cpu(study: ScalingStudy) -> bool:
    return study.target.actual_device is not Device.CUDA


def device(study: ScalingStudy) -> str:
    """What takes part on a node, several times or once."""
    return "process" if on_cpu(study) else "GPU"


def devices(study: ScalingStudy, number: int) -> str:
    return formatting.count(number, device(study), "processes" if on_cpu(study) else None)


def backend(study: ScalingStudy) -> str:
    return BACKENDS.get(study.backend or "", study.backend or NOT_KNOWN)


def nodes(number: int) -> str:
    return formatting.count(number, "node")


def target_name(study: ScalingStudy) -> str:
    fell_back = study.target.device == "cuda" and study.target.actual_device is Device.CPU
    return formatting.target_label(study.target.target, fell_back=fell_back)


def where(study: ScalingStudy) -> str:
    environment = study.target.environment
    model = f", {environment.gpu_model}" if environment and environment.gpu_model else ""
    return f"{target_name(study)}{model}"


def training_name(study: ScalingStudy, training: Training) -> str:
    """Its workload, what sets it apart, and where it ran."""
    return f"{training.workload}, {', '.join(_parts(study, training))}, on {where(study)}"


def labelled(
    studies: Sequence[ScalingStudy],
) -> Iterator[tuple[ScalingStudy, Training, str]]:
    """Each training with what tells it from the others of a run; nothing if it is the only one."""
    found = [(study, training) for study in studies for training in study.trainings]
    parts = [[target_name(study), *_parts(study, training)] for study, training in found]
    for (study, training), own in zip(found, parts, strict=True):
        apart = [part for part in own if any(part not in other for other in parts)]
        yield study, training, ", ".join(apart)


def _parts(study: ScalingStudy, training: Training) -> list[str]:
    """What sets a training apart from others."""
    own = dict(training.parameters)
    image, data, number = (own.pop(name, None) for name in ("image", "data", "devices"))
    return [
        f"{image or NOT_KNOWN} pixels",
        DATA.get(str(data), str(data)),
        training.dtype,
        f"{devices(study, number if isinstance(number, int) else 1)} a node",
        *(f"{name} {value}" for name, value in own.items()),
    ]


def curve_name(study: ScalingStudy, curve: Curve) -> str:
    if curve.kind == "weak":
        return f"weak, {curve.images} images a {device(study)}"
    return f"strong, {curve.images} images in all"


def codes(training: Training) -> str:
    return f"Code: {' and '.join(map(implementation, training.codes)) or NOT_KNOWN}"


def settings(training: Training) -> str | None:
    """The hyper-parameters, in a line; None where no job tells."""
    found = training.settings
    if found is None:
        return None
    return (
        f"learning rate {found.learning_rate:g}, momentum {found.momentum:g}, weight decay "
        f"{found.weight_decay:g}, {found.epochs} epochs, {found.warmup_epochs} of them warm-up, "
        f"{found.images_per_epoch:,} images an epoch"
    )


def remarks(study: ScalingStudy) -> Iterator[str]:
    """What was not measured, and what to read with care."""
    for one in study.unmeasured:
        yield f"Not measured: {one.name}: {one.reason}"
    for training in study.trainings:
        for point in training.points:
            at = f"{nodes(point.nodes)}, batch {point.batch}, {training.dtype}"
            for text in (*point.remarks, *point.warnings):
                yield f"With care: {at}: {text}"
