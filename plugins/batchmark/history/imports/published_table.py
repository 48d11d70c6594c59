"""Read a benchmark table that others published: each of its figures on both of its machines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, time
from typing import Any

from batchmark.analysis.published import OTHERS, Defect, PublishedRow, PublishedTable, Times
from batchmark.history.imports.measurement import UNKNOWN, ForeignMeasurement, Parsed
from batchmark.history.rows import Row
from batchmark_job.result import Device

WHOLE_JOB = "whole_job"
DEFECTS: dict[Defect, str] = {
    "start-up": "the time is start-up, not the work",
    "repeated": "the times are another row's: one of the two was never measured",
}


def parse(document: Mapping[str, Any]) -> Parsed:
    """Return each row, and the whole job, on the GPU's and on the CPU's instance."""
    table = PublishedTable.model_validate(document)
    return Parsed(list(_measurements(table)), Counter())


def _measurements(table: PublishedTable) -> Iterator[ForeignMeasurement]:
    rows: list[tuple[str, Mapping[str, Any], Times]] = [
        (row.workload, row.parameters, row) for row in table.rows
    ]
    for workload, parameters, times in [*rows, (WHOLE_JOB, {}, table.total)]:
        defect = times.defect if isinstance(times, PublishedRow) else None
        for device, instance_type, seconds in (
            (Device.CUDA, table.gpu, times.gpu_seconds),
            (Device.CPU, table.cpu, times.cpu_seconds),
        ):
            yield ForeignMeasurement(
                commit=None,
                run=table.run_id,
                recorded_at=datetime.combine(table.read_on, time(), UTC),
                workload=workload,
                parameters=parameters,
                figures={} if defect else {"samples": 1, "median_seconds": seconds},
                machine=_machine(device, instance_type),
                reason=defect and DEFECTS[defect],
            )


def _machine(device: Device, instance_type: str) -> Row:
    return {
        "target": f"{instance_type}, {OTHERS}",
        "requested_device": device.value,
        "actual_device": device.value,
        "instance_type": instance_type,
        "gpu_model": UNKNOWN if device is Device.CUDA else None,
    }
