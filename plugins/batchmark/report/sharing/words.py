"""Describes tasks that share a device in words, for both the page and the terminal."""

from __future__ import annotations

from collections.abc import Iterator

from batchmark.analysis.sharing.curves import Curve, Form, Point
from batchmark.analysis.sharing.experiments import Experiment
from batchmark.analysis.sharing.studies import SharedTask
from batchmark.core import formatting
from batchmark.report.blocks import grouped
from batchmark.report.words import NOT_KNOWN, implementation, on_demand, target_and_gpu
from batchmark_job.result.document import Device
from batchmark_job.result.sharing import Disturbance, SharingMode

MODES = {
    SharingMode.EXCLUSIVE: "one after the other",
    SharingMode.TIME_SLICING: "time-slicing",
    SharingMode.MPS: "MPS",
    SharingMode.STREAMS: "CUDA streams",
}
ON_CPU = {SharingMode.TIME_SLICING: "shared CPU cores"}
FORMS: dict[Form, str] = {"processes": "", "jobs": " as Batch jobs", "pods": " as pods"}
DISTURBANCES = {
    Disturbance.OUT_OF_MEMORY: "runs out of memory",
    Disturbance.CRASH: "crashes",
    Disturbance.HANG: "hangs",
    Disturbance.SLOW: "is ten times slower",
}
SUFFERED = {"nobody": "Nobody else suffered", "others": "Others suffered", "not_known": "Not known"}


def task_name(task: SharedTask) -> str:
    return f"{task.workload} {own_parameters(task)}, on {target_and_gpu(task.target)}"


def own_parameters(task: SharedTask) -> str:
    return ", ".join(filter(None, (formatting.parameters(task.parameters), task.dtype)))


def about(task: SharedTask) -> str:
    """State a task's suite, code and price."""
    codes = " and ".join(map(implementation, task.codes)) or NOT_KNOWN
    paid = on_demand(task.price, "the whole instance")
    return " ".join(filter(None, (f"Suite {task.suite}. Code: {codes}.", paid)))


def mode_name(task: SharedTask, mode: SharingMode, form: Form) -> str:
    names = MODES | ON_CPU if task.target.actual_device is Device.CPU else MODES
    return f"{names[mode]}{FORMS[form]}"


def curve_name(task: SharedTask, curve: Curve) -> str:
    limits = []
    if curve.mps_threads is not None:
        limits.append(f"{curve.mps_threads} % of the threads")
    if curve.mps_memory_mib is not None:
        limits.append(f"{curve.mps_memory_mib} MiB")
    name = mode_name(task, curve.mode, curve.form)
    return f"{name}, {' and '.join(limits)} each" if limits else name


def starving(point: Point) -> list[str]:
    """Describe each replica that starved, based on its worst job."""
    seen = {one.replica: one for one in sorted(point.starved, key=lambda one: -(one.share or 1))}
    return [f"{seen[replica]} (job {seen[replica].job_id})" for replica in sorted(seen)]


def knee(curve: Curve) -> str | None:
    """Describe a curve's knee; None if the curve can't have one."""
    found = curve.knee
    if found is None:
        return None
    if found.outcome == "found":
        return f"knee at {found.replicas}"
    if found.outcome == "still_rising":
        return f"still rising at {found.replicas}"
    guess = f", {found.replicas} by the medians alone" if found.replicas else ""
    return f"knee {NOT_KNOWN}{guess}: {found.reason}; more repeats would settle this"


def memory_note(task: SharedTask, curve: Curve) -> str:
    """Say what the memory column shows, and in which rows it shows something else."""
    if task.target.actual_device is Device.CPU:
        return "Memory is the peak memory of a replica's process."
    own = "the peak memory that torch held for a replica, excluding its context"
    unknown = [one.replicas for one in curve.points if one.figures.device_memory_bytes is None]
    if len(unknown) == len(curve.points):
        return f"Memory is {own}."
    note = "Memory is that of the GPU, divided evenly among the replicas, including their contexts"
    if unknown:
        note += f"; not known for replicas {', '.join(map(str, unknown))}, where it is {own}"
    return f"{note}."


def experiment(found: Experiment) -> str:
    """Say in a sentence whether other replicas suffered in an experiment."""
    text = SUFFERED[found.suffered]
    parts = [str(end) for end in found.ended]
    others = formatting.count(found.replicas - 1, "other")
    if found.others:
        parts.append(
            f"the {others} made {formatting.factor(found.others)} as many steps as undisturbed"
        )
    elif found.reason:
        parts.append(found.reason)
    return f"{text}: {'; '.join(parts)}." if parts else f"{text}."


def experiment_name(task: SharedTask, found: Experiment) -> str:
    how = mode_name(task, found.mode, found.form)
    return f"The first of {found.replicas} replicas {DISTURBANCES[found.disturbance]}, {how}"


def remarks(task: SharedTask) -> Iterator[str]:
    """Say what was not measured and which replicas starved, and give any cautions."""
    for curve in task.curves:
        name = curve_name(task, curve)
        # A skipped mode has the same reason for all replica counts.
        unmeasured = grouped((one.reason, one.replicas) for one in curve.unmeasured)
        for reason, numbers in unmeasured.items():
            yield f"Not measured: {name}, replicas {', '.join(map(str, numbers))}: {reason}"
        for point in curve.points:
            where = f"{name}, {formatting.count(point.replicas, 'replica')}"
            yield from (f"Starved: {where}: {text}" for text in starving(point))
            yield from (f"Caution: {where}: {text}" for text in point.warnings)
