"""Reads a table published by a third party, with figures for two machines in each row."""

from __future__ import annotations

from datetime import UTC, datetime, time

from batchmark.analysis.published import OTHERS, Defect, PublishedRow, PublishedTable
from batchmark.history.imports.entry import Entry
from batchmark.history.imports.measurement import SECONDS_OF_CALLS, Contents, ForeignMeasurement
from batchmark.history.rows import Row
from batchmark_job.result.document import Device

DEFECTS: dict[Defect, str] = {
    "start-up": "the time is start-up, not the work",
    "repeated": "the times repeat another row's, so one of the two was never measured",
}


def parse(document: Entry) -> Contents:
    """Yield each row twice: once for the GPU instance, once for the CPU instance."""
    table = PublishedTable.model_validate(document.fields() | {"rows": ()})
    for entry in document.at("rows").each("workload"):
        with entry.alone():
            row = PublishedRow.model_validate(entry.value)
            for device, instance_type, seconds in (
                (Device.CUDA, table.gpu, entry.at("gpu_seconds")),
                (Device.CPU, table.cpu, entry.at("cpu_seconds")),
            ):
                yield ForeignMeasurement(
                    place=entry.place,
                    run=table.run_id,
                    recorded_at=datetime.combine(table.read_on, time(), UTC),
                    workload=row.workload,
                    parameters=row.parameters,
                    figures={} if row.defect else _figures(seconds),
                    target=f"{instance_type}, {OTHERS}",
                    device=device,
                    machine={"instance_type": instance_type},
                    reason=row.defect and DEFECTS[row.defect],
                )


def _figures(seconds: Entry) -> Row:
    return {"samples": 1, "median_seconds": SECONDS_OF_CALLS.sample(seconds)}
