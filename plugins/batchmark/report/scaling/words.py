"""Names of what several nodes measured together, the same on the page and on the terminal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from batchmark.analysis.scaling.curves import Curve
from batchmark.analysis.scaling.studies import ScalingStudy, Training
from batchmark.core import formatting
from batchmark.report.words import NOT_KNOWN, implementation
from batchmark_job.result import Device
from batchmark_job.result_values import Parameter

SIMULATED = "simulated"  # how the model of a GPU begins that tests imitate
DATA = {"synthetic": "synthetic images", "files": "images from files"}


def on_cpu(study: ScalingStudy) -> bool:
    return study.target.actual_device is not Device.CUDA


def device(study: ScalingStudy) -> str:
    """What takes part on a node, several times or once."""
    return "process" if on_cpu(study) else "GPU"


def devices(study: ScalingStudy, number: int) -> str:
    return formatting.count(number, device(study), "processes" if on_cpu(study) else None)


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
    return f"{training.workload}, {_of_training(study, training)}, on {where(study)}"


def short_name(study: ScalingStudy, training: Training) -> str:
    return f"{target_name(study)}, {_of_training(study, training)}"


def _of_training(study: ScalingStudy, training: Training) -> str:
    own = dict(training.parameters)
    parts = [
        f"{own.pop('image', NOT_KNOWN)} pixels",
        DATA.get(str(own.get("data")), str(own.get("data"))),
        training.dtype,
        f"{devices(study, _number(own))} a node",
    ]
    others = {name: value for name, value in own.items() if name not in ("data", "devices")}
    return ", ".join(filter(None, (*parts, formatting.parameters(others))))


def _number(own: Mapping[str, Parameter]) -> int:
    value = own.get("devices")
    return value if isinstance(value, int) else 1


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
