"""A third party's published scaling result, with what its source claims about scaling."""

from __future__ import annotations

from datetime import date
from functools import cache
from pathlib import Path

from pydantic import Field

from batchmark.core.record import Record

POINT = Path(__file__).with_name("published.json")


class PublishedPoint(Record):
    name: str
    read_on: date = Field(description="date on which the source was read")
    model: str
    instance_type: str
    gpu: str
    nodes: int
    gpus_per_node: int
    batch: int = Field(description="images per GPU per step")
    images_per_second: int = Field(
        description="approximate total across all GPUs; no spread was published"
    )
    claim: str = Field(description="what the source says about scaling")
    claimed_from_gpus: int = Field(description="smallest number of GPUs that the claim covers")
    vendor_images_per_second: int = Field(
        description="throughput of one such GPU, as published by its vendor"
    )

    @property
    def gpus(self) -> int:
        return self.nodes * self.gpus_per_node

    @property
    def images_per_second_per_gpu(self) -> float:
        return self.images_per_second / self.gpus

    @property
    def share_of_vendor(self) -> float:
        """The rate per GPU relative to the vendor's; not an efficiency, as the code differs."""
        return self.images_per_second_per_gpu / self.vendor_images_per_second


@cache
def published_point() -> PublishedPoint:
    return PublishedPoint.model_validate_json(POINT.read_bytes())
