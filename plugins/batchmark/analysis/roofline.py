"""Computes how close a row came to its device's ceilings, as measured in the same jobs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from pydantic import Field

from batchmark.core.intervals import Estimate, known_median
from batchmark.core.record import Record
from batchmark_job.result.document import Measurement, ResultDocument

Bound = Literal["compute", "memory"]


class Roofline(Record):
    """A row's rates and ceilings; ceilings are medians over its jobs, or null if not measured."""

    flops_per_second: Estimate | None
    bytes_per_second: Estimate | None = Field(
        description="based on the minimum number of bytes that a call must move"
    )
    compute_ceiling: float | None = Field(
        description="flop/s of a large matrix product in the row's dtype"
    )
    memory_ceiling: float | None = Field(
        description="bytes/s of a large copy (read plus written), or of a large read if faster"
    )
    compute_share: float | None = Field(
        description="compute rate as a share of the compute ceiling"
    )
    memory_share: float | None = Field(description="memory rate as a share of the memory ceiling")
    bound: Bound | None = Field(
        description="ceiling that limits the row, determined by its flops per byte"
    )

    @property
    def share(self) -> float | None:
        """The share of its limiting ceiling that the row reached; None if that is unknown."""
        return {"compute": self.compute_share, "memory": self.memory_share}.get(self.bound or "")


def roofline(
    row: Measurement, documents: Sequence[ResultDocument], seconds: Estimate
) -> Roofline | None:
    """Return a row's rates and ceilings; None if its work isn't counted or it is multi-node.

    Ceilings apply to one device. `seconds` is the row's time per call.
    """
    if row.scaling or not (row.flops or row.bytes_moved):
        return None
    compute = _ceiling(documents, "compute", row.dtype)
    traffic = (_ceiling(documents, kind, None) for kind in ("copy", "read"))
    memory = max(filter(None, traffic), default=None)
    flops, moved = rate(row.flops, seconds), rate(row.bytes_moved, seconds)
    return Roofline(
        flops_per_second=flops,
        bytes_per_second=moved,
        compute_ceiling=compute,
        memory_ceiling=memory,
        compute_share=flops.value / compute if flops and compute else None,
        memory_share=moved.value / memory if moved and memory else None,
        bound=_bound(row, compute, memory),
    )


def _bound(row: Measurement, compute: float | None, memory: float | None) -> Bound | None:
    if not (row.flops and row.bytes_moved and compute and memory):
        return None
    return "compute" if row.flops / row.bytes_moved > compute / memory else "memory"


def _ceiling(documents: Sequence[ResultDocument], kind: str, dtype: str | None) -> float | None:
    return known_median(
        ceiling.rate_per_second
        for document in documents
        for ceiling in document.ceilings
        if (ceiling.kind, ceiling.dtype) == (kind, dtype)
    )


def rate(amount: int | None, seconds: Estimate) -> Estimate | None:
    """Convert an amount per call to a rate per second; None if the amount isn't counted."""
    return seconds.inverse(amount) if amount else None
