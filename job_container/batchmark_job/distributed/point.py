"""What the `scaling` suite measures: a job's rows for a given number of nodes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from batchmark_job.distributed.task import AllReduce, Ranks, Read, Task, Train
from batchmark_job.errors import InputError
from batchmark_job.option_values import one_of
from batchmark_job.result.scaling import TrainingSettings
from batchmark_job.result.scaling_options import PASSES, DataSource, ScalingOptions

TRAINING, ALL_REDUCE, READING = "resnet50_data_parallel", "all_reduce", "read_images"
TRAINING_DTYPES = ("float32", "tf32", "bfloat16", "float64")
WARM_PASSES = 5  # judgment: a pass reads all files, so it takes long
LEAST_CALLS = 100  # all-reduces timed per launch: they are short and vary
COLD_SECONDS = 12 * 3600.0  # only a backstop: the job's own timeout is an hour by default
LAUNCHES = 2  # launches per row, each with fresh processes on all nodes


@dataclass(frozen=True)
class TrainingPoint:
    batch: int
    image: int
    data: DataSource
    folder: Path | None
    settings: TrainingSettings
    varied: Sequence[str] = ()  # settings that distinguish its row from others of the run

    name = TRAINING
    trains = True
    seconds = None
    launches = LAUNCHES

    def parameters(self) -> dict[str, Any]:
        varied = {name: getattr(self.settings, name) for name in self.varied}
        return {"batch": self.batch, "image": self.image, "data": self.data, **varied}

    def task(self, ranks: Ranks) -> Task:
        own = {name: value for name, value in vars(self).items() if name != "varied"}
        return Train(**ranks.model_dump(), **own)


@dataclass(frozen=True)
class AllReducePoint:
    mib: int

    name = ALL_REDUCE
    trains = False
    seconds = None
    launches = LAUNCHES

    def parameters(self) -> dict[str, Any]:
        return {"mib": self.mib}

    def task(self, ranks: Ranks) -> Task:
        calls = ranks.model_copy(update={"samples": max(ranks.samples, LEAST_CALLS)})
        return AllReduce(**calls.model_dump(), size_bytes=self.mib * 2**20)


@dataclass(frozen=True)
class ReadingPoint:
    folder: Path
    cold: bool

    name = READING
    trains = False

    @property
    def seconds(self) -> float | None:
        """Time limit for a cold pass, which has to wait for S3; None means the usual limit."""
        return COLD_SECONDS if self.cold else None

    @property
    def launches(self) -> int:
        """Number of launches; a cold pass has only one, because a second would be warm."""
        return 1 if self.cold else LAUNCHES

    def parameters(self) -> dict[str, Any]:
        return {"pass": "cold" if self.cold else "warm"}

    def task(self, ranks: Ranks) -> Task:
        samples = 1 if self.cold else min(WARM_PASSES, ranks.samples)
        passes = ranks.model_copy(update={"samples": samples})
        return Read(**passes.model_dump(), folder=self.folder, cold=self.cold)


Measured = TrainingPoint | AllReducePoint | ReadingPoint


@dataclass(frozen=True)
class ScalingPoint:
    """One row: what to measure, on how many nodes, and with how many devices on each."""

    nodes: int
    devices: int
    measured: Measured

    def parameters(self) -> dict[str, Any]:
        return {"nodes": self.nodes, "devices": self.devices, **self.measured.parameters()}


def scaling_points(options: ScalingOptions, files: Path | None) -> list[ScalingPoint]:
    """Return all rows: reading first, while the files are cold, then training and all-reduces.

    Raises:
        InputError: a row reads files, but no folder is given, or a varied setting is unknown.
    """
    settings = options.settings
    for name in options.varied:
        one_of("--varied", name, list(TrainingSettings.model_fields))
    measured: list[Measured] = []
    if "files" in options.data:
        if files is None:
            raise InputError(
                "--data includes files; specify their folder with --files or BATCHMARK_FILES"
            )
        cold = [name == "cold" for name in PASSES if name in options.passes]
        measured += [ReadingPoint(files, cold=each) for each in cold]
    for batch in options.batches:
        # Linear scaling rule: the learning rate given is for the smallest global batch.
        # Source: https://arxiv.org/abs/1706.02677.
        rate = settings.learning_rate * batch / options.batches[0]
        of_batch = settings.model_copy(update={"learning_rate": rate})
        for data in options.data:
            folder = files if data == "files" else None
            measured.append(
                TrainingPoint(batch, options.image, data, folder, of_batch, options.varied)
            )
    measured += [AllReducePoint(mib) for mib in options.all_reduce_mib]
    return [ScalingPoint(options.nodes, options.devices, each) for each in measured]
