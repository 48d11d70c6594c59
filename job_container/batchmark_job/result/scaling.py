"""How a result document describes a row that several nodes measured together."""

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
    """One machine of those that measured the row."""

    index: Count = Field(description="0 is the main node")
    host: Name = Field(description="its address, as the other nodes reach it")
    instance_type: Name | None = Field(description="EC2 instance type; null off EC2")
    device_model: Name = Field(description="model of its GPUs, or of its CPU")
    devices: PositiveCount = Field(description="GPUs, or processes on the CPU, that took part")
    joined_seconds: Seconds = Field(
        description="from the main node's start until this node joined; 0 for the main node"
    )


class TrainingSettings(Model):
    """The hyperparameters of a training row."""

    learning_rate: Annotated[float, Field(gt=0, le=1e6)] = Field(
        description="learning rate after the warm-up, for the batch of all devices together"
    )
    momentum: Amount
    weight_decay: Amount
    epochs: PositiveCount = Field(description="epochs over which the rate decays quadratically")
    warmup_epochs: Count
    images_per_epoch: PositiveCount


class StepSplit(Model):
    """Where a training step's time goes, as medians over the ranks' own means.

    The parts need not add up to the step, as each is measured separately.
    """

    data_seconds: Seconds = Field(description="waiting for the next batch, on the device")
    compute_seconds: Seconds = Field(description="duration of steps that exchange no gradients")
    communication_seconds: Seconds = Field(
        description="a whole step without waiting for data, minus compute_seconds: what exchanging "
        "gradients adds beyond what overlaps with the backward pass; 0 on one device"
    )


class Scaling(Model):
    """How many nodes measured a row together, and what a step of it consists of."""

    nodes: Annotated[tuple[ScalingNode, ...], FailFast(), Field(min_length=1, max_length=1_000)]
    backend: Name = Field(description="torch.distributed's backend: nccl, or gloo on the CPU")
    settings: TrainingSettings | None = optional("null if nothing is trained")
    split: StepSplit | None = optional("null as for settings")
    losses: Few[Reading] = optional(
        "mean over all ranks, at up to 100 steps spread evenly from the first to the last", ()
    )
    gpu_busy_share: Annotated[float, Field(ge=0, le=1)] | None = optional(
        "mean over all GPUs while the samples were taken; null on the CPU"
    )
    gradient_bytes: Size | None = optional(
        "bytes of gradients that each rank contributes per step; null as for settings"
    )

    @property
    def ranks(self) -> int:
        return sum(node.devices for node in self.nodes)
