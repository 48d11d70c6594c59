"""One of the processes that measure a row, and what several of them measured together."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from batchmark_job.measuring.processes.answers import LastLook, TurnSamples
from batchmark_job.measuring.processes.workers import Worker
from batchmark_job.measuring.samples.sample_statistics import median_interval, multimodal, outliers
from batchmark_job.result.document import Phases, Stopping

CRITERIA = ("max_seconds", "max_samples", "precise")  # of turns, the first counts for the row


@dataclass
class RowProcess:
    """The process' worker, and what it has measured by now."""

    worker: Worker
    turns: list[TurnSamples] = field(default_factory=list)
    throttled: list[bool] = field(default_factory=list)  # by sample
    last_look: LastLook | None = None

    @property
    def samples(self) -> list[float]:
        return [seconds for turn in self.turns for seconds in turn.seconds]


def sample_fields(
    samples: Sequence[float],
    process_samples: Sequence[int],
    turn_samples: Sequence[int],
    resolution_seconds: float = 0.0,
) -> dict[str, Any]:
    """The fields of Measurement that follow from the samples and who took them."""
    return {
        "samples_seconds": tuple(samples),
        "process_samples": tuple(process_samples),
        "turn_samples": tuple(turn_samples),
        "outlier_samples": outliers(samples),
        "multimodal": multimodal(samples, resolution_seconds),
    }


def together(processes: Sequence[RowProcess]) -> dict[str, Any]:
    """The fields of Measurement that several processes fill in together."""
    samples = [seconds for process in processes for seconds in process.samples]
    turns = [turn for process in processes for turn in process.turns]
    looks = [process.last_look for process in processes if process.last_look]
    interval = median_interval(samples)
    joules = [turn.joules for turn in turns if turn.joules is not None]
    phases = looks[0].phases if looks else {}
    return {
        **sample_fields(
            samples,
            [len(process.samples) for process in processes],
            [len(turn.seconds) for turn in turns],
            turns[0].resolution_seconds,
        ),
        "timer": turns[0].timer,
        "warmup_calls": sum(turn.warmup_calls for turn in turns),
        "unrecorded_calls": sum(turn.unrecorded_calls for turn in turns),
        "stopping": Stopping(
            criterion=min((turn.stopping.criterion for turn in turns), key=CRITERIA.index),
            relative_half_width=interval and interval.relative_half_width,
        ),
        "peak_memory_bytes": max(
            (look.peak_memory_bytes for look in looks if look.peak_memory_bytes is not None),
            default=None,
        ),
        "energy_joules": statistics.fmean(joules) if joules else None,
        "phases": Phases(compute_seconds=statistics.median(samples), **phases),
    }
