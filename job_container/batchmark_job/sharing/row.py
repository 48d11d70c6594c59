"""One row of the suite `sharing`: a task's replicas in one mode, measured in several groups."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from batchmark_job.errors import CannotMeasureError
from batchmark_job.measuring.measured_row import Bench
from batchmark_job.measuring.processes.workers import WorkerSource
from batchmark_job.measuring.rows import Row
from batchmark_job.measuring.samples.sample_statistics import spread_too_far
from batchmark_job.result.document import Measurement, MeasurementStatus
from batchmark_job.result.sharing import Replica, ReplicaOutcome, Sharing, SharingMode
from batchmark_job.result.values import MOST_CHARACTERS
from batchmark_job.sharing.answers import ReplicaFailure, ReplicaRun
from batchmark_job.sharing.group import Group, Task, measure
from batchmark_job.sharing.point import MpsLimits, SharingPoint
from batchmark_job.sharing.schedule import seconds_per_step

NEEDS_GPU = {
    SharingMode.MPS: "mps needs an NVIDIA GPU; this ran on the CPU",
    SharingMode.STREAMS: "streams need CUDA; this ran on the CPU",
}


@dataclass
class SharingRow(Row):
    """A row in which each turn is a group of fresh processes and each sample is a time window.

    `parameters` also include mode and replicas. In a disturbance experiment, the disturbing
    replica's steps don't count. `task` is the row for a single replica; rows with the same `task`
    choose its implementation only once.
    """

    task: Row = field(kw_only=True)
    point: SharingPoint = field(kw_only=True)
    # of replicas in other containers
    elsewhere: WorkerSource | None = field(default=None, kw_only=True)
    groups: list[Group] = field(default_factory=list, kw_only=True)
    _remark: str | None = field(default=None, kw_only=True)
    _throttled: list[bool] = field(default_factory=list, kw_only=True)  # by window

    @property
    def turns(self) -> list[Group]:  # type: ignore[override]
        return self.groups

    def choose(self, bench: Bench) -> None:
        if bench.device == "cpu" and self.point.mode in NEEDS_GPU:
            self.give_up(MeasurementStatus.SKIPPED, NEEDS_GPU[self.point.mode])
            return
        task = self.task
        if task.chosen is None and task.measurement is None:
            # A replica on the CPU gets one thread, so that several have a core each.
            task.choose(replace(bench, thread_counts=(1,)))
            task.close()
        kept = ("flops", "items", "bytes_moved", "trials", "implementation", "correctness")
        self.found.update({name: task.found[name] for name in kept if name in task.found})
        self.chosen, self.limits = task.chosen, replace(bench.limits, turns=1)
        if (over := task.measurement) is not None:
            self.give_up(over.status, over.reason or "")

    def _take_turn(self, bench: Bench, chosen: Any) -> None:
        task = Task(self.task.problem(bench), chosen.index, chosen.threads)
        seconds = bench.limits.max_seconds / bench.limits.processes
        workers, hear = self.elsewhere or bench.workers, self._listener(bench)
        try:
            group = measure(task, self.point, seconds, workers, hear, bench.gpu_uuid)
        except CannotMeasureError as error:
            self.give_up(MeasurementStatus.SKIPPED, str(error))
            return
        self._check_start(bench, group)
        if self.measurement is None:
            self._take_samples(group)
        if self.measurement is None:
            self._throttled += self.conditions_of(bench.monitor, group.windows)
            # Starting the processes belongs to no sample.
            self.spent_seconds += sum(window.seconds for window in group.windows)
            if self._is_over():
                self._finish()

    def _check_start(self, bench: Bench, group: Group) -> None:
        """Fail the row if a replica's result is wrong or, except with pods, their GPUs differ."""
        first = group.started[0].first
        self.found.setdefault("cold_seconds", first.seconds)
        if not self.groups and first.correctness is not None:
            self.found["correctness"] = first.correctness
        wrong = [each.first.wrong for each in group.started if each.first.wrong]
        if wrong:
            self.give_up(MeasurementStatus.FAILED, f"wrong result: {wrong[0]}")
            return
        gpus = {each.device_uuid for each in group.started}
        if len(gpus) > 1 and self.point.form != "pods":
            named = ", ".join(sorted(map(str, gpus)))
            self.give_up(MeasurementStatus.FAILED, f"the replicas ran on different GPUs: {named}")
        self._remark = group.remark or self._limit_that_does_not_show(bench, group)

    def _limit_that_does_not_show(self, bench: Bench, group: Group) -> str | None:
        """Return a remark if the MPS thread limit has no visible effect, or None otherwise."""
        asked, all_of_them = self.point.limits.thread_percentage, bench.multiprocessors
        seen = group.started[0].multiprocessors
        if self.point.mode is not SharingMode.MPS or asked in (None, 100) or seen is None:
            return None
        if seen != all_of_them:
            return None
        return (
            f"the MPS limit of {asked} % of the threads has no visible effect: a client still sees "
            f"all {seen} SMs"
        )

    def _take_samples(self, group: Group) -> None:
        disturbed = self.point.disturbance is not None
        lost = [one for one in group.ran if isinstance(one, ReplicaFailure)]
        others = group.ran[1:] if disturbed else group.ran
        alive = [one.steps for one in others if not isinstance(one, ReplicaFailure)]
        seconds = [seconds_per_step(alive, window) for window in group.windows]
        group.seconds = [each for each in seconds if each is not None]
        self.groups.append(group)
        if lost and not disturbed:
            number = group.ran.index(lost[0]) + 1
            reason = f"replica {number} of {len(group.ran)}: {lost[0].reason}"
            self.give_up(MeasurementStatus.FAILED, reason)
        elif None in seconds:
            reason = "only the disturbing replica completed another step"
            if not disturbed:
                reason = "no replica completed a step in one of the windows"
            self.give_up(MeasurementStatus.SKIPPED, reason)
        elif group.last_look and group.last_look.wrong:
            reason = f"the last step returned a wrong result: {group.last_look.wrong}"
            self.give_up(MeasurementStatus.FAILED, reason)

    def _as_measured(self, status: MeasurementStatus, reason: str | None) -> Measurement:
        found: dict[str, Any] = dict(self.found)
        counts = [len(group.seconds) for group in self.groups if group.seconds]
        if counts:
            found.update(self._sampled(counts, self._throttled, "max_seconds"), timer="monotonic")
        if self.groups:
            sharing = sharing_record(self.point, self.groups)
            peak = max(replica.peak_memory_bytes or 0 for replica in sharing.replicas) or None
            found.update(sharing=sharing, peak_memory_bytes=peak)
        return self._named(status, reason, **found)

    def _finish(self) -> None:
        count, least = len(self.samples), self.limits.minimum_samples
        if apart := spread_too_far(self.samples):
            self.give_up(MeasurementStatus.UNSETTLED, apart)
            return
        few = (
            (f"only {count} samples instead of {least}, because the steps take too long")
            if count < least
            else None
        )
        remarks = "; ".join(filter(None, (few, self._remark))) or None
        self.end(MeasurementStatus.MEASURED, remarks)


def sharing_record(point: SharingPoint, groups: Sequence[Group]) -> Sharing:
    """Build the result document's record of what each replica did across all groups."""
    memory = [
        group.device_memory_bytes for group in groups if group.device_memory_bytes is not None
    ]
    count = len(groups[0].started)
    limits = point.limits if point.mode is SharingMode.MPS else MpsLimits()
    return Sharing(
        mode=point.mode,
        form=point.form,
        disturbance=point.disturbance,
        replicas=tuple(_replica(number, groups) for number in range(count)),
        device_memory_bytes=max(memory, default=None),
        active_thread_percentage=limits.thread_percentage,
        memory_limit_bytes=limits.memory_bytes,
        mig_enabled=groups[0].mig_enabled,
    )


def _replica(number: int, groups: Sequence[Group]) -> Replica:
    runs = [(group.ran[number], group.spans[number]) for group in groups]
    ran = [(one, span) for one, span in runs if isinstance(one, ReplicaRun)]
    lost = next((one for one, _ in runs if isinstance(one, ReplicaFailure)), None)
    times = np.concatenate([np.empty(0), *(one.steps.seconds_within(span) for one, span in ran)])
    p50, p95, p99 = np.quantile(times, [0.5, 0.95, 0.99]).tolist() if times.size else (None,) * 3
    memory = [one.peak_memory_bytes for one, _ in ran if one.peak_memory_bytes is not None]
    return Replica(
        outcome=lost.outcome if lost else ReplicaOutcome.RAN,
        reason=lost.reason[:MOST_CHARACTERS] if lost else None,
        device_uuid=groups[0].started[number].device_uuid,
        multiprocessors=groups[0].started[number].multiprocessors,
        group_steps=tuple(one.steps.whole_within(span) for one, span in ran),
        step_seconds_p50=p50,
        step_seconds_p95=p95,
        step_seconds_p99=p99,
        longest_gap_seconds=max((one.steps.longest_gap(span) for one, span in ran), default=None),
        startup_seconds=statistics.median(
            group.started[number].startup_seconds for group in groups
        ),
        peak_memory_bytes=max(memory, default=None),
    )
