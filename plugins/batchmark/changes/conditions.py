"""The conditions that a target's jobs ran under, and how they differ between two runs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from statistics import median
from typing import Any, Final, TypeAlias

from batchmark.changes.metric import Metric
from batchmark.changes.records import Cause, ChangePoint, SeriesKey
from batchmark.core import formatting
from batchmark.core.run import CONFIRMATION
from batchmark.core.version import Version
from batchmark_job.result.document import Device

# The history's columns and their names in a cause, the likeliest cause first.
PROPERTIES: Final = {
    "commit": "commit",
    "label": "label",
    "branch": "branch",
    "image_digest": "image digest",
    "image": "image",
    "driver_version": "driver version",
    "cuda_version": "CUDA version",
    "torch_version": "torch version",
    "ami_id": "AMI",
    "gpu_application_clock_hz": "GPU application clock",
    "gpu_daemons": "GPU daemons of the host",
    "kernel": "kernel",
    "instance_type": "instance type",
    "cpu_model": "CPU model",
    "gpu_model": "GPU model",
    "implementation": "implementation",
    "code_version": "code version",
    "python_version": "Python version",
    "root_volume": "root volume",
    "compute_environment": "compute environment",
    "purchase_option": "purchase option",
    "region": "region",
    "price_usd_per_hour": "price",
}
# Redundant for a user's own job whose image name in the definition already shows the change.
SAID_BY_IMAGE = {"image_digest", "implementation"}
# Null means "none" here, as on a CPU target; elsewhere it means "unknown".
NONE_IS_A_VALUE = {"driver_version", "cuda_version", "gpu_model"}
# Without the number of threads, which each job chooses anew and which may flip between near equals.
OF_A_ROW = ("implementation_name", "implementation_version")
OF_A_JOB = tuple(name for name in PROPERTIES if name != "implementation")
IN_WORDS: Mapping[str, Callable[[float], str]] = {
    "gpu_application_clock_hz": lambda hertz: f"{hertz / 1e6:g} MHz",
    "price_usd_per_hour": formatting.usd_per_hour,
}
# Columns of the history that `run_conditions` reads.
COLUMNS = (
    *("run_id", "target", "recorded_at", "purpose", "requested_device", "actual_device"),
    *("workload", "parameters", "dtype"),
    *OF_A_JOB,
    *OF_A_ROW,
)


@dataclass(frozen=True)
class RunConditions:
    """The recorded conditions that a target's jobs ran under in one run."""

    recorded_at: datetime
    fell_back: bool = False  # a job of a GPU target ran on the CPU
    # All values that the jobs had, by column of OF_A_JOB; none of what was not recorded.
    of_jobs: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    implementation: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # by row

    @property
    def usd_per_hour(self) -> float | None:
        prices = self.of_jobs.get("price_usd_per_hour")
        return median(prices) if prices else None

    @property
    def version(self) -> Version:
        """The measured version, with only the fields on which the jobs agree."""
        return Version.agreed(self.of_jobs)

    def values(self, name: str, row: str = "") -> tuple[str, ...]:
        """Return the values of one of `PROPERTIES` as text; `row` is a name from `row_name`."""
        if name == "implementation":
            return self.implementation.get(row, ())
        return tuple(map(IN_WORDS.get(name, str), self.of_jobs.get(name, ())))


RunTargets: TypeAlias = Mapping[tuple[str, str], RunConditions]  # by run id and target


def row_name(series: SeriesKey) -> str:
    """Return a name that is unique among a target's rows."""
    return _row_name(series.workload, series.parameters, series.dtype)


def _row_name(workload: str | None, parameters: str | None, dtype: str | None) -> str:
    return f"{workload} {parameters} {dtype}"


def run_conditions(rows: Iterable[Mapping[str, Any]]) -> dict[tuple[str, str], RunConditions]:
    """Collect conditions by run ID and target, leaving out those of fresh jobs.

    `rows` come from the history and have its `COLUMNS`; any value can be missing.
    """
    groups: dict[tuple[str, str], list[Mapping[str, Any]]] = defaultdict(list)
    for row in rows:
        if row.get("purpose") != CONFIRMATION:
            groups[row["run_id"], row["target"]].append(row)
    return {key: _collect(group) for key, group in groups.items()}


def differences(before: RunConditions, after: RunConditions, row: str) -> Iterator[Cause]:
    """Yield the properties that are known in both runs and differ, likeliest cause first.

    Spot prices are not compared with each other, as they change all the time.
    """
    spot = before.values("purchase_option") == after.values("purchase_option") == ("spot",)
    images = before.values("image"), after.values("image")
    renamed = all(images) and images[0] != images[1]
    for name, plain in PROPERTIES.items():
        old, new = before.values(name, row), after.values(name, row)
        known = (old and new) or name in NONE_IS_A_VALUE
        if old == new or not known or (name == "price_usd_per_hour" and spot):
            continue
        if renamed and name in SAID_BY_IMAGE:
            continue
        yield Cause(name=plain, before=", ".join(old) or None, after=", ".join(new) or None)


def versions(point: ChangePoint, runs: RunTargets) -> tuple[Version, Version]:
    """Return the versions measured by the last run before a change and the first run after it.

    Prices have no version.
    """
    target = point.series.target
    before, after = (runs.get((run, target)) for run in (point.last_run_id, point.first_run_id))
    if point.metric == Metric.PRICE or before is None or after is None:
        return Version(), Version()
    return before.version, after.version


def _collect(rows: list[Mapping[str, Any]]) -> RunConditions:
    return RunConditions(
        recorded_at=min(_aware(row["recorded_at"]) for row in rows),
        fell_back=any(
            row.get("requested_device") == Device.CUDA and row.get("actual_device") == Device.CPU
            for row in rows
        ),
        of_jobs={
            name: tuple(sorted({value for row in rows if (value := row.get(name)) is not None}))
            for name in OF_A_JOB
        },
        implementation=_implementations(rows),
    )


def _implementations(rows: Iterable[Mapping[str, Any]]) -> dict[str, tuple[str, ...]]:
    found: dict[str, set[str]] = defaultdict(set)
    for row in rows:
        name, version = (row.get(column) for column in OF_A_ROW)
        if name:
            of_row = _row_name(row["workload"], row["parameters"], row["dtype"])
            found[of_row].add(f"{name} {version}")
    return {row: tuple(sorted(texts)) for row, texts in found.items()}


def _aware(moment: datetime) -> datetime:
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
