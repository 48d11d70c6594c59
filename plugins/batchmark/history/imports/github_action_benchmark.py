"""github-action-benchmark's history: `data.js` of its page, or the JSON file it keeps instead."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from batchmark.history.imports.measurement import ForeignMeasurement, Parsed, moment_of
from batchmark.history.imports.units import to_seconds

if TYPE_CHECKING:
    from collections.abc import Mapping

    from batchmark.history.rows import Row

VARIABLE = "window.BENCHMARK_DATA"


def parse(document: Mapping[str, Any]) -> Parsed:
    """Every time and rate; other units, such as bytes, are refused."""
    measurements: list[ForeignMeasurement] = []
    refused: Counter[str] = Counter()
    for suite, entries in document["entries"].items():
        for entry in entries:
            for bench in entry["benches"]:
                unit = bench["unit"]
                if to_seconds(1.0, unit) is None:
                    refused[unit] += 1
                    continue
                figures: Row = {}
                reason = None
                try:
                    figures = {"median_seconds": to_seconds(float(bench["value"]), unit)}
                except ValueError as error:
                    reason = str(error)
                measurements.append(
                    ForeignMeasurement(
                        commit=entry["commit"]["id"],
                        recorded_at=moment_of(entry["date"]),
                        workload=f"{suite}/{bench['name']}",
                        parameters={},
                        figures=figures,
                        reason=reason,
                    )
                )
    return Parsed(measurements, refused)
