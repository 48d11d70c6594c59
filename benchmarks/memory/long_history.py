"""Measures the memory that the detector needs to read a history of 1,000,000 rows.

The history has runs of 200 rows each, dictionary-encoded as on AWS, in a folder that stands in for
the bucket. A separate process then reads the columns that the detector needs, and builds the
series.

Exits with 1 unless that process stays below 500 MB. Takes about a minute.
"""

from __future__ import annotations

import argparse
import json
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import boto3  # imported because its memory counts wherever the history is read
import numpy as np
import pyarrow as pa

from batchmark.history.columns import SCHEMA, STRING
from batchmark.history.parquet import FileLocation, encode
from batchmark.history.rows import time_columns
from batchmark.history.series import COLUMNS, series_histories
from batchmark.history.store import HistoryStore
from benchmarks.synthetic import this_machine

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "build" / "bench-history"
CLAIMED_MB = 500  # judgment: a worker runs other tasks, too
SUITE = "blog"
TARGETS, POINTS = 5, 40
FIRST, INTERVAL = datetime(2026, 1, 1, tzinfo=UTC), timedelta(hours=2)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--runs", type=int, default=5000, help="number of runs, each with 200 rows (default: 5000)"
    )
    parser.add_argument("--read", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.read:
        print(json.dumps(read()))
        return 0
    write(arguments.runs)
    command = [sys.executable, "-m", "benchmarks.memory.long_history", "--read"]
    ended = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    found = json.loads(ended.stdout)
    print(
        f"{found['rows']:,} rows from {arguments.runs:,} files, {len(COLUMNS)} of {len(SCHEMA)} "
        f"columns: read in {found['read_seconds']:.1f} s, peak {found['read_mb']:.0f} MB; "
        f"{found['series']:,} series in another {found['series_seconds']:.1f} s, peak "
        f"{found['peak_mb']:.0f} MB"
    )
    print(f"{this_machine()}, pyarrow {pa.__version__}; 1 MB is 10^6 bytes of resident memory")
    if found["peak_mb"] >= CLAIMED_MB:
        print(f"TARGET MISSED: peak memory is not below {CLAIMED_MB} MB")
        return 1
    return 0


class Bucket:
    """A stand-in for the S3 client, backed by a folder, with the calls that HistoryStore makes."""

    exceptions = SimpleNamespace(NoSuchKey=FileNotFoundError)

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def get_object(self, *, Bucket: str, Key: str) -> dict[str, Any]:  # noqa: ARG002, N803
        path = self.folder / Key
        return {"Body": path.open("rb"), "ContentLength": path.stat().st_size}

    def get_paginator(self, _operation: str) -> Bucket:
        return self

    def paginate(self, *, Prefix: str, Delimiter: str = "", **_: object) -> Iterator[Any]:  # noqa: N803
        if Delimiter:
            found = (path.relative_to(self.folder) for path in self.folder.glob(f"{Prefix}*"))
            yield {"CommonPrefixes": [{"Prefix": f"{path}/"} for path in sorted(found)]}
            return
        paths = sorted((self.folder / Prefix).rglob("*.parquet"))
        yield {
            "Contents": [
                {"Key": str(path.relative_to(self.folder)), "ETag": str(path.stat().st_mtime_ns)}
                for path in paths
            ]
        }

    def put_object(self, *, Bucket: str, Key: str, Body: bytes, **_: object) -> None:  # noqa: ARG002, N803
        path = self.folder / Key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(Body)


def write(runs: int, folder: Path = FOLDER, targets: int = TARGETS, points: int = POINTS) -> None:
    """Write a history of `runs` runs, each with a row per target and point."""
    shutil.rmtree(folder, ignore_errors=True)
    rng = np.random.default_rng(1)
    target, point = np.divmod(np.arange(targets * points), points)
    constant = {name: pa.array(texts(name, target, point)) for name in names_of(STRING)}
    for run in range(runs):
        recorded = time_columns(FIRST + run * INTERVAL)
        run_id = f"scheduled__{recorded['recorded_at'].isoformat()}+00:00"
        of_run = {
            "run_id": [run_id] * target.size,
            "job_id": [f"{run:08x}-{number:04x}-4000-8000-000000000000" for number in target],
            "raw_key": [
                f"raw/{run_id}/g{number}.xlarge/{SUITE}/1/{run}.1.json" for number in target
            ],
            "recorded_at": [recorded["recorded_at"]] * target.size,
        }
        columns = [
            pa.array(column_of(field, of_run, constant, rng, target.size), field.type)
            for field in SCHEMA
        ]
        body = encode(pa.table(columns, schema=SCHEMA))
        path = folder / FileLocation(SUITE, recorded["month"], f"run-{run:06}").key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(body)


def names_of(kind: pa.DataType) -> list[str]:
    return [field.name for field in SCHEMA if field.type == kind]


def texts(name: str, target: Any, point: Any) -> list[str]:
    """Return a text column with about as many distinct values as a real history has."""
    fixed = {"status": "measured", "purpose": "scheduled", "purchase_option": "spot"}
    if name in fixed:
        return [fixed[name]] * len(target)
    if name in ("actual_device", "requested_device"):
        return ["cuda" if number < 2 else "cpu" for number in target]
    if name == "parameters":
        return [f'{{"size":{1000 * (1 + number % 8)}}}' for number in point]
    if name == "workload":
        return [f"workload_{number // 8}" for number in point]
    return [f"{name} {number}.xlarge" for number in target]


def column_of(
    field: pa.Field, of_run: Mapping[str, Any], constant: Mapping[str, Any], rng: Any, rows: int
) -> Any:
    if field.name in of_run:
        return of_run[field.name]
    if field.name in constant:
        return constant[field.name]
    if field.type == pa.float64():
        return rng.gamma(2, 0.01, rows)
    return rng.integers(0, 2, rows)


def read() -> dict[str, float]:
    boto3.client("s3", region_name="us-east-1")
    before_mb, began = peak_mb(), time.perf_counter()
    table = HistoryStore(Bucket(FOLDER), "results").read(COLUMNS)
    found: dict[str, float] = {
        "rows": table.num_rows,
        "read_seconds": time.perf_counter() - began,
        "read_mb": with_forked_mb(before_mb),
    }
    began = time.perf_counter()
    found["series"] = len(series_histories(table, "time"))
    found["series_seconds"] = time.perf_counter() - began
    return found | {"peak_mb": with_forked_mb(before_mb)}


def peak_mb() -> float:
    """Return this process's peak resident memory so far, in MB of 10^6 bytes."""
    status = Path("/proc/self/status")  # on Linux, ru_maxrss includes the parent's peak
    if status.exists():
        (line,) = (text for text in status.read_text().splitlines() if text.startswith("VmHWM:"))
        return int(line.split()[1]) * 1024 / 1e6
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6  # in bytes on macOS


def with_forked_mb(before_mb: float) -> float:
    """Return an upper bound on the peak memory of this process plus its largest forked process.

    Forked processes share the memory that existed before the fork; `before_mb` is this process's
    peak until then. Only forked processes that have ended are counted.
    """
    forked = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024 / 1e6  # Linux only
    return peak_mb() + max(0.0, forked - before_mb)


if __name__ == "__main__":
    sys.exit(main())
