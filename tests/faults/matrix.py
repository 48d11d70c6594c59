"""Inflicts faults on the bench, some side by side, and judges what came of each."""

from __future__ import annotations

import traceback
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import httpx
from botocore.exceptions import ClientError

from batchmark.aws.result_bucket import COLLECTED
from batchmark.core.errors import CollectError
from batchmark.core.run import StoredJob, StoredRun
from batchmark.history.store import HistoryStore
from batchmark.runs.collected_runs import read_raw_document, stored_run
from tests.clouds import FINISHED
from tests.faults.bench import Bench
from tests.faults.outcome import (
    COLLAPSE,
    COLLAPSED,
    COLLECT,
    DAG_LAYERED,
    GUARDED,
    NEVER_THERE,
    REMOVED,
    STAND_UP,
    TASK,
    Fault,
    Invariants,
    Outcome,
    Result,
    Run,
)

HERE = Path(__file__).parent
# Each needs workers of Airflow's now and then, and there are two cores.
SIDE_BY_SIDE = 6

Results = dict[tuple[str, str], Result]


def inflict_all(bench: Bench, faults: Iterable[Fault]) -> Results:
    """What came of each fault, by its name and point."""
    results: Results = {}
    beside = [fault for fault in faults if not fault.alone]
    layered = [fault for fault in beside if fault.layered]
    others = [[fault] for fault in beside if not fault.layered]
    with ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
        for found in pool.map(partial(inflict_in_turn, bench), [layered, *others]):
            results |= found
    bench.mend()
    for fault in faults:
        if fault.alone:
            results |= inflict(bench, fault)
            bench.mend()
    return results


def inflict_in_turn(bench: Bench, faults: Iterable[Fault]) -> Results:
    results: Results = {}
    for fault in faults:
        results |= inflict(bench, fault)
    return results


def inflict(bench: Bench, fault: Fault) -> Results:
    bench.stack.say(f"{fault.name}: begins")
    try:
        struck = fault.inflict(bench)
        runs = struck if isinstance(struck, dict) else {"": struck}
        found = {
            (fault.name, point): Result(
                outcome(bench, run, fault.expected[point]),
                invariants(bench, run),
                (run.ended or run.began) - run.began,
            )
            for point, run in runs.items()
        }
    except Exception as error:
        nothing = Outcome(f"{type(error).__name__}: {error}", jobs=0, kept=False)
        log = traceback.format_exc()
        found = {(fault.name, point): Result(nothing, None, 0.0, log) for point in fault.expected}
    for (_, point), result in found.items():
        what = f"{fault.name} {point}".strip()
        bench.stack.say(f"{what}: {result.seen}; {result.invariants} {result.log}".rstrip())
    return found


# The job's own grace after SIGTERM, and the collecting task's way to it.
LEAK_GRACE_SECONDS = 60
# For what the triggerer or a worker logs after its task's state is known.
LOG_SECONDS = 60


def outcome(bench: Bench, run: Run, expected: Outcome) -> Outcome:
    """What came of a run; of what it says, the expected part where it is there."""
    tasks = bench.airflow.task_instances(run.dag_id, run.run_id)
    ours = [task for task in tasks if task["task_id"] == TASK]
    state = ", ".join(str(task["state"]) for task in ours)
    failed = [task for task in tasks if task["state"] == "failed"]
    telling = [task for task in failed if task["task_id"] in (TASK, STAND_UP, COLLAPSE)]
    said = _said(bench, telling, expected.says)
    collected = _collected(bench, run)
    reasons = [lost.reason for lost in collected.lost] if collected else ["not collected"]
    lost = "; ".join(reasons)
    return Outcome(
        state,
        len(bench.jobs(run)),
        collected is not None and len(collected.jobs) == len(ours),
        expected.says if expected.says in said else said[-300:],
        expected.lost if expected.lost_for(lost) else lost[-300:],
        ", ".join(
            f"{task['task_id']} failed"
            for task in failed
            if task["task_id"] not in {TASK, *run.marked}
        ),
        bench.alerts(run),
        _layers_end(bench, run, {task["task_id"]: task["state"] for task in tasks}),
    )


def _said(bench: Bench, tasks: Sequence[Mapping[str, Any]], expected: str) -> str:
    """The tasks' logs, once they say this: they may be written after the tasks' states."""
    said = ""

    def told() -> bool:
        nonlocal said
        said = "\n".join(_log_of(bench, task) for task in tasks)
        return expected in said

    with suppress(TimeoutError):
        bench.wait(told, expected, LOG_SECONDS)
    return said


def _log_of(bench: Bench, task: Mapping[str, Any]) -> str:
    try:
        return bench.airflow.task_log(task)
    except httpx.HTTPError as error:
        return f"(no log: {error})"


def _layers_end(bench: Bench, run: Run, states: Mapping[str, str]) -> str:
    if run.dag_id != DAG_LAYERED:
        return ""
    if left := bench.layer.left():
        return f"left: {left}"
    if run.guarded:
        return GUARDED
    if states[COLLAPSE] == "success":
        return COLLAPSED
    return REMOVED if states[STAND_UP] == "failed" else NEVER_THERE


def _collected(bench: Bench, run: Run) -> StoredRun | None:
    store = bench.store(run)
    return stored_run(store, store.prefix + COLLECTED)


def invariants(bench: Bench, run: Run) -> Invariants:
    """Count what must not be, of a run that has ended."""
    with suppress(TimeoutError):
        bench.wait(lambda: not _live(bench, run), "end of the run's jobs", LEAK_GRACE_SECONDS)
    collected = _collected(bench, run)
    kept = collected.jobs if collected else ()
    planned = {(job.planned.target, job.planned.suite, job.planned.repeat) for job in kept}
    succeeded = [job for job in bench.jobs(run) if job["status"] == "SUCCEEDED"]
    names = {job["jobName"] for job in succeeded}
    rows = _history_rows(bench, run)
    stored = [_stored_rows(bench, run, job) for job in kept]
    return Invariants(
        leaked=len(_live(bench, run)),
        lost=stored.count(0) + max(0, sum(stored) - rows) + _unreported(bench, run, kept),
        duplicates=len(kept)
        - len(planned)
        + len(succeeded)
        - len(names)
        + max(0, rows - sum(stored)),
    )


def _live(bench: Bench, run: Run) -> list[dict[str, Any]]:
    return [job for job in bench.jobs(run) if job["status"] not in FINISHED]


def _stored_rows(bench: Bench, run: Run, job: StoredJob) -> int:
    """Rows of a kept job's document, 0 if it is not in the bucket as it was collected."""
    try:
        return len(read_raw_document(bench.store(run), run.run_id, job).measurements)
    except (CollectError, ClientError):
        return 0


def _history_rows(bench: Bench, run: Run) -> int:
    history = HistoryStore(bench.s3, bench.config.bucket)
    return history.read(("run_id",), run_ids=[run.run_id]).num_rows


def _unreported(bench: Bench, run: Run, kept: Any) -> int:
    """A task that succeeded whose measurements nobody collected.

    Where a user ended the task that collects, they are to be in the bucket all the same.
    """
    task = bench.task(run)
    if kept or task is None or task["state"] != "success":
        return 0
    return int(COLLECT not in run.marked or not bench.documents(run))
