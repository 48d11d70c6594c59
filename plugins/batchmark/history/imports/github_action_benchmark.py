"""Read github-action-benchmark's history: its page's `data.js`, or its JSON file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from batchmark.history.imports.measurement import (
    ForeignMeasurement,
    Parsed,
    figures_or_reason,
    from_milliseconds,
    to_seconds,
)
from batchmark.history.rows import Row

VARIABLE = "window.BENCHMARK_DATA"


def parse(document: Mapping[str, Any]) -> Parsed:
    """Return every time and rate; other units, such as bytes, are refused."""
    measurements: list[ForeignMeasurement] = []
    refused: Counter[str] = Counter()
    for suite, entries in document["entries"].items():
        for entry in entries:
            for bench in entry["benches"]:
                unit = bench["unit"]
                if to_seconds(1.0, unit) is None:
                    refused[unit] += 1
                    continue
                figures, reason = figures_or_reason(_figures, bench)
                measurements.append(
                    ForeignMeasurement(
                        commit=entry["commit"]["id"],
                        recorded_at=from_milliseconds(entry["date"]),
                        workload=f"{suite}/{bench['name']}",
                        parameters={},
                        figures=figures,
                        reason=reason,
                    )
                )
    return Parsed(measurements, refused)


def _figures(bench: Mapping[str, Any]) -> Row:
    return {"median_seconds": to_seconds(float(bench["value"]), bench["unit"])}
