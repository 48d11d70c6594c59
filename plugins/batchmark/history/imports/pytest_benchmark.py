"""Read pytest-benchmark's JSON, as `pytest --benchmark-json` writes it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from batchmark.history.imports.measurement import (
    UNKNOWN,
    Contents,
    ForeignMeasurement,
    figures_or_reason,
    sample_figures,
    to_seconds,
)
from batchmark.history.rows import Row


def parse(document: Mapping[str, Any]) -> Contents:
    """Yield every benchmark; their only unit is seconds."""
    recorded_at = datetime.fromisoformat(document["datetime"])
    if recorded_at.tzinfo is None:  # old releases wrote UTC without saying so
        recorded_at = recorded_at.replace(tzinfo=UTC)
    commit = (document.get("commit_info") or {}).get("id")
    machine = _machine(document["machine_info"])
    for benchmark in document["benchmarks"]:
        name, parameters = benchmark["fullname"], benchmark.get("params") or {}
        yield ForeignMeasurement(
            commit=None if commit == "unversioned" else commit,
            recorded_at=recorded_at,
            workload=name.removesuffix(f"[{benchmark.get('param')}]") if parameters else name,
            parameters=parameters,
            machine=machine,
            **figures_or_reason(_figures, benchmark["stats"], name),
        )


def _machine(info: Mapping[str, Any]) -> Row:
    cpu = info.get("cpu") or {}
    return {
        "cpu_model": cpu.get("brand_raw") or cpu.get("brand") or UNKNOWN,
        "cpu_threads": cpu.get("count"),
        "python_version": info.get("python_version"),
        "kernel": " ".join(filter(None, (info.get("system"), info.get("release")))) or None,
    }


def _figures(stats: Mapping[str, Any], name: str) -> Row:
    if samples := stats.get("data"):
        return sample_figures(samples, name)
    median = to_seconds(stats["median"], "s")
    return {
        "samples": stats["rounds"],
        "median_seconds": median,
        "min_seconds": stats["min"],
        "p25_seconds": stats["q1"],
        "p75_seconds": stats["q3"],
        "max_seconds": stats["max"],
        "relative_spread": (stats["q3"] - stats["q1"]) / median if stats["rounds"] >= 4 else None,
    }
