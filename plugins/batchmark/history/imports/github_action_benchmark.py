"""Read github-action-benchmark's history: its page's `data.js`, or its JSON file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from batchmark.history.imports.measurement import (
    Contents,
    ForeignMeasurement,
    figures_or_reason,
    from_milliseconds,
    to_seconds,
)
from batchmark.history.rows import Row

VARIABLE = "window.BENCHMARK_DATA"


def parse(document: Mapping[str, Any]) -> Contents:
    """Yield every time and rate; other units, such as bytes, are refused."""
    for suite, entries in document["entries"].items():
        for entry in entries:
            for bench in entry["benches"]:
                unit = bench["unit"]
                if to_seconds(1.0, unit) is None:
                    yield unit
                    continue
                yield ForeignMeasurement(
                    commit=entry["commit"]["id"],
                    recorded_at=from_milliseconds(entry["date"]),
                    workload=f"{suite}/{bench['name']}",
                    parameters={},
                    **figures_or_reason(_figures, bench),
                )


def _figures(bench: Mapping[str, Any]) -> Row:
    return {"median_seconds": to_seconds(float(bench["value"]), bench["unit"])}
