"""What the ranks of one torchrun launch are asked to do, and what rank 0 answers.

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
    """What all tasks have in common: the device and how to sample."""

    device: Literal["cpu", "cuda"]
    dtype: str = Field(
        default="float32", description="or tf32, bfloat16 or float64; weights stay float32"
    )
    threads: int = Field(description="CPU threads of each rank")
    samples: int = Field(description="to take in this launch")
    max_seconds: float = Field(description="to take them in; fewer where they take longer")


class Train(Ranks):
    """Train ResNet-50, each rank on batches of its own; a sample is a step."""

    kind: Literal["train"] = "train"
    batch: int = Field(description="images of each rank at each step")
    image: int = Field(description="width and height in pixels")
    data: Literal["synthetic", "files"]
    folder: Path | None = optional("of the shards, where data is files")
    settings: TrainingSettings
    seed: int = 0


class AllReduce(Ranks):
    """Sum a tensor over all ranks repeatedly."""

    kind: Literal["all_reduce"] = "all_reduce"
    size_bytes: int


class Read(Ranks):
    """Read all shards, each rank its own share; a sample is a pass."""

    kind: Literal["read"] = "read"
    folder: Path
    cold: bool = Field(
        description="the first pass of all over the file system, which takes what it lacks from "
        "S3; else passes that follow, without what the nodes' memory holds of the files"
    )


Task = Annotated[Train | AllReduce | Read, Field(discriminator="kind")]
TASK: TypeAdapter[Train | AllReduce | Read] = TypeAdapter(Task)


class RankError(Model):
    """Written by a rank before it ends with an error, to find out which rank failed first."""

    at: float = Field(description="by its machine's clock, in seconds since 1970")
    rank: int
    error: str
    lost_another: bool = Field(description="it failed only because another rank was gone")
    out_of_memory: bool = False


class Answer(Model):
    """What all ranks did in one launch, as rank 0 measured it."""

    implementation: Implementation
    cold_seconds: float = Field(description="of the first call")
    samples_seconds: tuple[float, ...] = Field(
        description="per call: each ends with the last of all ranks, and begins where the one "
        "before ended. Where a loader has several workers, the mean of as many steps"
    )
    starts: tuple[float, ...] = Field(
        description="of each sample by time.perf_counter of rank 0, and the last one's end"
    )
    warmup_calls: int
    correctness: Correctness
    wrong: str | None = optional("what is wrong, if the check failed")
    items: int | None = optional("images of all ranks in a call")
    bytes_moved: int | None = optional("of all ranks in a call")
    split: StepSplit | None = None
    losses: tuple[float, ...] = ()
    gradient_bytes: int | None = None
    peak_memory_bytes: int | None = optional("the most of any rank")
    remark: str | None = None
    busy_share: float | None = optional(
        "of all GPUs, while the samples were taken: the main node adds it"
    )

    @property
    def seconds(self) -> tuple[float, ...]:
        return self.samples_seconds
