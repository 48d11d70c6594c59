"""Builders of rows whose replicas share a device, from schedules with known answers."""

from statistics import median

from batchmark_job.result.document import MeasurementStatus
from batchmark_job.result.sharing import Disturbance, Replica, ReplicaOutcome, Sharing, SharingMode
from tests.builders.runs import build_job, build_row, noisy

GROUPS, WINDOWS = 3, 5
TASK = {"batch": 32}


def replica(steps=(100,) * GROUPS, p50=0.01, outcome="ran", **fields):
    values = {
        "outcome": ReplicaOutcome(outcome),
        "group_steps": tuple(steps),
        "step_seconds_p50": p50,
        "step_seconds_p95": 1.5 * p50,
        "step_seconds_p99": 2 * p50,
        "longest_gap_seconds": 3 * p50,
        "startup_seconds": 4.0,
        "peak_memory_bytes": 2**30,
    }
    return Replica(**values | fields)


def equal_replicas(count, throughput):
    """Replicas that take turns: each gets its share of the steps, and waits for the others'."""
    steps = round(1000 * throughput / count)
    return [replica((steps,) * GROUPS, p50=count / throughput) for _ in range(count)]


def shared_row(
    mode, count, throughput, *, replicas=None, spread=0.01, disturbance=None, seed=0, **fields
):
    """A row of `count` replicas that make so many steps a second together."""
    form = fields.pop("form", "processes")
    names = {"form": form} if form != "processes" else {}
    names |= {"disturbance": disturbance} if disturbance else {}
    sharing = Sharing(
        mode=SharingMode(mode),
        form=form,
        disturbance=Disturbance(disturbance) if disturbance else None,
        replicas=tuple(replicas or equal_replicas(count, throughput)),
        device_memory_bytes=fields.pop("device_memory_bytes", None),
        mig_enabled=fields.pop("mig_enabled", None),
    )
    samples = noisy(1 / throughput, count=GROUPS * WINDOWS, spread=spread, seed=seed)
    centre = median(samples)
    values = {
        "workload": "cnn_training_step",
        "parameters": {**fields.pop("task", TASK), "mode": mode, "replicas": count, **names},
        "process_samples": (WINDOWS,) * GROUPS,
        "items": 32,
        "sharing": sharing,
    }
    return build_row([one / centre / throughput for one in samples], **values | fields)


def unshared_row(mode, count, reason):
    """A row that could not be measured."""
    return build_row(
        workload="cnn_training_step",
        parameters={**TASK, "mode": mode, "replicas": count},
        status=MeasurementStatus.SKIPPED,
        reason=reason,
    )


def curve_rows(mode, throughputs, **fields):
    """Rows by number of replicas."""
    return [shared_row(mode, count, one, **fields) for count, one in throughputs.items()]


def sharing_job(target, rows, **fields):
    return build_job(target, rows, suite="sharing", **fields)
