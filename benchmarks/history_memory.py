"""Reads a history of 1,000,000 rows as the detector does, and tells how much memory that takes.

Its runs of 200 rows are encoded as those in AWS are, below a folder that stands in for the bucket.
A process of its own then reads the detector's columns and makes the series of them.

Ends with 1 unless that process stayed below 500 MB. About a minute.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from io import BytesIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import boto3  # it takes memory wherever the history is read
import numpy as np
import pyarrow as pa

from batchmark.history.columns import SCHEMA, STRING
from batchmark.history.parquet import Place, encode
from batchmark.history.rows import when
from batchmark.history.series import COLUMNS, series_histories
from batchmark.history.store import HistoryStore

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "build" / "bench-history"
CLAIMED_MB = 500
SUITE = "blog"
TARGETS, POINTS = 5, 40
FIRST, INTERVAL = datetime(2026, 1, 1, tzinfo=UTC), timedelta(hours=2)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=5000, help="of 200 rows (default: 5000)")
    parser.add_argument("--read", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.read:
        print(json.dumps(read()))
        return 0
    write(arguments.runs)
    command = [sys.executable, "-m", "benchmarks.history_memory", "--read"]
    ended = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    found = json.loads(ended.stdout)
    print(
        f"{found['rows']:,} rows of {arguments.runs:,} files, {len(COLUMNS)} of {len(SCHEMA)} "
        f"columns: read in {found['read_seconds']:.1f} s, peak {found['read_mb']:.0f} MB; "
        f"{found['series']:,} series in {found['series_seconds']:.1f} s more, peak "
        f"{found['peak_mb']:.0f} MB"
    )
    print(
        f"{platform.platform()}, {os.cpu_count()} CPUs, Python {platform.python_version()}, "
        f"pyarrow {pa.__version__}; MB are 10^6 bytes of resident memory"
    )
    if found["peak_mb"] >= CLAIMED_MB:
        print(f"MISSED: the peak is not below {CLAIMED_MB} MB")
        return 1
    return 0


class Bucket:
    """A folder that answers what HistoryStore asks a client of S3."""

    exceptions = SimpleNamespace(NoSuchKey=FileNotFoundError)

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def get_object(self, *, Bucket: str, Key: str) -> dict[str, Any]:  # noqa: ARG002, N803
        return {"Body": BytesIO((self.folder / Key).read_bytes())}

    def get_paginator(self, _operation: str) -> Bucket:
        return self

    def paginate(self, *, Prefix: str, Delimiter: str = "", **_: object) -> Iterator[Any]:  # noqa: N803
        if Delimiter:
            found = (path.relative_to(self.folder) for path in self.folder.glob(f"{Prefix}*"))
            yield {"CommonPrefixes": [{"Prefix": f"{path}/"} for path in sorted(found)]}
            return
        paths = sorted((self.folder / Prefix).rglob("*.parquet"))
        yield {"Contents": [{"Key": str(path.relative_to(self.folder))} for path in paths]}


def write(runs: int) -> None:
    """A history of so many runs, each of every target at every point."""
    shutil.rmtree(FOLDER, ignore_errors=True)
    rng = np.random.default_rng(1)
    target, point = np.divmod(np.arange(TARGETS * POINTS), POINTS)
    constant = {name: pa.array(texts(name, target, point)) for name in names_of(STRING)}
    for run in range(runs):
        recorded = when(FIRST + run * INTERVAL)
        run_id = f"scheduled__{recorded['recorded_at'].isoformat()}+00:00"
        own = {
            "run_id": [run_id] * target.size,
            "job_id": [f"{run:08x}-{one:04x}-4000-8000-000000000000" for one in target],
            "raw_key": [f"raw/{run_id}/g{one}.xlarge/{SUITE}/1/{run}.1.json" for one in target],
            "recorded_at": [recorded["recorded_at"]] * target.size,
        }
        columns = [
            pa.array(column_of(field, own, constant, rng, target.size), field.type)
            for field in SCHEMA
        ]
        body = encode(pa.table(columns, schema=SCHEMA))
        path = FOLDER / Place(SUITE, recorded["month"], f"run-{run:06}").key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(body)


def names_of(kind: pa.DataType) -> list[str]:
    return [field.name for field in SCHEMA if field.type == kind]


def texts(name: str, target: Any, point: Any) -> list[str]:
    """A text column as it looks in the history, as far as that matters here."""
    fixed = {"status": "measured", "purpose": "scheduled", "purchase_option": "spot"}
    if name in fixed:
        return [fixed[name]] * len(target)
    if name in ("actual_device", "requested_device"):
        return ["cuda" if one < 2 else "cpu" for one in target]
    if name == "parameters":
        return [f'{{"size":{1000 * (1 + one % 8)}}}' for one in point]
    if name == "workload":
        return [f"workload_{one // 8}" for one in point]
    return [f"{name} {one}.xlarge" for one in target]


def column_of(
    field: pa.Field, own: Mapping[str, Any], constant: Mapping[str, Any], rng: Any, rows: int
) -> Any:
    if field.name in own:
        return own[field.name]
    if field.name in constant:
        return constant[field.name]
    if field.type == pa.float64():
        return rng.gamma(2, 0.01, rows)
    return rng.integers(0, 2, rows)


def read() -> dict[str, float]:
    boto3.client("s3", region_name="us-east-1")
    began = time.perf_counter()
    table = HistoryStore(Bucket(FOLDER), "results").read(COLUMNS)
    found: dict[str, float] = {
        "rows": table.num_rows,
        "read_seconds": time.perf_counter() - began,
        "read_mb": peak_mb(),
    }
    began = time.perf_counter()
    found["series"] = len(series_histories(table, "time"))
    found["series_seconds"] = time.perf_counter() - began
    return found | {"peak_mb": peak_mb()}


def peak_mb() -> float:
    """Most resident memory of this process so far; Linux counts its parent's in ru_maxrss, too."""
    status = Path("/proc/self/status")
    if status.exists():
        (line,) = [one for one in status.read_text().splitlines() if one.startswith("VmHWM:")]
        return int(line.split()[1]) * 1024 / 1e6
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6  # in bytes on macOS


if __name__ == "__main__":
    sys.exit(main())
