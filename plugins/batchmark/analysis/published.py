"""Judges a third party's published benchmark table by our rules.

Its times have two decimals and come from one run, so the interval of a speedup covers rounding and
the assumed job-to-job noise.
"""

from __future__ import annotations

import math
from datetime import date
from functools import cache
from pathlib import Path
from typing import Literal

import numpy as np
from pydantic import Field

from batchmark.analysis.judging.significance import ASSUMED, Resolution
from batchmark.analysis.pairs.answer import Winner
from batchmark.analysis.pairs.break_even import BreakEven, Curve, break_even
from batchmark.core.intervals import Estimate, Interval
from batchmark.core.prices import SECONDS_PER_HOUR, PriceTable
from batchmark.core.record import Record
from batchmark_job.result.values import Parameter

TABLE = Path(__file__).with_name("published.json")
HALF_A_CENTISECOND = 0.005  # the largest error of a time rounded to two decimals
DRAWS = 1_000  # as many as break_even.py uses
OTHERS = "published by others"
Defect = Literal["start-up", "repeated"]
WINNERS: dict[int, Winner] = {1: "gpu", -1: "cpu"}
# The ratio by which two single runs may differ if nothing else is known about them.
NOISE = math.exp(Resolution(ASSUMED, 1, ASSUMED, 1).critical_difference)


class Times(Record):
    cpu_seconds: float
    gpu_seconds: float
    speedup: float = Field(description="speedup as published")

    @property
    def ratio(self) -> Estimate:
        """CPU time / GPU time, with an interval that covers rounding and noise."""
        low, high = self.rounded
        value = self.cpu_seconds / self.gpu_seconds
        return Estimate(value=value, interval=Interval(low=low / NOISE, high=high * NOISE))

    @property
    def rounded(self) -> tuple[float, float]:
        """The range of ratios compatible with times rounded to two decimals."""
        return (
            (self.cpu_seconds - HALF_A_CENTISECOND) / (self.gpu_seconds + HALF_A_CENTISECOND),
            (self.cpu_seconds + HALF_A_CENTISECOND) / (self.gpu_seconds - HALF_A_CENTISECOND),
        )

    def winner(self, factor: float = 1.0) -> Winner:
        """Return which side leads by more than noise in time or, given a price factor, in cost."""
        low, high = (factor * end for end in self.rounded)
        return WINNERS.get((low > NOISE) - (high < 1 / NOISE), "unknown")


class PublishedRow(Times):
    workload: str
    parameters: dict[str, Parameter]
    defect: Defect | None = None

    @property
    def judged(self) -> bool:
        """Whether the row can be judged: its times measure the work and aren't another row's."""
        return self.defect is None


class PublishedTable(Record):
    name: str
    read_on: date = Field(description="date on which we copied the table, which itself has no date")
    gpu: str = Field(description="GPU instance type")
    cpu: str = Field(description="CPU instance type")
    total: Times
    rows: tuple[PublishedRow, ...]
    repeated_speedup: float = Field(description="speedup of whole jobs in a second published run")

    @property
    def run_id(self) -> str:
        """The id under which the table is listed among the runs."""
        return f"{OTHERS.replace(' ', '_')}__{self.read_on}"

    @property
    def judged(self) -> list[PublishedRow]:
        return [row for row in self.rows if row.judged]

    def price_factor(self, prices: PriceTable) -> float:
        """Return CPU price / GPU price, which converts a speedup to a cost ratio."""
        return prices.on_demand[self.cpu] / prices.on_demand[self.gpu]

    def usd(self, prices: PriceTable) -> float:
        """Return the total cost of the GPU job and the CPU job at On-Demand prices."""
        took = ((self.cpu, self.total.cpu_seconds), (self.gpu, self.total.gpu_seconds))
        return sum(one / SECONDS_PER_HOUR * prices.on_demand[name] for name, one in took)

    def matmul_crossover(self, factor: float = 1.0) -> BreakEven:
        """Find the matrix size above which the GPU leads.

        The smallest size's time includes start-up.
        """
        rows = [row for row in self.rows if row.workload == "matmul"]
        sizes = [float(row.parameters["size"]) for row in rows]
        rng = np.random.default_rng(0)

        def curve(seconds: list[float], price: float) -> Curve:
            ends = np.full((len(seconds), DRAWS), HALF_A_CENTISECOND)
            rounding = rng.uniform(-ends, ends)
            values = np.array(seconds)
            return Curve(price * values, price * (values[:, None] + rounding))

        noise = [ASSUMED.log_sd] * len(rows)
        gpu = curve([row.gpu_seconds for row in rows], 1.0).with_noise(noise, seed="gpu")
        cpu = curve([row.cpu_seconds for row in rows], factor).with_noise(noise, seed="cpu")
        signs = {"gpu": 1, "cpu": -1, "unknown": 0}
        return break_even(sizes, gpu, cpu, [signs[row.winner(factor)] for row in rows])


@cache
def published_table() -> PublishedTable:
    return PublishedTable.model_validate_json(TABLE.read_bytes())
