"""What users do to a run that is under way, and the time that they gave it."""

from __future__ import annotations

import os
import signal

import psutil

from tests.faults.bench import Bench
from tests.faults.outcome import DAG_TIME_OUT, NO_JOB, STOPPED, Fault, Outcome, Run


def cancelled_while_deferred(bench: Bench) -> Run:
    run = bench.start("cancelled-deferred")
    bench.wait_until_watched(run)
    bench.airflow.fail(bench.wait_for_task(run, "deferred"))
    return bench.finish(run, open_gates=False)


def cancelled_while_queued(bench: Bench) -> Run:
    """The executor's workers are stopped, so that the task stays in its queue."""
    run = bench.start("cancelled-queued")
    planning = bench.wait_for_task(run, "running", task_id="plan_jobs")
    at_work, runner = bench.wait_for_worker(planning)
    stopped = bench.executor_pids()
    for pid in stopped:
        if pid != at_work:
            os.kill(pid, signal.SIGSTOP)
    try:
        bench.wait(lambda: not psutil.pid_exists(runner), "end of plan_jobs' runner")
        bench.wait_for_task(run, "success", task_id="plan_jobs")
        os.kill(at_work, signal.SIGSTOP)
        bench.airflow.fail(bench.wait_for_task(run, "queued"))
    finally:
        for pid in stopped:
            os.kill(pid, signal.SIGCONT)
    return bench.finish(run, open_gates=False)


def cleared_while_it_runs(bench: Bench) -> Run:
    run = bench.start("cleared-running")
    first = bench.wait_until_watched(run)["jobId"]
    bench.airflow.clear(run.dag_id, run.run_id)
    bench.wait_for_job(run, "RUNNING", but=first)
    return bench.finish(run)


def cleared_after_its_end(bench: Bench) -> Run:
    run = bench.start("cleared-ended", gated=False)
    bench.finish(run)
    (first,) = bench.jobs(run)
    bench.airflow.clear(run.dag_id, run.run_id)
    bench.wait_for_job(run, "SUCCEEDED", but=first["jobId"])
    return bench.finish(run)


def past_its_execution_timeout(bench: Bench) -> Run:
    return bench.finish(bench.start("execution-timeout", dag_id=DAG_TIME_OUT), open_gates=False)


FAULTS = (
    Fault(
        "task cancelled while deferred",
        cancelled_while_deferred,
        {"": Outcome("failed", kept=False, lost=STOPPED)},
        quick=True,
    ),
    Fault(
        "task cancelled while queued",
        cancelled_while_queued,
        {"": Outcome("failed", jobs=0, kept=False, lost=NO_JOB)},
        alone=True,
    ),
    Fault("DAG run cleared while its job runs", cleared_while_it_runs, {"": Outcome(jobs=2)}),
    Fault("DAG run cleared after its end", cleared_after_its_end, {"": Outcome(jobs=2)}),
    Fault(
        "execution_timeout passed while deferred",
        past_its_execution_timeout,
        {"": Outcome("failed", kept=False, says="execution_timeout", lost=STOPPED)},
    ),
)
