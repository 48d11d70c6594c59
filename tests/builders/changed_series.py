"""Builders of changed series and of what their runs ran with."""

import json
from datetime import UTC, datetime, timedelta

import numpy as np

from batchmark.changes.conditions import RunConditions
from batchmark.changes.records import ChangePoint, Confirmation, Level, Series, SeriesKey
from batchmark_job.result.document import Device

FIRST = datetime(2026, 9, 1, 3, tzinfo=UTC)
LEVEL = 0.01
BEFORE = {"time": 0.1, "price": 1.0, "noise": 0.02, "speedup": 12.0}


def run_id(number):
    return f"run-{number}"


def moment(number):
    return FIRST + timedelta(days=number)


def build_key(target="g5.xlarge", workload="matmul", **fields):
    gpu = target[0] in "gp"
    values = {
        "suite": "blog",
        "target": target,
        "actual_device": Device.CUDA if gpu else Device.CPU,
        "instance_type": target,
        "cpu_model": "AMD EPYC 7R32",
        "gpu_model": "NVIDIA A10G" if gpu else None,
        "workload": workload,
        "parameters": '{"size":1000}' if workload else None,
        "dtype": "float32" if workload else None,
    }
    return SeriesKey(**values | fields)


def build_own_key(target="g5.xlarge", **parameters):
    """The key of an own job's row: of whole jobs, or of the metric that the parameters name."""
    own = {"suite": "job-thumbnails", "workload": "thumbnails", "dtype": "none"}
    return build_key(target, **own, parameters=json.dumps(parameters, separators=(",", ":")))


def build_point(series, change=0.1, *, run=20, metric="time", **fields):
    before = BEFORE[metric]
    values = {
        "series": series,
        "metric": metric,
        "first_run_id": run_id(run),
        "first_recorded_at": moment(run),
        "last_run_id": run_id(run - 1),
        "near_run_ids": tuple(run_id(run + step) for step in (-1, 0, 1)),
        "before": Level(median=before, spread=0.011, runs=20),
        "after": Level(median=before * (1 + change), spread=0.009, runs=3),
        "change": change,
        "p_value": 2e-9,
    }
    return ChangePoint(**values | fields)


def build_conditions(run, **fields):
    values = {
        "image_digest": ("sha256:" + "9a" * 32,),
        "driver_version": ("580.95.05",),
        "torch_version": ("2.13.0",),
        "purchase_option": ("on_demand",),
        "price_usd_per_hour": (1.006,),
    }
    implementation = fields.pop("implementation", {})
    return RunConditions(moment(run), of_jobs=values | fields, implementation=implementation)


def runs_of(*targets, since=20, **changed):
    """RunConditions of runs 15 to 25; those from `since` on with what changed."""
    return {
        (run_id(number), target): build_conditions(number, **changed if number >= since else {})
        for number in range(15, 26)
        for target in targets
    }


def build_confirmation(series, outcome="confirmed", **fields):
    values = {
        "series": series,
        "kind": "run",
        "run_id": run_id(20),
        "expected": 0.1,
        "suspect": 0.112,
        "reruns": (0.111, 0.113),
        "job_ids": ("job-1", "job-2"),
        "hosts": 2,
        "outcome": outcome,
        "reason": "both fresh jobs were as slow",
    }
    return Confirmation(**values | fields)


def build_history(key, values, *, metric="time"):
    return Series(
        key=key,
        metric=metric,
        run_ids=[run_id(number) for number in range(len(values))],
        recorded_at=np.array(
            [moment(number).replace(tzinfo=None) for number in range(len(values))],
            dtype="datetime64[us]",
        ),
        values=np.array(values, dtype=float),
    )


def noisy(count, seed=0, log_sd=0.01):
    return LEVEL * np.exp(log_sd * np.random.default_rng(seed).standard_normal(count))


def sizes(target, workload, count):
    return [
        build_key(target, workload, parameters=f'{{"size":{1000 * (number + 1)}}}')
        for number in range(count)
    ]
