"""A result document's records for a row that several nodes measured together."""

from __future__ import annotations

from typing import Annotated

from pydantic import FailFast, Field

from batchmark_job.result.values import (
    Amount,
    Count,
    Few,
    Model,
    Name,
    PositiveCount,
    Reading,
    Seconds,
    Size,
    optional,
)


class ScalingNode(Model):
    """One of the machines that measured the row."""

    index: Count = Field(description="index of the node; 0 is the main node")
    host: Name = Field(description="address at which the other nodes reach it")
    instance_type: Name | None = Field(description="EC2 instance type; null outside EC2")
    device_model: Name = Field(description="model of its GPUs, or of its CPU if no GPU was used")
    devices: PositiveCount = Field(
        description="number of GPUs, or of processes on the CPU, that took part"
    )
    joined_seconds: Seconds = Field(
        description="time from the main node's start until this node joined; 0 for the main node"
    )


class TrainingSettings(Model):
    """The hyperparameters of a training row."""

    learning_rate: Annotated[float, Field(gt=0, le=1e6)] = Field(
        description="learning rate after the warm-up, for the combined batch of all devices"
    )
    momentum: Amount
    weight_decay: Amount
    epochs: PositiveCount = Field(
        description="number of epochs over which the learning rate decays quadratically"
    )
    warmup_epochs: Count
    images_per_epoch: PositiveCount


class StepSplit(Model):
    """How a training step spends its time: the median over the ranks of each rank's mean.

    The parts need not add up to the step, because each is measured separately.
    """

    data_seconds: Seconds = Field(description="device time spent waiting for the next batch")
    compute_seconds: Seconds = Field(description="duration of a step that exchanges no gradients")
    communication_seconds: Seconds = Field(
        description="duration of a step, excluding the wait for data, minus compute_seconds: the "
        "part of the gradient exchange that does not overlap with the backward pass; 0 on one "
        "device"
    )


class Scaling(Model):
    """The nodes that measured a row together, and details of what they measured."""

    nodes: Annotated[tuple[ScalingNode, ...], FailFast(), Field(min_length=1, max_length=1_000)]
    backend: Name = Field(description="torch.distributed backend: nccl, or gloo on the CPU")
    settings: TrainingSettings | None = optional("null if nothing is trained")
    split: StepSplit | None = optional("parts of a step; null if nothing is trained")
    losses: Few[Reading] = optional(
        "mean over all ranks, at up to 100 steps spread evenly from the first to the last", ()
    )
    gpu_busy_share: Annotated[float, Field(ge=0, le=1)] | None = optional(
        "mean over all GPUs while the samples were taken; null on the CPU"
    )
    gradient_bytes: Size | None = optional(
        "bytes of gradients that each rank contributes per step; null if nothing is trained"
    )

    @property
    def ranks(self) -> int:
        return sum(node.devices for node in self.nodes)
