"""What each replica did over all groups, for the result document."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

import numpy as np

from batchmark_job.result.sharing import Replica, ReplicaOutcome, Sharing, SharingMode
from batchmark_job.result.values import MOST_CHARACTERS
from batchmark_job.sharing.answers import Lost, Ran
from batchmark_job.sharing.group import Group
from batchmark_job.sharing.point import MpsLimits, SharingPoint


def sharing_record(point: SharingPoint, groups: Sequence[Group]) -> Sharing:
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
    ran = [(one, span) for one, span in runs if isinstance(one, Ran)]
    lost = next((one for one, _ in runs if isinstance(one, Lost)), None)
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
