"""What a run of the suite `scaling` is asked for, and what each of its jobs is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from batchmark_job.result.options import STRICT, Options, Whole, option
from batchmark_job.result.scaling import TrainingSettings
from batchmark_job.result.values import MOST_SAMPLES, Amount, Count, PositiveCount

DataSource = Literal["synthetic", "files"]
Pass = Literal["cold", "warm"]
PASSES: tuple[Pass, ...] = ("cold", "warm")
LEAST_STEPS = 10
LEAST_IMAGE_ALONE = 64  # below that the last layers have one number for each channel of an image
IMAGES_OF_RATE = 256  # a run's learning rate is given for so many images of a step
Nodes = Annotated[Whole, Field(ge=1, le=1_000)]
Devices = Annotated[Whole, Field(ge=1, le=64)]
Batch = Annotated[Whole, Field(ge=1, le=65_536)]
Mebibytes = Annotated[Whole, Field(ge=1, le=16_384)]
NODES_SECTION, STEP_SECTION, TRAINING_SECTION = "Nodes", "A step", "The training"
# With what the form says of each.
DATA_SOURCES: dict[DataSource, str] = {
    "synthetic": "made on the device: nothing is read",
    "files": "read from a file system that the run stands up for itself",
}


class _Step(Options):
    """What a run and its jobs have in common."""

    image: Annotated[Whole, Field(ge=32, le=1024)] = option(
        224,
        "Width and height of an image in pixels.",
        command="width and height in pixels",
        section=STEP_SECTION,
    )
    steps: Annotated[Whole, Field(ge=LEAST_STEPS, le=MOST_SAMPLES)] = option(
        50,
        "Steps that are measured, of each row that trains.",
        command="most samples of a row; of training on files each is a step of every worker that "
        "loads them",
        section=STEP_SECTION,
    )
    data: Annotated[tuple[DataSource, ...], Field(min_length=1)] = option(
        tuple(DATA_SOURCES),
        "Where images come from. Without files, no file system is stood up.",
        section=STEP_SECTION,
        says=DATA_SOURCES,
    )
    all_reduce_mib: tuple[Mebibytes, ...] = option(
        (1, 16, 64, 256),
        "Mebibytes that all ranks sum in a test of its own, one number per line. Empty for none.",
        command="sizes in mebibytes; may be empty",
        section=STEP_SECTION,
    )


class _Nodes(Options):
    node_counts: Annotated[tuple[Nodes, ...], Field(min_length=1)] = option(
        (1, 2, 4, 8, 16, 20),
        "How many nodes train together, one number per line: a job for each, one after the other. "
        "Include 1: the others are compared with it.",
        section=NODES_SECTION,
    )
    devices: Devices | None = option(
        None,
        "GPUs of each node, or processes on its CPU. Empty for all its GPUs, and for one process "
        "on a CPU.",
        section=NODES_SECTION,
    )
    strong_scaling: bool = option(
        True,
        "Also measure the batch that keeps the images of all devices together at those of the "
        "fewest nodes.",
        section=NODES_SECTION,
    )
    batch: Batch = option(64, "Images of each device at each step.", section=STEP_SECTION)
    dtype: Literal["suite", "bfloat16", "float32"] = option(
        "suite",
        "Number format of the training; weights stay float32.",
        section=STEP_SECTION,
        says={"suite": "bfloat16 on GPUs, float32 on CPUs"},
    )


class ScalingRun(_Step, _Nodes):
    """What a run asks for: jobs on several numbers of nodes. The form has _Nodes's fields first."""

    learning_rate: Annotated[float, STRICT, Field(gt=0, le=1e6)] = option(
        0.1,
        f"For {IMAGES_OF_RATE} images per step, after the warm-up. It is multiplied by the images "
        f"of all devices / {IMAGES_OF_RATE}: the linear scaling rule.",
        section=TRAINING_SECTION,
    )
    momentum: Annotated[Amount, STRICT] = option(
        0.9, "Of stochastic gradient descent.", section=TRAINING_SECTION
    )
    weight_decay: Annotated[Amount, STRICT] = option(
        5e-5, "Of stochastic gradient descent.", section=TRAINING_SECTION
    )
    epochs: Annotated[PositiveCount, STRICT] = option(
        90, "Over which the rate falls to nothing, as a square.", section=TRAINING_SECTION
    )
    warmup_epochs: Annotated[Count, STRICT] = option(
        10, "Over which the rate rises first.", section=TRAINING_SECTION
    )
    images_per_epoch: Annotated[PositiveCount, STRICT] = option(
        1_281_167, "ImageNet has 1,281,167.", section=TRAINING_SECTION
    )
    study: Annotated[tuple[dict[str, Any], ...], Field(max_length=20)] = option(
        (),
        "Variants of the settings above, such as "
        '[{"learning_rate": 0.05}, {"learning_rate": 0.2}]: each a job of its own on the most '
        "nodes.",
        section=TRAINING_SECTION,
    )

    @property
    def settings(self) -> TrainingSettings:
        """Of a step of IMAGES_OF_RATE images."""
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
    varied: tuple[str, ...] = option(
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
                f"{name('batches')} has 1, which leaves nothing to normalise over at "
                f"{name('image')} {self.image}: give 2 images or more of a device, or "
                f"{LEAST_IMAGE_ALONE} pixels or more"
            )
        return _warm_up(self.settings, name)


def _warm_up(settings: TrainingSettings, name: Callable[[str], str]) -> str | None:
    if settings.warmup_epochs <= settings.epochs:
        return None
    return (
        f"{name('warmup_epochs')} is {settings.warmup_epochs}, and {name('epochs')} "
        f"{settings.epochs}: the rate must reach its height before it ends, so give fewer"
    )
