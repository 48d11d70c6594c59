"""Two libraries' threads never wait for each other's."""

import statistics

import pytest

from batchmark_job.machine import fingerprint
from batchmark_job.measuring.entry import enter
from batchmark_job.measuring.implementation_choice import start_prepared
from batchmark_job.measuring.problem import Problem
from batchmark_job.measuring.processes.workers import ForkedWorkers, ignore
from batchmark_job.workloads.builtin import WORKLOADS

RIVALS = ("torch", "numpy")
TRIES = 10  # on a machine that other tests load


def alone_and_in_turns(size, turns, workers):
    """Median seconds of a call by library, in the same processes: alone, and in turns."""
    threads = fingerprint.usable_threads()
    problem = Problem(WORKLOADS["matmul"], {"size": size}, "float32", "cpu")
    entry = enter(ignore, problem, (threads,), fingerprint.last_level_cache_bytes(), None)
    entered = {each.name: each for each in entry.candidates if each.name in RIVALS}
    runners = {
        name: start_prepared(problem, each, entry.input_sets, workers, ignore)
        for name, each in entered.items()
    }
    try:
        for runner in runners.values():
            runner.get_ready()
            runner.ask("first_call")
        alone = {name: medians(turns, [runner])[0] for name, runner in runners.items()}
        together = dict(zip(runners, medians(turns, [*runners.values()]), strict=True))
    finally:
        for runner in runners.values():
            runner.end()
    return {name: (alone[name], together[name]) for name in runners}


def medians(turns, runners):
    taken = [[] for _ in runners]
    for _ in range(turns):
        for seconds, runner in zip(taken, runners, strict=True):
            seconds.extend(runner.ask("turn"))
    return [statistics.median(seconds) for seconds in taken]


@pytest.mark.skipif(fingerprint.usable_threads() < 2, reason="needs two threads")
def test_libraries_in_turns_take_as_long_as_alone():
    """In one process, a product of 256 x 256 took 60 times as long in turns as alone."""
    workers = ForkedWorkers()
    for _ in range(TRIES):
        found = alone_and_in_turns(256, 10, workers)
        if all(together < 3 * alone for alone, together in found.values()):
            return
    pytest.fail(f"seconds alone and in turns: {found}")
