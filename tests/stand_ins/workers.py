"""Workers that work in the test's own process, so that it can replace what they use."""

from dataclasses import replace
from datetime import UTC, datetime

from batchmark_job.errors import JobError
from batchmark_job.job import run_job
from batchmark_job.machine import memory
from batchmark_job.machine.inventory import take_inventory
from batchmark_job.measuring.measured_row import Bench
from batchmark_job.measuring.processes.workers import StepError, Usage, ignore
from batchmark_job.workloads.own.errors import where_raised


def _step(function, *arguments, **named):
    try:
        return function(*arguments, **named)
    except JobError:
        raise
    except (Exception, SystemExit) as error:
        out_of_memory = memory.is_out_of_memory(error)
        reason = memory.describe_error(error) + where_raised(error)
        raise StepError(reason, out_of_memory=out_of_memory) from error


class WorkerHere:
    def __init__(self, make):
        self._make = make
        self._held = None

    def get_ready(self):
        self._held = _step(self._make)

    def ask(self, step, **arguments):
        return _step(getattr(self._held, step), **arguments)

    def begin(self, step, **arguments):
        self._begun = step, arguments

    def answer(self, within_seconds=None):
        step, arguments = self._begun
        return self.ask(step, **arguments)

    def end(self): ...


class WorkersHere:
    def start(self, make, *arguments, hear=ignore):
        return WorkerHere(lambda: make(hear, *arguments))

    def run(self, function, *arguments, hear=ignore):
        hear("imported", datetime.now(UTC))
        return _step(function, hear, *arguments)

    def wait_for_ended(self): ...

    def usage(self):
        return Usage(0.0, 0)

    def close(self): ...


def bench_here(limits, *, device="cpu", threads=1, processes=1, turns=1, **bench):
    """On one thread, because several wait for each other on a loaded machine."""
    machine = take_inventory(device, threads, allow_cpu_fallback=False)
    limits = replace(limits, processes=processes, turns=turns)
    return Bench.of(machine, limits, WorkersHere(), **bench)


def run_job_here(settings, interruption=None):
    return run_job(settings, interruption, workers=WorkersHere())
