"""Measures the device's peak rates for large matrix products and for copying and reading memory."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor

from batchmark_job.errors import warn
from batchmark_job.machine import fingerprint, memory
from batchmark_job.measuring.samples.sampling import Timer, timer_for
from batchmark_job.result.document import Ceiling
from batchmark_job.workloads.base import DTYPE_BYTES
from batchmark_job.workloads.support import torch_calls

MEMORY_SHARE = 0.25  # share of the available memory that one measurement may use
CACHES_FILLED = 2  # each side of a copy on the CPU; any GPU's cache is small beside Bounds
ROUNDS = 3  # at least


class Bounds(NamedTuple):
    """Approximate duration and size limits for each ceiling's measurement."""

    seconds: float
    smallest_product: int
    largest_product: int
    copy_bytes: int  # of each side


BOUNDS = {
    "cpu": Bounds(1.0, 1024, 8192, 128 * 2**20),
    "cuda": Bounds(0.5, 2048, 16384, 512 * 2**20),
}


def measure_ceilings(
    device: str, dtypes: Iterable[str], bounds: Bounds | None = None
) -> tuple[Ceiling, ...]:
    """Measure peak rates for a copy, a read and, for each dtype, a matrix product.

    A copy counts the bytes read plus the bytes written, but not the cache lines that a CPU reads
    before it writes them. A product of n × n matrices counts as 2 n³ operations. A dtype
    without native arithmetic has no ceiling. A measurement that fails is left out with a warning.
    """
    bounds = bounds or BOUNDS[device]
    measures = {
        "copy": partial(_copy_ceiling, device, bounds),
        "read": partial(_read_ceiling, device, bounds),
    }
    for dtype in dtypes:
        if dtype in DTYPE_BYTES and torch_calls.native_refusal(device, dtype) is None:
            measures[dtype] = partial(_compute_ceiling, device, bounds, dtype)
    ceilings = []
    for name, measure in measures.items():
        try:
            ceilings.append(measure())
        except Exception as error:
            warn(f"could not measure the peak {name} rate: {memory.describe_error(error)}")
    return tuple(ceilings)


def _copy_ceiling(device: str, bounds: Bounds) -> Ceiling:
    source = _larger_than_the_cache(device, bounds, sides=2)
    target = torch.empty_like(source)
    calls = {"torch copy_": partial(target.copy_, source)}
    return _bandwidth("copy", device, bounds, calls, np.copyto, target, source)


def _read_ceiling(device: str, bounds: Bounds) -> Ceiling:
    source = _larger_than_the_cache(device, bounds, sides=1)
    return _bandwidth("read", device, bounds, {"torch sum": source.sum}, np.max, source)


def _bandwidth(
    kind: Literal["copy", "read"],
    device: str,
    bounds: Bounds,
    calls: Mapping[str, Callable[[], Any]],
    by_numpy: Callable[..., Any],
    *sides: Tensor,
) -> Ceiling:
    """Measure the rate of the fastest call; on the CPU, NumPy on all threads competes as well."""
    threads = torch_calls.threads()
    with ThreadPoolExecutor(threads) as pool:
        if device == "cpu":
            parts = [np.array_split(side.numpy(), threads) for side in sides]
            name = f"numpy.{by_numpy.__name__} in {threads} threads"
            calls = {**calls, name: lambda: list(pool.map(by_numpy, *parts))}
        took, name = _fastest(calls, timer_for(device), bounds.seconds)
    return Ceiling(
        kind=kind,
        dtype=None,
        rate_per_second=sum(side.nbytes for side in sides) / took,
        description=f"{name} of {sides[0].nbytes / 2**20:.0f} MiB",
    )


def _larger_than_the_cache(device: str, bounds: Bounds, *, sides: int) -> Tensor:
    """Return a tensor of ones that is larger than the cache; memory can hold `sides` of them.

    Zeros would not do: all their pages could be the same physical page.

    Raises:
        MemoryError: there is no room for data larger than the cache.
    """
    cache_bytes = (fingerprint.last_level_cache_bytes() or 0) if device == "cpu" else 0
    side_bytes = max(bounds.copy_bytes, CACHES_FILLED * cache_bytes)
    while not _has_room(sides * side_bytes, device):
        side_bytes //= 2
    if side_bytes < cache_bytes:
        raise MemoryError("there is not enough memory for data larger than the cache")
    return torch.ones(side_bytes // 4, device=device)


def _compute_ceiling(device: str, bounds: Bounds, dtype: str) -> Ceiling:
    """Measure ever larger products as time and memory allow; the last gets the remaining time."""
    ends = time.perf_counter() + bounds.seconds
    timer = timer_for(device)
    rates: dict[str, float] = {}
    size = bounds.smallest_product
    while not _has_room(_product_bytes(size, dtype), device):
        size //= 2
    with torch_calls.precision(dtype):
        while True:
            products = _products(size, device, dtype)
            took, name = _fastest(products, timer)
            left = ends - time.perf_counter()
            larger = 2 * size
            last = (
                larger > bounds.largest_product
                or not _has_room(_product_bytes(larger, dtype), device)
                or 8 * took * ROUNDS * len(products) > left
            )
            if last and left > 0:
                took, name = min((took, name), _fastest(products, timer, left))
            rates[f"{name} of {size} x {size}"] = 2 * size**3 / took
            if last:
                break
            size = larger
    best = max(rates, key=lambda description: rates[description])
    return Ceiling(kind="compute", dtype=dtype, rate_per_second=rates[best], description=best)


def _products(size: int, device: str, dtype: str) -> dict[str, Callable[[], Any]]:
    left, right, product = (
        torch.empty((size, size), dtype=torch_calls.torch_dtype(dtype), device=device)
        for _ in range(3)
    )
    for factor in (left, right):
        factor.uniform_(-1.0, 1.0)  # zeros would draw less power on a GPU, and so run faster
    calls: dict[str, Callable[[], Any]] = {"torch.mm": lambda: torch.mm(left, right, out=product)}
    if device == "cpu" and dtype in {"float32", "float64"}:
        arrays = [tensor.numpy() for tensor in (left, right, product)]
        calls["numpy.matmul"] = lambda: np.matmul(*arrays)
    return calls


def _product_bytes(size: int, dtype: str) -> int:
    return 3 * size**2 * DTYPE_BYTES[dtype]


def _has_room(needed_bytes: int, device: str) -> bool:
    return memory.has_room(math.ceil(needed_bytes / MEMORY_SHARE), device)


def _fastest(
    calls: Mapping[str, Callable[[], Any]], timer: Timer, seconds: float = 0.0
) -> tuple[float, str]:
    """Return the shortest time taken by any call, and that call's name.

    Each call runs at least ROUNDS times, and all together for at least `seconds`. They don't
    alternate, because one library's threads would still be spinning while the other's work.
    """
    best = (math.inf, "")
    for name, call in calls.items():
        ends = time.perf_counter() + seconds / len(calls)
        rounds = 0
        while rounds < ROUNDS or time.perf_counter() < ends:
            best = min(best, (timer.seconds(call)[0], name))
            rounds += 1
    return best
