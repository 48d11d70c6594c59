"""Options of a run of the suite `scaling`, and of each of its jobs."""

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
LEAST_STEPS = 10
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
    "synthetic": "made on the device: nothing is read",
    "files": "read from a file system that the run stands up for itself",
}


class _Step(Options):
    """Options that a run and its jobs share."""

    image: Annotated[Whole, Field(ge=32, le=1024)] = _of_step(
        224,
        "Width and height of an image in pixels.",
        command="width and height in pixels",
    )
    steps: Annotated[Whole, Field(ge=LEAST_STEPS, le=MOST_SAMPLES)] = _of_step(
        50,
        "Steps that are measured, of each row that trains.",
        command="most samples of a row; of training on files each is a step of every worker that "
        "loads them",
    )
    data: Annotated[tuple[DataSource, ...], Field(min_length=1)] = _of_step(
        tuple(DATA_SOURCES),
        "Where images come from. Without files, no file system is stood up.",
        says=DATA_SOURCES,
    )
    all_reduce_mib: tuple[Mebibytes, ...] = _of_step(
        (1, 16, 64, 256),
        "Mebibytes that all ranks sum in a test of its own, one number per line. Empty for none.",
        command="sizes in mebibytes; may be empty",
    )


class _Nodes(Options):
    node_counts: Annotated[tuple[Nodes, ...], Field(min_length=1)] = _of_nodes(
        (1, 2, 4, 8, 16, 20),
        "How many nodes train together, one number per line: a job for each, one after the other. "
        "Include 1: the others are compared with it.",
    )
    devices: Devices | None = _of_nodes(
        None,
        "GPUs of each node, or processes on its CPU. Empty for all its GPUs, and for one process "
        "on a CPU.",
    )
    strong_scaling: bool = _of_nodes(
        True,
        "Also measure the batch that keeps the images of all devices together at those of the "
        "fewest nodes.",
    )
    batch: Batch = _of_step(64, "Images of each device at each step.")
    dtype: Literal["suite", "bfloat16", "float32"] = _of_step(
        "suite",
        "Number format of the training; weights stay float32.",
        says={"suite": "bfloat16 on GPUs, float32 on CPUs"},
    )


class ScalingRun(_Step, _Nodes):
    """Options of a run: jobs on several numbers of nodes. The form shows _Nodes's fields first."""

    learning_rate: Annotated[float, STRICT, Field(gt=0, le=1e6)] = _of_training(
        0.1,
        f"For {IMAGES_OF_RATE} images per step, after the warm-up. It is multiplied by the images "
        f"of all devices / {IMAGES_OF_RATE}: the linear scaling rule.",
    )
    momentum: Annotated[Amount, STRICT] = _of_training(0.9, "Of stochastic gradient descent.")
    weight_decay: Annotated[Amount, STRICT] = _of_training(5e-5, "Of stochastic gradient descent.")
    epochs: Annotated[PositiveCount, STRICT] = _of_training(
        90, "Over which the rate falls to nothing, as a square."
    )
    warmup_epochs: Annotated[Count, STRICT] = _of_training(10, "Over which the rate rises first.")
    images_per_epoch: Annotated[PositiveCount, STRICT] = _of_training(
        1_281_167, "ImageNet has 1,281,167."
    )
    study: Annotated[tuple[dict[str, Any], ...], Field(max_length=20)] = _of_training(
        (),
        "Variants of the settings above, such as "
        '[{"learning_rate": 0.05}, {"learning_rate": 0.2}]: each a job of its own on the most '
        "nodes.",
    )

    @property
    def settings(self) -> TrainingSettings:
        """The training settings for a step of IMAGES_OF_RATE images."""
        return TrainingSettings(**self.model_dump(include=set(TrainingSettings.model_fields)))

    def contradiction(self, name: Callable[[str], str]) -> str | None:
        return _warm_up(self.settings, name)


class ScalingOptions(_Step):
    """What the nodes of one job measure together."""

    nodes: Nodes = Field(default=1, description="which Batch tells the job")
    devices: Devices = option(1, command="of each node: GPUs, or processes on the CPU")
    batches: Annotated[tuple[Batch, ...], Field(min_length=1)] = option(
        (64,),
        command="images of each device at each step; several are rows of their own: a run's first "
        "one is that of weak scaling, one after it that of strong scaling",
    )
    data: Annotated[tuple[DataSource, ...], Field(min_length=1)] = option(
        ("synthetic",), command="where images come from"
    )
    passes: tuple[Pass, ...] = option(
        PASSES, command="passes over the files; only the first job that reads them has a cold one"
    )
    settings: TrainingSettings = option(ScalingRun().settings, command="of the training")
    variant: Count = Field(
        default=0, description="of a study over settings; 0 is the run's own settings"
    )
    varied: tuple[Line, ...] = option(
        (), command="settings of those above that tell this job's rows from others of its run"
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
                f"{name('batches')} includes 1, which leaves nothing to normalise over at "
                f"{name('image')} {self.image}: give 2 or more images per device, or "
                f"{LEAST_IMAGE_ALONE} pixels or more"
            )
        return _warm_up(self.settings, name)


def _warm_up(settings: TrainingSettings, name: Callable[[str], str]) -> str | None:
    if settings.warmup_epochs <= settings.epochs:
        return None
    return (
        f"{name('warmup_epochs')} is {settings.warmup_epochs}, but {name('epochs')} is "
        f"{settings.epochs}: the warm-up must end before the training does, so give fewer"
    )
