"""What a row computes and on which inputs, and how its outputs are checked."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from batchmark_job.machine.fingerprint import last_level_cache_bytes
from batchmark_job.measuring.processes import input_store
from batchmark_job.result.document import Correctness
from batchmark_job.workloads.base import Implementation, Workload
from batchmark_job.workloads.tensors import Tensor, Tensors

SEED = 20261101
MOST_INPUT_SETS = 64  # judgment: more take long to make, so a larger GPU cache is evicted instead
NEARLY_RIGHT = 1000  # times the tolerance; a larger error is not one of rounding
CACHES_FILLED = 2  # filled by all input sets together, or by evicting between calls


@dataclass(frozen=True)
class Problem:
    """What one row computes: a workload with certain parameters, in a dtype and on a device."""

    workload: Workload
    parameters: Mapping[str, int]
    dtype: str
    device: str
    stored: str | None = None  # where input_store keeps the inputs
    row_seconds: float = math.inf  # that the row may take

    def implementations(self) -> list[Implementation]:
        return self.workload.implementations_for(self.device)

    def inputs(self, index: int) -> Tensors:
        """Return input set number `index` in host memory; the same index gives the same set."""
        if self.stored is not None:
            return input_store.present(self._stored_sets[index])
        return self.workload.make_inputs(self.parameters, self.dtype, SEED + index)

    @cached_property
    def _stored_sets(self) -> list[Tensors]:
        assert self.stored is not None  # noqa: S101
        return input_store.load(self.stored)

    def input_bytes(self) -> int:
        return self.workload.input_bytes(self.parameters, self.dtype)

    def bytes_to_evict(self, input_sets: int) -> int:
        """Return how many bytes to write between calls to evict a GPU's cache, or 0 to write none.

        Evicting is necessary if even MOST_INPUT_SETS input sets don't fill the cache
        CACHES_FILLED times.
        """
        if self.device != "cuda" or input_sets < MOST_INPUT_SETS:
            return 0
        wanted = CACHES_FILLED * (last_level_cache_bytes(self.device) or 0)
        return wanted if input_sets * self.input_bytes() < wanted else 0

    def check(
        self, inputs: Tensors, output: Tensor, *draw: int
    ) -> tuple[Correctness | None, str | None]:
        """Compare an output with the float64 reference.

        Args:
            draw: seeds, different for each check, for choosing the elements to compare.

        Returns:
            The error, or None if it is not finite; and what is wrong, or None if nothing is.
        """
        rng = np.random.default_rng((SEED, *draw))
        error = self.workload.relative_error(inputs, output, rng)
        if not np.isfinite(error):
            return None, f"it contains {error}"
        tolerance = self.workload.tolerance(self.dtype)
        correctness = Correctness(relative_error=error, tolerance=tolerance)
        if correctness.passed:
            return correctness, None
        return correctness, (
            f"relative error {error:.2g} exceeds the tolerance {tolerance:g} for {self.dtype}"
            f"{self.workload.about_tolerance if error < NEARLY_RIGHT * tolerance else ''}"
        )
