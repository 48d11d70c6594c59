"""Computes training figures at one node count and batch size."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median

from pydantic import Field

from batchmark.analysis.cost import PriceBasis
from batchmark.analysis.samples import Provenance
from batchmark.analysis.scaling.rows import NodesSamples
from batchmark.core.intervals import Estimate, Median
from batchmark.core.prices import MILLION, SECONDS_PER_HOUR
from batchmark.core.record import Record


class Split(Record):
    """A breakdown of a step's time, with each part measured separately (medians over the jobs)."""

    data_seconds: float = Field(description="time spent waiting for the next batch")
    compute_seconds: float
    communication_seconds: float = Field(
        description="exchange time that is not hidden by computation"
    )

    @property
    def parts(self) -> dict[str, float]:
        return {
            "data": self.data_seconds,
            "compute": self.compute_seconds,
            "communication": self.communication_seconds,
        }

    @property
    def shares(self) -> dict[str, float]:
        """Each part's share of the total time."""
        total = sum(self.parts.values())
        return {name: seconds / total if total else 0.0 for name, seconds in self.parts.items()}


class TrainingPoint(Record):
    nodes: int
    devices: int = Field(description="devices per node")
    batch: int = Field(description="images per device per step")
    images: int = Field(description="images per step across all devices")
    jobs: int
    samples: int
    seconds: Estimate = Field(description="time per step")
    images_per_second: Estimate
    images_per_second_per_device: Estimate
    split: Split | None = Field(
        description="breakdown of a step's time; null if no job reported it"
    )
    gpu_busy_share: float | None = Field(
        description="share of time in which GPUs were busy during the timed steps; mean over all "
        "GPUs, median over the jobs"
    )
    first_loss: float | None
    last_loss: float | None
    gradient_bytes: int | None = Field(
        description="gradient bytes that each device exchanges per step"
    )
    usd_per_epoch: Estimate | None = Field(description="null if there is no price")
    usd_per_million_images: Estimate | None = Field(description="null if there is no price")
    remarks: tuple[str, ...] = Field(description="remarks on the nodes")
    warnings: tuple[str, ...]
    provenance: tuple[Provenance, ...]

    @property
    def ranks(self) -> int:
        return self.nodes * self.devices


def training_point(
    samples: NodesSamples,
    batch: int,
    step: Median,
    price: PriceBasis,
    file_system_usd_per_hour: float | None,
) -> TrainingPoint:
    pooled, seconds = samples.pooled, step.estimate()
    images = batch * samples.ranks
    first = samples.scalings[0] if samples.scalings else None
    epoch = first.settings.images_per_epoch if first and first.settings else None
    images_per_second = seconds.inverse(images)
    per_image = _usd_per_image(seconds, images, samples.nodes, price, file_system_usd_per_hour)
    return TrainingPoint(
        nodes=samples.nodes,
        devices=samples.devices,
        batch=batch,
        images=images,
        jobs=len(pooled.measured),
        samples=step.samples.size,
        seconds=seconds,
        images_per_second=images_per_second,
        images_per_second_per_device=images_per_second.scaled(1 / samples.ranks),
        split=_split(samples),
        gpu_busy_share=samples.over_jobs(lambda one: one.gpu_busy_share),
        first_loss=samples.over_jobs(lambda one: one.losses[0] if one.losses else None),
        last_loss=samples.over_jobs(lambda one: one.losses[-1] if one.losses else None),
        gradient_bytes=first.gradient_bytes if first else None,
        usd_per_epoch=per_image.scaled(epoch) if per_image and epoch else None,
        usd_per_million_images=per_image and per_image.scaled(MILLION),
        remarks=tuple(dict.fromkeys(_remarks(samples))),
        warnings=tuple(warning.text for warning in pooled.warnings()),
        provenance=pooled.provenance,
    )


def _usd_per_image(
    seconds: Estimate,
    images: int,
    nodes: int,
    price: PriceBasis,
    file_system_usd_per_hour: float | None,
) -> Estimate | None:
    """Return all nodes' cost per image, plus the file system's if its price is known."""
    if price.usd_per_hour is None:
        return None
    hourly = nodes * price.usd_per_hour + (file_system_usd_per_hour or 0.0)
    return seconds.scaled(hourly / SECONDS_PER_HOUR / images)


def _split(samples: NodesSamples) -> Split | None:
    told = [one.split for one in samples.scalings if one.split]
    if not told:
        return None
    return Split(
        **{name: median(getattr(one, name) for one in told) for name in Split.model_fields}
    )


def _remarks(samples: NodesSamples) -> Iterator[str]:
    """Yield a remark for each job whose nodes have different devices."""
    for one in samples.scalings:
        models = sorted({node.device_model for node in one.nodes})
        if len(models) > 1:
            yield f"its nodes have different devices: {' and '.join(models)}"
