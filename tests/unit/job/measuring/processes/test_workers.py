"""Workers as jobs use them: what becomes of one stays with it."""

import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import psutil
import pytest

from batchmark_job.errors import CannotMeasureError
from batchmark_job.machine.threads import set_threads
from batchmark_job.measuring import steps
from batchmark_job.measuring.limits import RowLimits
from batchmark_job.measuring.measured_row import Bench
from batchmark_job.measuring.processes import workers
from batchmark_job.measuring.processes.workers import ForkedWorkers, StepError
from batchmark_job.measuring.rows import Row
from batchmark_job.workloads.own.files import read_workload
from tests.waiting import PATIENCE_SECONDS, wait_for

LIMITS = RowLimits(samples=30, max_seconds=2.0)


KEEP_A_SIGNAL_BLOCKED = """
import signal
from batchmark_job.measuring.processes.workers import ForkedWorkers
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
ForkedWorkers().close()
assert signal.SIGTERM in signal.pthread_sigmask(signal.SIG_BLOCK, ())
"""


HOLD_A_STOPPED_WORKER = """
import collections, time
from batchmark_job.measuring.processes.workers import ForkedWorkers
worker = ForkedWorkers().start(collections.ChainMap)
worker.get_ready()
print(worker.pid, flush=True)
time.sleep(3600)
"""


class Held:
    """What the tests' workers hold."""

    def __init__(self, tell):
        self.tell = tell

    def add(self, left, right):
        return left + right

    def fail(self):
        raise LookupError("not here\nsecond line")

    def exhaust(self):
        raise MemoryError("gone")

    def leave(self):
        os.write(2, b"first\nsecond\n\nthird\nlast words\n")
        os._exit(7)

    def crash(self):
        os.kill(os.getpid(), signal.SIGSEGV)

    def fill(self, megabytes):
        self.filled = np.ones(megabytes << 20, np.uint8)

    def hang(self):
        time.sleep(10 * PATIENCE_SECONDS)

    def idle_seconds(self):
        """CPU time of all threads in 50 ms of waiting, soon after a product on several threads."""
        set_threads(2)
        matrix = np.ones((512, 512), dtype=np.float32)
        for _ in range(5):
            matrix @ matrix
        time.sleep(0.005)
        before = time.process_time()
        time.sleep(0.05)
        return time.process_time() - before

    def spin(self):
        threading.Thread(target=spin_for_ever, daemon=True).start()
        self.tell("pid", os.getpid())


def spin_for_ever():
    while True:
        pass


def refuse(tell):
    raise CannotMeasureError("no device")


@pytest.fixture(scope="module")
def forked():
    pool = ForkedWorkers()
    yield pool
    for worker in list(pool.live):
        worker.end()


@pytest.fixture
def worker(forked):
    started = forked.start(Held)
    started.get_ready()
    yield started
    started.end()
    assert started.pid not in [each.pid for each in forked.live]


def test_a_worker_answers_again_and_again_even_after_a_failure(worker, forked):
    assert worker.ask("add", left=1, right=2) == 3
    with pytest.raises(StepError, match=r"^LookupError: not here$") as error:
        worker.ask("fail")
    assert not error.value.out_of_memory
    with pytest.raises(StepError, match=r"^ran out of memory: gone$") as error:
        worker.ask("exhaust")
    assert error.value.out_of_memory
    with pytest.raises(CannotMeasureError, match="no device"):  # reaches the job as it is
        forked.run(refuse)
    assert worker.ask("add", left="a", right="b") == "ab"
    # OpenBLAS's threads spun for 26 ms and more, on a core that the next implementation needed.
    assert worker.ask("idle_seconds") < 0.01


@pytest.mark.parametrize(
    ("step", "reason"),
    [
        ("leave", r"exited with code 7: second \| third \| last words"),
        ("crash", r"was killed by SIGSEGV: Fatal Python error: .* fault \| .* in crash"),
    ],
)
def test_a_lost_worker_leaves_its_last_words(worker, step, reason):
    with pytest.raises(StepError, match=f"^its process {reason}$"):
        worker.ask(step)
    worker.end()
    worker.end()


def test_a_worker_killed_for_memory_is_told_from_others(worker, monkeypatch):
    threading.Timer(0.2, os.kill, (worker.pid, signal.SIGKILL)).start()
    monkeypatch.setattr(workers, "kills_for_memory", lambda: 1 + worker._kills_before)
    with pytest.raises(StepError, match=r"^out of memory: the kernel killed") as error:
        worker.ask("hang")
    assert error.value.out_of_memory


def test_a_worker_that_hangs_is_given_up(worker, forked, monkeypatch):
    monkeypatch.setattr(forked, "silence_seconds", 0.2)
    with pytest.raises(StepError, match=r"^it hung: no response for 0.2 s"):
        worker.ask("hang")


def test_no_thread_of_a_worker_runs_between_its_answers(forked):
    pids = []
    worker = forked.start(Held, hear=lambda kind, value: pids.append(value))
    worker.get_ready()
    worker.ask("spin")
    process = psutil.Process(pids[-1])
    wait_for(lambda: process.status() == psutil.STATUS_STOPPED, "stop")
    before = process.cpu_times()
    time.sleep(0.3)
    assert process.cpu_times() == before
    assert worker.ask("add", left=1, right=1) == 2
    worker.end()


def test_closed_workers_end_and_nobody_hears_of_it():
    pool = ForkedWorkers()
    worker = pool.start(Held)
    worker.get_ready()
    asking = threading.Thread(target=worker.ask, args=("hang",), daemon=True)
    asking.start()
    pool.close()
    wait_for(lambda: not psutil.pid_exists(worker.pid), "end of the worker")
    asking.join(0.2)
    assert asking.is_alive(), "it waits for the process to end"


def test_usage_keeps_what_ended_workers_used(forked, worker):
    assert worker.ask("add", left=1, right=2) == 3
    live = forked.usage()
    assert live.memory_bytes > 10e6
    worker.end()
    assert forked.usage().cpu_seconds >= live.cpu_seconds > 0


def test_usage_keeps_what_a_lost_worker_used_until_its_loss_is_noticed(forked, worker):
    worker.ask("fill", megabytes=256)
    before = forked.usage()
    os.kill(worker.pid, signal.SIGKILL)
    wait_for(lambda: not psutil.pid_exists(worker.pid), "the worker's end")
    after = forked.usage()
    assert after.cpu_seconds == before.cpu_seconds
    # Not compared with the server's memory: the kernel may take pages of it back meanwhile.
    assert after.memory_bytes < before.memory_bytes - (128 << 20)


def test_memory_that_workers_share_with_their_server_counts_once(forked):
    before = forked.usage().memory_bytes
    others = [forked.start(Held) for _ in range(4)]
    for each in others:
        each.get_ready()
    assert before / 4 < forked.usage().memory_bytes / 2 < before
    for each in others:
        each.end()


LOST = '''"""A row that ends as its size says."""
import ctypes, os, signal
import torch
AXES = {"size": (1,)}
lost = []
def set_up(size, dtype):
    return torch.ones(size, dtype=dtype)
def step(x):
    if len(x) == 2:
        ctypes.string_at(0)
    if len(x) == 3 or lost:
        lost.append(True)
        raise torch.AcceleratorError("CUDA error: an illegal memory access was encountered")
    if len(x) == 4:
        raise SystemExit(3)
    return x
def reference(x):
    return x
'''


def test_a_row_s_end_is_its_own(forked, tmp_path):
    """A crash, a lost context (which this module imitates for its process) and an exit."""
    bench = Bench.of(forked.run(steps.look_around, "cpu", 1, False), LIMITS, forked)
    (path := tmp_path / "ends.py").write_text(LOST)
    rows = [Row(read_workload(path), {"size": size}, "float32") for size in (2, 3, 4, 5)]
    measured = [row.measure(bench) for row in rows]
    assert [row.status for row in measured[:3]] == ["failed"] * 3
    assert measured[0].reason.startswith("its process was killed by SIGSEGV: ")
    illegal = "CUDA error: an illegal memory access was encountered"
    assert measured[1].reason == f"AcceleratorError: {illegal} (ends.py, line 13)"
    assert measured[2].reason == "SystemExit: 3 (ends.py, line 15)"
    assert measured[3].status in {"measured", "unsettled"}
    assert len(measured[3].process_samples) == bench.limits.processes
    assert measured[3].cold_seconds
    assert measured[3].peak_memory_bytes
    assert not bench.workers.live


def test_the_signals_that_a_job_waits_for_stay_blocked():
    subprocess.run(  # multiprocessing has one tracker a process, which may be running in this one
        [sys.executable, "-c", KEEP_A_SIGNAL_BLOCKED], check=True, timeout=PATIENCE_SECONDS
    )


def test_a_killed_job_leaves_no_worker_behind_though_it_is_stopped():
    with subprocess.Popen(
        [sys.executable, "-c", HOLD_A_STOPPED_WORKER], stdout=subprocess.PIPE, text=True
    ) as job:
        try:
            worker = psutil.Process(int(job.stdout.readline()))
            wait_for(lambda: worker.status() == psutil.STATUS_STOPPED, "stopped worker")
            server = worker.parent()
        finally:
            job.kill()
        _, alive = psutil.wait_procs([worker, server], timeout=PATIENCE_SECONDS)
        assert alive == []


def test_a_worker_that_ended_is_gone_before_another_one_works(forked):
    ended, other = (forked.start(Held) for _ in range(2))
    ended.get_ready()
    other.get_ready()
    ended.end()
    assert other.ask("add", left=1, right=2) == 3
    assert not psutil.pid_exists(ended.pid)
    assert not ended._stderr.exists()
    other.end()
    forked.wait_for_ended()
    assert not psutil.pid_exists(other.pid)


def test_a_worker_has_large_pages_of_torch_and_settings_that_are_set_stay(forked, monkeypatch):
    worker = forked.start(Held)
    worker.get_ready()
    environment = psutil.Process(worker.pid).parent().environ()
    worker.end()
    assert environment["THP_MEM_ALLOC_ENABLE"] == "1"
    monkeypatch.setenv("OPENBLAS_THREAD_TIMEOUT", "12")
    monkeypatch.setenv("PYTHONPATH", "/somewhere")
    with workers._environment():
        assert os.environ["OPENBLAS_THREAD_TIMEOUT"] == "12"
        assert os.environ["PYTHONPATH"].endswith(":/somewhere")
    monkeypatch.delenv("OPENBLAS_THREAD_TIMEOUT")
    with workers._environment():
        assert os.environ["OPENBLAS_THREAD_TIMEOUT"] == "20"
    assert "OPENBLAS_THREAD_TIMEOUT" not in os.environ
    assert os.environ["PYTHONPATH"] == "/somewhere"
