"""What the suite `scaling` measures: the rows of a job on so many nodes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from batchmark_job.distributed.task import AllReduce, Read, Task, Train
from batchmark_job.errors import InputError
from batchmark_job.option_values import in_range
from batchmark_job.result.scaling import TrainingSettings

Data = Literal["synthetic", "files"]
DATA: tuple[Data, ...] = ("synthetic", "files")
Pass = Literal["cold", "warm"]
PASSES: tuple[Pass, ...] = ("cold", "warm")
TRAINING, ALL_REDUCE, READING = "resnet50_data_parallel", "all_reduce", "read_images"
# torchvision's and the source's usual ones, and ImageNet's number of images.
SETTINGS = TrainingSettings(
    learning_rate=0.1,
    momentum=0.9,
    weight_decay=1e-4,
    epochs=90,
    warmup_epochs=10,
    images_per_epoch=1_281_167,
)
IMAGE_SIZES = range(32, 1025)
MOST_DEVICES = 64  # of a node
MOST_BATCH = 65_536
MOST_MIB = 16_384
LEAST_IMAGE_ALONE = 64  # below that the last layers have one number for each channel of an image
TRAINING_DTYPES = ("float32", "tf32", "bfloat16", "float64")
WARM_PASSES = 5
LEAST_CALLS = 100  # of an all-reduce in each launch: they are short, and vary
COLD_SECONDS = 12 * 3600.0
LAUNCHES = 2  # fresh processes on all nodes, for each row


@dataclass(frozen=True)
class Ranks:
    """What a task is told beside what it measures."""

    device: Literal["cpu", "cuda"]
    dtype: str
    threads: int
    samples: int  # of this launch
    max_seconds: float


@dataclass(frozen=True)
class TrainingPoint:
    batch: int
    image: int
    data: Data
    folder: Path | None
    settings: TrainingSettings
    varied: Sequence[str] = ()  # the settings that tell its row from others of the run

    workload = TRAINING
    trains = True
    seconds = None
    launches = LAUNCHES

    def parameters(self) -> dict[str, Any]:
        varied = {name: getattr(self.settings, name) for name in self.varied}
        return {"batch": self.batch, "image": self.image, "data": self.data, **varied}

    def task(self, ranks: Ranks) -> Task:
        return Train(
            device=ranks.device,
            dtype=ranks.dtype,
            batch=self.batch,
            image=self.image,
            data=self.data,
            folder=self.folder,
            steps=ranks.samples,
            max_seconds=ranks.max_seconds,
            settings=self.settings,
            threads=ranks.threads,
        )


@dataclass(frozen=True)
class AllReducePoint:
    mib: int

    workload = ALL_REDUCE
    trains = False
    seconds = None
    launches = LAUNCHES

    def parameters(self) -> dict[str, Any]:
        return {"mib": self.mib}

    def task(self, ranks: Ranks) -> Task:
        return AllReduce(
            device=ranks.device,
            size_bytes=self.mib * 2**20,
            calls=max(ranks.samples, LEAST_CALLS),
            max_seconds=ranks.max_seconds,
            threads=ranks.threads,
        )


@dataclass(frozen=True)
class ReadingPoint:
    folder: Path
    cold: bool

    workload = READING
    trains = False

    @property
    def seconds(self) -> float | None:
        """How long a launch may take: a cold pass as long as S3 takes; the job has its limit."""
        return COLD_SECONDS if self.cold else None

    @property
    def launches(self) -> int:
        """A cold pass is the first one, so there is no second."""
        return 1 if self.cold else LAUNCHES

    def parameters(self) -> dict[str, Any]:
        return {"pass": "cold" if self.cold else "warm"}

    def task(self, ranks: Ranks) -> Task:
        return Read(
            device=ranks.device,
            folder=self.folder,
            cold=self.cold,
            passes=1 if self.cold else min(WARM_PASSES, ranks.samples),
            max_seconds=ranks.max_seconds,
            threads=ranks.threads,
        )


Measured = TrainingPoint | AllReducePoint | ReadingPoint


@dataclass(frozen=True)
class ScalingPoint:
    """One row: what is measured, on how many nodes with how many devices each."""

    nodes: int
    devices: int
    measured: Measured

    def parameters(self) -> dict[str, Any]:
        return {"nodes": self.nodes, "devices": self.devices, **self.measured.parameters()}


@dataclass(frozen=True)
class ScalingOptions:
    """What a job's rows are made of."""

    nodes: int = 1
    devices: int = 1
    batches: Sequence[int] = (64,)
    image: int = 224
    data: Sequence[Data] = ("synthetic",)
    folder: Path | None = None
    passes: Sequence[Pass] = PASSES  # over the files, in this order
    all_reduce_mib: Sequence[int] = (1, 16, 64, 256)
    settings: TrainingSettings = field(default=SETTINGS)
    varied: Sequence[str] = ()

    def points(self) -> list[ScalingPoint]:
        """Reading comes first, as its cold pass must be; then training, then all-reduces.

        Raises:
            InputError: they contradict each other.
        """
        self._check()
        measured: list[Measured] = []
        if self.folder is not None and "files" in self.data:
            cold = [name == "cold" for name in PASSES if name in self.passes]
            measured += [ReadingPoint(self.folder, cold=each) for each in cold]
        measured += [
            TrainingPoint(
                batch, self.image, data, self._folder(data), self._settings(batch), self.varied
            )
            for batch in self.batches
            for data in self.data
        ]
        measured += [AllReducePoint(mib) for mib in self.all_reduce_mib]
        return [ScalingPoint(self.nodes, self.devices, each) for each in measured]

    def _settings(self, batch: int) -> TrainingSettings:
        """With the rate for this batch, by the linear scaling rule: the one given is the first's.

        Source: https://arxiv.org/abs/1706.02677.
        """
        rate = self.settings.learning_rate * batch / self.batches[0]
        return self.settings.model_copy(update={"learning_rate": rate})

    def _folder(self, data: Data) -> Path | None:
        return self.folder if data == "files" else None

    def _check(self) -> None:
        in_range("--image", self.image, IMAGE_SIZES[0], IMAGE_SIZES[-1])
        in_range("--devices", self.devices, 1, MOST_DEVICES)
        if "files" in self.data and self.folder is None:
            raise InputError("--data has files; give their folder by --files or BATCHMARK_FILES")
        if self.settings.warmup_epochs > self.settings.epochs:
            raise InputError(
                f"--warmup-epochs {self.settings.warmup_epochs} is more than --epochs "
                f"{self.settings.epochs}"
            )
        for batch in self.batches:
            in_range("--batches", batch, 1, MOST_BATCH)
            if batch == 1 and self.image < LEAST_IMAGE_ALONE:
                raise InputError(
                    f"--batches 1 at --image {self.image} leaves nothing to normalise over; give 2 "
                    f"or more, or --image {LEAST_IMAGE_ALONE} or more"
                )
        for mib in self.all_reduce_mib:
            in_range("--all-reduce-mib", mib, 1, MOST_MIB)
        if not self.batches:
            raise InputError("--batches is empty; give images for each device, such as 64")
