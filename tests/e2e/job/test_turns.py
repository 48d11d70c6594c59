"""Two libraries' threads never wait for each other's; `make bench-turns` tells by how much."""

import pytest

from batchmark_job.machine import fingerprint
from batchmark_job.measuring.processes.workers import ForkedWorkers
from benchmarks.job.turns import alone_and_in_turns

TRIES = 10  # on a machine that other tests load


@pytest.mark.skipif(fingerprint.usable_threads() < 2, reason="needs two threads")
def test_libraries_in_turns_take_as_long_as_alone():
    """In one process, a product of 256 x 256 took 60 times as long in turns as alone."""
    workers = ForkedWorkers()
    for _ in range(TRIES):
        found = alone_and_in_turns(256, 10, workers)
        if all(together < 3 * alone for alone, together in found.values()):
            return
    pytest.fail(f"seconds alone and in turns: {found}")
