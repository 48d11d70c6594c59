"""Options for runs of the suite `scaling` and for their jobs."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from batchmark_job.result.options import STRICT, Options, Whole, option
from batchmark_job.result.scaling import TrainingSettings
from batchmark_job.result.values import MOST_SAMPLES, Amount, Count, Line, PositiveCount

DataSource = Literal["synthetic", "files"]
Pass = Literal["cold", "warm"]
PASSES: tuple[Pass, ...] = ("cold", "warm")
LEAST_STEPS = 10  # must be the suite's minimum_samples (test_suites_agree.py)
LEAST_IMAGE_ALONE = 64  # smaller images leave the last layers a single value per channel
IMAGES_OF_RATE = 256  # a run's learning rate is for this many images per step
# Names the variable with the secret by which a job's nodes recognise each other.
NODES_TOKEN = "BATCHMARK_NODES_TOKEN"  # noqa: S105 - a name
Nodes = Annotated[Whole, Field(ge=1, le=1_000)]
Devices = Annotated[Whole, Field(ge=1, le=64)]
Batch = Annotated[Whole, Field(ge=1, le=65_536)]
Mebibytes = Annotated[Whole, Field(ge=1, le=16_384)]
# The options by section of the form.
_of_nodes, _of_step, _of_training = (
    partial(option, section=name) for name in ("Nodes", "A step", "The training")
)
# The form's text for each choice.
DATA_SOURCES: dict[DataSource, str] = {
    "synthetic": "generated on the device; nothing is read",
    "files": "read from a file system that the run creates for itself",
}


class _Step(Options):
    """Options that a run and its jobs share."""

    image: Annotated[Whole, Field(ge=32, le=1024)] = _of_step(
        224,
        "Width and height of an image in pixels.",
        command="width and height of an image in pixels",
    )
    steps: Annotated[Whole, Field(ge=LEAST_STEPS, le=MOST_SAMPLES)] = _of_step(
        50,
        "Measured steps of each training row.",
        command=(
            "maximum samples per row; when training on files, a sample is a step per loader worker"
        ),
    )
    data: Annotated[tuple[DataSource, ...], Field(min_length=1)] = _of_step(
        tuple(DATA_SOURCES),
        "Where images come from. Without files, no file system is created.",
        says=DATA_SOURCES,
    )
    all_reduce_mib: tuple[Mebibytes, ...] = _of_step(
        (1, 16, 64, 256),
        "Sizes of the all-reduce test in mebibytes, one number per line. Empty for no test.",
        command="all-reduce sizes in mebibytes; may be empty",
    )


class _Nodes(Options):
    node_counts: Annotated[tuple[Nodes, ...], Field(min_length=1)] = _of_nodes(
        (1, 2, 4, 8, 16, 20),
        "How many nodes train together, one number per line. Each number is a separate job, and "
        "the jobs run one after the other. Include 1, because the others are compared with it.",
    )
    devices: Devices | None = _of_nodes(
        None,
        "GPUs per node, or processes on its CPU. Empty for all its GPUs, or one process on a CPU.",
    )
    strong_scaling: bool = _of_nodes(
        True,
        "Also measure strong scaling: with more nodes, the images per device shrink so that the "
        "global batch stays the same.",
    )
    batch: Batch = _of_step(64, "Images per device and step.")
    dtype: Literal["suite", "bfloat16", "float32"] = _of_step(
        "suite",
        "Number format of the training; weights stay float32.",
        says={"suite": "bfloat16 on GPUs, float32 on CPUs"},
    )


class ScalingRun(_Step, _Nodes):
    """Options for a run with a job per node count or variant; forms show _Nodes's fields first."""

    learning_rate: Annotated[float, STRICT, Field(gt=0, le=1e6)] = _of_training(
        0.1,
        f"Learning rate after the warm-up for {IMAGES_OF_RATE} images per step. It is scaled "
        "linearly with the number of images on all devices (linear scaling rule).",
    )
    momentum: Annotated[Amount, STRICT] = _of_training(
        0.9, "Momentum of stochastic gradient descent."
    )
    weight_decay: Annotated[Amount, STRICT] = _of_training(
        5e-5, "Weight decay of stochastic gradient descent."
    )
    epochs: Annotated[PositiveCount, STRICT] = _of_training(
        90, "Epochs over which the rate decays quadratically to 0."
    )
    warmup_epochs: Annotated[Count, STRICT] = _of_training(
        10, "Epochs at the start, over which the rate rises."
    )
    images_per_epoch: Annotated[PositiveCount, STRICT] = _of_training(
        1_281_167, "Images per epoch; ImageNet has 1,281,167."
    )
    study: Annotated[tuple[dict[str, Any], ...], Field(max_length=20)] = _of_training(
        (),
        'Variants of the settings above, such as [{"learning_rate": 0.05}, '
        '{"learning_rate": 0.2}]. Each is a separate job on the largest number of nodes.',
    )

    @property
    def settings(self) -> TrainingSettings:
        """Training settings for a step of IMAGES_OF_RATE images."""
        return TrainingSettings(**self.model_dump(include=set(TrainingSettings.model_fields)))

    def contradiction(self, name: Callable[[str], str]) -> str | None:
        return _warm_up(self.settings, name)


class ScalingOptions(_Step):
    """Options for a single job, shared by all its nodes."""

    nodes: Nodes = Field(default=1, description="number of nodes; the job reads it from Batch")
    devices: Devices = option(1, command="GPUs per node, or processes on its CPU")
    batches: Annotated[tuple[Batch, ...], Field(min_length=1)] = option(
        (64,),
        command=(
            "images per device and step, each value a separate row: in a run, the first is for "
            "weak scaling and the second for strong scaling"
        ),
    )
    data: Annotated[tuple[DataSource, ...], Field(min_length=1)] = option(
        ("synthetic",), command="where images come from"
    )
    passes: tuple[Pass, ...] = option(
        PASSES, command="passes over the files; only the first job that reads them has a cold one"
    )
    settings: TrainingSettings = option(ScalingRun().settings, command="training hyperparameter")
    variant: Count = Field(
        default=0, description="index of the variant in a study; 0 means the run's own settings"
    )
    varied: tuple[Line, ...] = option(
        (), command="settings that distinguish this job's rows from others of its run"
    )

    @model_validator(mode="before")
    @classmethod
    def _of_earlier_plans(cls, given: Any) -> Any:
        if isinstance(given, dict) and "reads_cold" in given:
            passes = PASSES if given["reads_cold"] else ("warm",)
            given = {**given, "passes": passes}
            del given["reads_cold"]
        return given

    def contradiction(self, name: Callable[[str], str]) -> str | None:
        if min(self.batches) == 1 and self.image < LEAST_IMAGE_ALONE:
            return (
                f"{name('batches')} includes 1, which leaves nothing to normalise over when "
                f"{name('image')} is {self.image}: use at least 2 images per device, or images of "
                f"at least {LEAST_IMAGE_ALONE} pixels"
            )
        return _warm_up(self.settings, name)


def _warm_up(settings: TrainingSettings, name: Callable[[str], str]) -> str | None:
    if settings.warmup_epochs <= settings.epochs:
        return None
    return (
        f"{name('warmup_epochs')} is {settings.warmup_epochs}, but {name('epochs')} is "
        f"{settings.epochs}: the warm-up can't be longer than the training, so use fewer warm-up "
        "epochs"
    )
