"""How many tasks share the device, and how: what a row of the suite asks for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from batchmark_job.errors import InputError
from batchmark_job.option_values import in_range
from batchmark_job.result.sharing import Disturbance, SharingMode

Form = Literal["processes", "jobs", "pods"]
FORMS: tuple[Form, ...] = ("processes", "jobs", "pods")
MOST_REPLICAS = 100
# Of a GPU from Volta on, with drivers up to CUDA 13.0; later ones take 60:
# https://docs.nvidia.com/deploy/mps/when-to-use-mps.html, "Client-Server Connection Limits"
MOST_MPS_CLIENTS = 48
REPLICAS = (1, 2, 5, 10, 20)
REPLICAS_OF_EXPERIMENT = 5  # at most: one that is disturbed, and enough others to suffer
SLOW_CALLS = 10  # that a step of the slow replica takes
LEAST_PERCENTAGE, MOST_PERCENTAGE = 1, 100


@dataclass(frozen=True)
class MpsLimits:
    """What the Multi-Process Service grants each client; None for all there is."""

    thread_percentage: int | None = None
    memory_mib: int | None = None

    def __post_init__(self) -> None:
        percentage = self.thread_percentage
        if percentage is not None and not LEAST_PERCENTAGE <= percentage <= MOST_PERCENTAGE:
            raise InputError(f"--mps-threads {percentage} is no percentage; give 1 to 100")
        if self.memory_mib == 0:
            raise InputError("--mps-memory 0 leaves a client nothing; give mebibytes, such as 1024")

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
        """What tells rows apart; the usual form and no disturbance are not named."""
        named: dict[str, str | int] = {"mode": self.mode.value, "replicas": self.replicas}
        if self.form != "processes":
            named["form"] = self.form
        if self.disturbance:
            named["disturbance"] = self.disturbance.value
        if self.mode is SharingMode.MPS:
            named |= self.limits.parameters()
        return named


@dataclass(frozen=True)
class SharingOptions:
    """What the command line asks for; by default all modes, and no experiment."""

    modes: Sequence[SharingMode] = tuple(SharingMode)
    replicas: Sequence[int] = REPLICAS
    disturbances: Sequence[Disturbance] = ()
    form: Form = "processes"
    limits: MpsLimits = MpsLimits()

    def points(self) -> list[SharingPoint]:
        """The curves' points, then the experiments'.

        Raises:
            InputError: they contradict each other.
        """
        for replicas in self.replicas:
            in_range("--replicas", replicas, 1, MOST_REPLICAS)
            if SharingMode.MPS in self.modes and replicas > MOST_MPS_CLIENTS:
                raise InputError(
                    f"--replicas {replicas} is more than the {MOST_MPS_CLIENTS} clients that MPS "
                    f"takes on a GPU; give 1 to {MOST_MPS_CLIENTS}, or leave mps out of --modes"
                )
        if self.limits.parameters() and SharingMode.MPS not in self.modes:
            raise InputError(
                "--mps-threads and --mps-memory go with mode mps; --modes is "
                f"{','.join(self.modes)}"
            )
        if self.form != "processes":
            self._check_apart()
        points = [
            SharingPoint(mode, replicas, None, self.form, self.limits)
            for replicas in self.replicas
            for mode in self.modes
        ]
        experiments = [
            SharingPoint(mode, self._replicas_of_experiment(), disturbance, self.form, self.limits)
            for disturbance in self.disturbances
            for mode in self.modes
            if mode is not SharingMode.EXCLUSIVE  # nobody else is there to suffer
        ]
        return points + experiments

    def _check_apart(self) -> None:
        apart = {SharingMode.TIME_SLICING, SharingMode.MPS}
        if len(self.modes) != 1 or self.modes[0] not in apart:
            raise InputError(
                f"--form {self.form} has one mode, time_slicing or mps; --modes is "
                f"{','.join(self.modes)}"
            )
        if len(self.replicas) != 1:
            raise InputError(
                f"--form {self.form} has one number of replicas, that of its {self.form}; "
                f"--replicas is {','.join(map(str, self.replicas))}"
            )
        if self.disturbances:
            raise InputError(f"--disturbances go with --form processes, not with {self.form}")

    def _replicas_of_experiment(self) -> int:
        """The most that are asked for, as far as an experiment has use for them."""
        fitting = [each for each in self.replicas if 2 <= each <= REPLICAS_OF_EXPERIMENT]
        return max(fitting, default=REPLICAS_OF_EXPERIMENT)
