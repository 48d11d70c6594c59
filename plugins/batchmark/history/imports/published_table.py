"""Read a benchmark table that others published: each of its figures on both of its machines."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, time
from typing import Any

from batchmark.analysis.published import OTHERS, Defect, PublishedTable
from batchmark.history.imports.measurement import Contents, ForeignMeasurement
from batchmark_job.result.document import Device

DEFECTS: dict[Defect, str] = {
    "start-up": "the time is start-up, not the work",
    "repeated": "the times are another row's: one of the two was never measured",
}


def parse(document: Mapping[str, Any]) -> Contents:
    """Yield each row on the GPU's and on the CPU's instance."""
    table = PublishedTable.model_validate(document)
    for row in table.rows:
        for device, instance_type, seconds in (
            (Device.CUDA, table.gpu, row.gpu_seconds),
            (Device.CPU, table.cpu, row.cpu_seconds),
        ):
            yield ForeignMeasurement(
                commit=None,
                run=table.run_id,
                recorded_at=datetime.combine(table.read_on, time(), UTC),
                workload=row.workload,
                parameters=row.parameters,
                figures={} if row.defect else {"samples": 1, "median_seconds": seconds},
                target=f"{instance_type}, {OTHERS}",
                device=device,
                machine={"instance_type": instance_type},
                reason=row.defect and DEFECTS[row.defect],
            )
