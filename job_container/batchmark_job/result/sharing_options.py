"""Options for runs of the suite `sharing` and for their jobs."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Annotated, Literal

from pydantic import Field

from batchmark_job.result.options import Options, Whole, option
from batchmark_job.result.sharing import Disturbance, SharingMode
from batchmark_job.result.values import IN_A_LINE, Line

Form = Literal["processes", "jobs", "pods"]
MOST_REPLICAS = 100  # as many as a document holds (result/sharing.py)
# Limit of a GPU from Volta on, with drivers up to CUDA 13.0; later drivers take 60:
# https://docs.nvidia.com/deploy/mps/when-to-use-mps.html, "Client-Server Connection Limits"
MOST_MPS_CLIENTS = 48
Replicas = Annotated[Whole, Field(ge=1, le=MOST_REPLICAS)]
SHARING_SECTION = "How it shares"
# The options by section of the form.
_of_task, _of_sharing = (partial(option, section=name) for name in ("The task", SHARING_SECTION))
SAYS_OF_MODES = {
    SharingMode.EXCLUSIVE: "one task after the other, each alone",
    SharingMode.TIME_SLICING: "processes at once, as the driver schedules them",
    SharingMode.MPS: "processes at once through NVIDIA's Multi-Process Service; GPU only",
    SharingMode.STREAMS: "threads of one process, each on its own CUDA stream; GPU only",
}
SAYS_OF_DISTURBANCES = {
    Disturbance.OUT_OF_MEMORY: "allocates memory until none is left",
    Disturbance.CRASH: "crashes",
    Disturbance.HANG: "hangs",
    Disturbance.SLOW: "makes steps ten times as long",
}


class SharingOptions(Options):
    """The task that runs as replicas on one device, their number, and how they share it."""

    task: Annotated[str, Field(min_length=1), IN_A_LINE] = _of_task(
        "cnn_training_step",
        "What each replica runs: a workload of the suites, or own:NAME for one of your own.",
        command="workload of each replica",
    )
    axes: dict[Line, Whole] = _of_task(
        {"batch": 32},
        "Its size, as NAME=N; separate several with spaces. Empty for the default sizes of a "
        "workload of your own.",
        command="size of the task",
        flag="axis",
    )
    modes: Annotated[tuple[SharingMode, ...], Field(min_length=1)] = _of_sharing(
        tuple(SharingMode),
        "How the replicas share the device. A target whose jobs share an instance measures only "
        "its own mode.",
        command="how the replicas share the device",
        says=SAYS_OF_MODES,
    )
    replicas: Annotated[tuple[Replicas, ...], Field(min_length=1)] = _of_sharing(
        (1, 2, 5, 10, 20),
        "How many replicas share the device at once, one number per line. Include 1, because the "
        "others are compared with it.",
        command="replica counts to measure; a single one for jobs and pods",
    )
    disturbances: tuple[Disturbance, ...] = _of_sharing(
        (),
        "Extra experiments: what one replica does while others share the device with it. None by "
        "default.",
        command="what one replica does in an extra experiment",
        says=SAYS_OF_DISTURBANCES,
    )
    mps_threads: Annotated[Whole, Field(ge=1, le=100)] | None = _of_sharing(
        None,
        "Per cent of the GPU's threads for each MPS client. Empty for no limit.",
        command="per cent of the GPU's threads for each MPS client",
    )
    mps_memory_mib: Annotated[Whole, Field(ge=1)] | None = _of_sharing(
        None,
        "Mebibytes of GPU memory for each MPS client. Empty for no limit.",
        command="mebibytes of GPU memory for each MPS client",
        flag="mps-memory",
    )
    form: Form = option(
        "processes",
        command="how replicas run; with jobs and pods, this process is one of them",
    )

    @property
    def separate_replicas(self) -> int | None:
        """The number of jobs or pods with one replica each, or None for processes in one job."""
        return None if self.form == "processes" else self.replicas[0]

    def contradiction(self, name: Callable[[str], str]) -> str | None:
        if found := self._of_mps(name):
            return found
        return None if self.form == "processes" else self._apart(name)

    def _of_mps(self, name: Callable[[str], str]) -> str | None:
        if SharingMode.MPS in self.modes:
            most = max(self.replicas)
            return (
                f"{name('replicas')} includes {most}, but MPS supports at most {MOST_MPS_CLIENTS} "
                f"clients per GPU: use 1 to {MOST_MPS_CLIENTS}, or omit mps from {name('modes')}"
                if most > MOST_MPS_CLIENTS
                else None
            )
        limits = {"mps_threads": self.mps_threads, "mps_memory_mib": self.mps_memory_mib}
        for limit, value in limits.items():
            if value is not None:
                return (
                    f"{name(limit)} is {value}, but {name('modes')} includes only "
                    f"{', '.join(self.modes)}: add mps, or leave the limit empty"
                )
        return None

    def _apart(self, name: Callable[[str], str]) -> str | None:
        form = f"{name('form')} {self.form}"
        if self.modes not in {(SharingMode.TIME_SLICING,), (SharingMode.MPS,)}:
            return (
                f"{form} allows only one mode, time_slicing or mps, but {name('modes')} is "
                f"{','.join(self.modes)}"
            )
        if len(self.replicas) != 1:
            return (
                f"{form} allows only one replica count, with one replica per job or pod, but "
                f"{name('replicas')} is {','.join(map(str, self.replicas))}"
            )
        if self.disturbances:
            return f"{name('disturbances')} require {name('form')} processes, not {self.form}"
        return None
