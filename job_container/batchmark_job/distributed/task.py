"""The task for the ranks in one torchrun launch, and rank 0's answer.

Each node writes the task to a JSON file for its own ranks; rank 0 writes the answer to another.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, TypeAdapter

from batchmark_job.result.document import Correctness, Implementation
from batchmark_job.result.scaling import StepSplit, TrainingSettings
from batchmark_job.result.values import Model, optional

# Environment variable that names a rank's task file.
TASK_VARIABLE, ANSWER_VARIABLE = "BATCHMARK_TASK", "BATCHMARK_ANSWER"
ERROR_SUFFIX = ".error"  # each rank's RankError file, beside the answer


class Ranks(Model):
    """The fields that all tasks share: device, dtype, threads and sampling limits."""

    device: Literal["cpu", "cuda"]
    dtype: str = Field(
        default="float32",
        description="float32, tf32, bfloat16 or float64; weights are float32, except in float64",
    )
    threads: int = Field(description="number of CPU threads per rank")
    samples: int = Field(description="number of samples to take in this launch")
    max_seconds: float = Field(description="time limit for taking samples")


class Train(Ranks):
    """The task of training ResNet-50, each rank on its own batches; a sample is a step or more."""

    kind: Literal["train"] = "train"
    batch: int = Field(description="number of images per rank and step")
    image: int = Field(description="width and height of the images in pixels")
    data: Literal["synthetic", "files"]
    folder: Path | None = optional("folder of the shards, if data is files")
    settings: TrainingSettings
    seed: int = 0


class AllReduce(Ranks):
    """The task of repeatedly summing a tensor over all ranks."""

    kind: Literal["all_reduce"] = "all_reduce"
    size_bytes: int


class Read(Ranks):
    """The task of reading all shards, with each rank reading its share; a sample is a pass."""

    kind: Literal["read"] = "read"
    folder: Path
    cold: bool = Field(
        description="whether to time the first pass, for which the file system loads the files "
        "from S3, rather than later passes, before which the nodes drop the files "
        "from their page caches"
    )


Task = Annotated[Train | AllReduce | Read, Field(discriminator="kind")]
TASK: TypeAdapter[Train | AllReduce | Read] = TypeAdapter(Task)


class RankError(Model):
    """A rank's error, written as the rank exits, so that the first rank to fail can be found."""

    at: float = Field(
        description="time of the failure by its machine's clock, in seconds since 1970"
    )
    rank: int
    error: str
    lost_another: bool = Field(description="whether it failed only because another rank had ended")
    out_of_memory: bool = False


class Answer(Model):
    """All ranks' results from one launch, as measured by rank 0."""

    implementation: Implementation
    cold_seconds: float = Field(description="duration of the first call")
    samples_seconds: tuple[float, ...] = Field(
        description="seconds per call, one value per sample. A sample runs from the end of the "
        "previous one until the last rank finishes. With N > 1 loader workers, a sample "
        "covers N steps and its value is their mean"
    )
    starts: tuple[float, ...] = Field(
        description="start of each sample and end of the last one, measured by rank 0's "
        "time.perf_counter"
    )
    warmup_calls: int
    correctness: Correctness
    wrong: str | None = optional("what is wrong, if the check failed")
    items: int | None = optional("images that all ranks process in a call")
    bytes_moved: int | None = optional("bytes that all ranks move in a call")
    split: StepSplit | None = None
    losses: tuple[float, ...] = ()
    gradient_bytes: int | None = None
    peak_memory_bytes: int | None = optional("maximum over the ranks")
    remark: str | None = None
    busy_share: float | None = optional(
        "mean utilisation of all GPUs during the samples; added by the main node"
    )

    @property
    def seconds(self) -> tuple[float, ...]:
        return self.samples_seconds
