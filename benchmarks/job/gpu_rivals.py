"""Compares our GPU rows with plain library calls and with the measured copy bandwidth.

Matrix products take turns with plain torch calls, and are compared with the fastest of those.
Filters are compared with the bytes per second that a large copy reads and writes. Exits with 1 if a
row's relative speed is below its limit or can't be measured, and with 77 if there's no CUDA device.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import sys
from collections.abc import Callable, Sequence
from contextlib import closing
from datetime import UTC, datetime
from functools import cache, partial
from typing import NamedTuple

import torch
import torch.nn.functional as F  # noqa: N812

from batchmark_job.measuring import steps
from batchmark_job.measuring.ceilings import measure_ceilings
from batchmark_job.measuring.limits import RowLimits
from batchmark_job.measuring.measured_row import Bench
from batchmark_job.measuring.prepared import measuring_state
from batchmark_job.measuring.problem import SEED
from batchmark_job.measuring.processes.workers import ForkedWorkers
from batchmark_job.measuring.rows import Row
from batchmark_job.measuring.samples.sampling import CudaEventTimer
from batchmark_job.result.document import Measurement, MeasurementStatus
from batchmark_job.workloads.builtin import WORKLOADS

PRODUCT_DTYPES = ("float32", "tf32", "bfloat16", "float16")
FILTERS = ("gaussian_blur", "edge_detection")
FILTER_DTYPES = ("float32", "bfloat16", "float16")
PRODUCT_LIMIT = 0.95  # of the best plain call
FILTER_LIMIT = 0.70  # of the copy bandwidth
ROUNDS = 20  # judgment: calls per side, alternating; more steady the median but take GPU time
EXIT_SKIPPED = 77  # means skipped to automake and meson


class UnmeasuredError(Exception):
    """A row could not be measured; the message names the row and the reason."""


class RefusedError(Exception):
    """A row can't run on this GPU; the message names the row and the reason."""


class Share(NamedTuple):
    """The speed of one of our rows, relative to a plain call or a copy."""

    row: str
    implementation: str
    share: float
    of: str
    limit: float | None

    @property
    def passed(self) -> bool:
        return self.limit is None or self.share >= self.limit

    def __str__(self) -> str:
        verdict = "" if self.limit is None else f"  {'ok' if self.passed else 'BELOW'} {self.limit}"
        return f"{self.row:36} {self.implementation:34} {self.share:6.3f} of {self.of}{verdict}"


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--small",
        action="store_true",
        help="measure only small sizes, for a short time, and never fail",
    )
    parser.add_argument(
        "--seconds", type=float, default=3.0, help="time limit for each row in seconds"
    )
    asked = parser.parse_args(arguments)
    small = asked.small
    if not torch.cuda.is_available():
        print("skipped: no CUDA device")
        return EXIT_SKIPPED
    when = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, {when}")
    limits = RowLimits(max_seconds=0.1 if small else asked.seconds, processes=1 if small else 3)
    sizes = [256] if small else [4096, 8192]
    products = itertools.product(sizes, PRODUCT_DTYPES[:2] if small else PRODUCT_DTYPES)
    filters = itertools.product(FILTERS, sizes, FILTER_DTYPES[:1] if small else FILTER_DTYPES)
    # Otherwise each process would import this module's imports.
    with closing(ForkedWorkers(modules=(__spec__.name,))) as workers:
        machine = workers.run(steps.look_around, "cuda", 1 if small else 0, False)
        bench = Bench.of(machine, limits, workers)
        rows = [partial(product, bench, *row) for row in products]
        rows += [partial(image_filter, bench, *row) for row in filters]
        return 0 if print_all(rows, judging=not small) or small else 1


def print_all(rows: Sequence[Callable[[], Share]], *, judging: bool = True) -> bool:
    """Measure and print every row, even after a failure; return whether all passed."""
    passed = True
    for measure_share in rows:
        try:
            share = measure_share()
        except RefusedError as error:
            print(f"skipped {error}", flush=True)
        except UnmeasuredError as error:
            print(f"NOT MEASURED {error}", flush=True)
            passed = False
        else:
            share = share if judging else share._replace(limit=None)
            print(share, flush=True)
            passed = passed and share.passed
    return passed


def product(bench: Bench, size: int, dtype: str) -> Share:
    measured = measured_row("matmul", {"size": size}, dtype, bench)
    with measuring_state(WORKLOADS["matmul"], dtype):
        ours, plain, name = against_plain_calls(measured)
    return Share(row_name(measured), library(measured), plain / ours, name, PRODUCT_LIMIT)


def against_plain_calls(measured: Measurement) -> tuple[float, float, str]:
    """Return our call's and the fastest plain call's median seconds, and the latter's name."""
    workload = WORKLOADS["matmul"]
    rival = next(
        rival for rival in workload.implementations_for("cuda") if rival.name == library(measured)
    )
    left, right = (
        tensor.cuda() for tensor in workload.make_inputs(measured.parameters, measured.dtype, SEED)
    )
    product = torch.empty_like(left)
    turned = right.t().contiguous()
    ours = rival.prepare((left, right))
    calls: dict[str, Callable[[], object]] = {
        "ours": ours,
        "torch.mm": lambda: torch.mm(left, right),
        "torch.mm into a given matrix": lambda: torch.mm(left, right, out=product),
        "torch.nn.functional.linear": lambda: F.linear(left, turned),
    }
    timer = CudaEventTimer()
    for call in calls.values():
        timer.seconds(call)
    rounds = [{name: timer.seconds(call)[0] for name, call in calls.items()} for _ in range(ROUNDS)]
    medians = {name: statistics.median(turn[name] for turn in rounds) for name in calls}
    seconds = medians.pop("ours")
    fastest = min(medians, key=lambda name: medians[name])
    return seconds, medians[fastest], fastest


def image_filter(bench: Bench, name: str, size: int, dtype: str) -> Share:
    copy = copy_rate()
    measured = measured_row(name, {"size": size, "batch": 1}, dtype, bench)
    rate = (measured.bytes_moved or 0) / statistics.median(measured.samples_seconds)
    limit = FILTER_LIMIT if dtype == "float32" else None
    held_against = f"a copy's {copy / 1e9:.0f} GB/s"
    return Share(row_name(measured), library(measured), rate / copy, held_against, limit)


@cache
def copy_rate() -> float:
    """Return the bytes per second that a large copy reads and writes."""
    ceilings = measure_ceilings("cuda", [])
    if not ceilings:
        raise UnmeasuredError(
            "can't judge a filter, because the copy bandwidth was not measured; see the warning "
            "above"
        )
    return ceilings[0].rate_per_second


def measured_row(name: str, parameters: dict[str, int], dtype: str, bench: Bench) -> Measurement:
    measured = Row(WORKLOADS[name], parameters, dtype).measure(bench)
    if measured.status is MeasurementStatus.SKIPPED:
        raise RefusedError(f"{row_name(measured)}: {measured.reason}")
    if measured.status is not MeasurementStatus.MEASURED:
        raise UnmeasuredError(f"{row_name(measured)}: {measured.status}: {measured.reason}")
    return measured


def row_name(measured: Measurement) -> str:
    return f"{measured.workload} {measured.parameters['size']} {measured.dtype}"


def library(measured: Measurement) -> str:
    assert measured.implementation is not None  # noqa: S101
    return measured.implementation.name


if __name__ == "__main__":
    sys.exit(main())
