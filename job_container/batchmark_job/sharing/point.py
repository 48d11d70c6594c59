"""The rows of the suite `sharing`: how many tasks share the device, and how they share it."""

from __future__ import annotations

from dataclasses import dataclass

from batchmark_job.result.sharing import Disturbance, SharingMode
from batchmark_job.result.sharing_options import Form, SharingOptions

REPLICAS_OF_EXPERIMENT = 5  # at most: the disturbing one, and enough others to observe
SLOW_CALLS = 10  # times slower than the others' steps


@dataclass(frozen=True)
class MpsLimits:
    """MPS limits per client; None means no limit."""

    thread_percentage: int | None = None
    memory_mib: int | None = None

    def parameters(self) -> dict[str, int]:
        both = {"mps_threads": self.thread_percentage, "mps_memory_mib": self.memory_mib}
        return {name: value for name, value in both.items() if value is not None}

    @property
    def memory_bytes(self) -> int | None:
        return self.memory_mib and self.memory_mib * 2**20


@dataclass(frozen=True)
class SharingPoint:
    mode: SharingMode
    replicas: int
    disturbance: Disturbance | None = None
    form: Form = "processes"
    limits: MpsLimits = MpsLimits()

    def parameters(self) -> dict[str, str | int]:
        """Return the parameters that distinguish rows, omitting a default form or disturbance."""
        named: dict[str, str | int] = {"mode": self.mode.value, "replicas": self.replicas}
        if self.form != "processes":
            named["form"] = self.form
        if self.disturbance:
            named["disturbance"] = self.disturbance.value
        if self.mode is SharingMode.MPS:
            named |= self.limits.parameters()
        return named


def sharing_points(options: SharingOptions) -> list[SharingPoint]:
    """Return a point for each replica count and mode, followed by the disturbance experiments."""
    limits = MpsLimits(options.mps_threads, options.mps_memory_mib)
    points = [
        SharingPoint(mode, replicas, None, options.form, limits)
        for replicas in options.replicas
        for mode in options.modes
    ]
    # More replicas than this tell an experiment nothing new.
    fitting = [each for each in options.replicas if 2 <= each <= REPLICAS_OF_EXPERIMENT]
    replicas = max(fitting, default=REPLICAS_OF_EXPERIMENT)
    experiments = [
        SharingPoint(mode, replicas, disturbance, options.form, limits)
        for disturbance in options.disturbances
        for mode in options.modes
        if mode is not SharingMode.EXCLUSIVE  # no other replica to observe
    ]
    return points + experiments
