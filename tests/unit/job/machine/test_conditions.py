"""The machine's state at a moment and over a span, and when a span counts as slowed down."""

import os
import shutil
import subprocess
import sys
import threading
import time
from types import SimpleNamespace

import pynvml
import pytest

from batchmark_job.machine import conditions, nvml
from batchmark_job.machine.conditions import Monitor, mean_conditions, thread_times, wait_share
from batchmark_job.result.document import Conditions
from tests.builders.files import put
from tests.stand_ins.nvml import Card, Nvml, installed
from tests.waiting import PATIENCE_SECONDS

POWER_CAP = pynvml.nvmlClocksEventReasonSwPowerCap
HOT = pynvml.nvmlClocksEventReasonHwThermalSlowdown
IDLE = pynvml.nvmlClocksEventReasonGpuIdle


class Machine:
    """A clock and a root folder with what Linux shows of the CPUs."""

    def __init__(self, root):
        self.root = root
        self.now = 100.0
        self._user = self._steal = 0
        self._stat = root / "proc/stat"
        self._stat.parent.mkdir()
        self.run()

    def run(self, seconds=0.0, *, cores=2.0, steal=0.0):
        """Time passes with some cores at work, of which the hypervisor keeps a share."""
        self.now += seconds
        wanted = round(100 * seconds * cores)
        self._steal += round(wanted * steal)
        self._user += wanted - round(wanted * steal)
        self._stat.write_text(
            f"cpu  {self._user} 1 2 999 9 3 4 {self._steal} 77 5\ncpu0 1 1 1 1 1 1 1 1 0 0\n"
        )

    def thread(self, name, ran, waited):
        put(self.root, f"proc/self/task/{name}/schedstat", f"{ran} {waited} 7\n")

    def clock(self, *megahertz):
        for cpu, value in enumerate(megahertz):
            policy = f"sys/devices/system/cpu/cpufreq/policy{cpu}"
            put(self.root, f"{policy}/scaling_cur_freq", f"{value * 1000}\n")


@pytest.fixture
def machine(tmp_path, monkeypatch):
    made = Machine(tmp_path)
    clock = SimpleNamespace(perf_counter=lambda: made.now, thread_time=time.thread_time)
    monkeypatch.setattr(conditions, "time", clock)
    return made


def test_a_machine_that_tells_nothing_and_this_one(tmp_path):
    monitor = Monitor("cpu", root=tmp_path)
    assert monitor.now() == monitor.now() == monitor.during(0, 1) == Conditions()
    assert not monitor.throttled(0, time.perf_counter())
    now = Monitor("cpu").now()
    assert now.gpu_clock_hz is None
    assert now.cpu_frequency_hz is None or 1e8 < now.cpu_frequency_hz < 1e10


@pytest.mark.parametrize("device", ["cpu", "cuda"], ids=["CPU", "GPU without NVML"])
def test_steal_is_the_share_of_the_time_in_which_cpus_had_work(machine, device):
    monitor = Monitor(device, root=machine.root)
    assert monitor.now().cpu_steal_share is None, "no time has passed yet"
    machine.run(10, cores=0.5, steal=0.1)
    assert monitor.now() == Conditions(cpu_steal_share=0.1)
    machine.run(10, cores=0)
    assert monitor.now().cpu_steal_share is None, "nothing wanted to run"


def test_steal_before_looks_back_half_a_second_and_no_further(machine):
    monitor = Monitor("cpu", root=machine.root)
    for steal in (0.5, 0.2, 0.0):
        machine.run(0.25, steal=steal)
        state = monitor.now()
    assert state.cpu_steal_share == 0.1


@pytest.mark.parametrize(
    ("seconds", "cores", "steal", "marked"),
    [
        (2, 2.0, 0.0, False),
        (2, 2.0, 0.04, False),
        (2, 2.0, 0.08, True),
        (0.5, 0.2, 0.1, False),  # one stolen tick is no proof
    ],
)
def test_a_span_with_much_steal_is_marked(machine, seconds, cores, steal, marked):
    monitor = Monitor("cpu", root=machine.root)
    start = machine.now
    machine.run(seconds, cores=cores, steal=steal)
    monitor.now()
    assert monitor.throttled(start, machine.now) is marked
    assert monitor.during(start, machine.now).cpu_steal_share == steal


def test_a_short_span_is_judged_by_the_half_second_up_to_its_end(machine):
    monitor = Monitor("cpu", root=machine.root)
    machine.run(0.3, steal=0.5)
    monitor.now()
    assert not monitor.throttled(machine.now - 0.001, machine.now), "not yet half a second"
    for _ in range(3):
        machine.run(0.3)
        monitor.now()
    early, late = machine.now - 0.8, machine.now - 0.01
    assert monitor.throttled(early, early + 0.01)
    assert not monitor.throttled(late, late + 0.01)


def test_the_share_waited_is_that_of_all_threads_in_a_span(machine):
    machine.thread(1, 500, 500)
    machine.thread(2, 100, 0)
    before = thread_times(machine.root)
    shutil.rmtree(machine.root / "proc/self/task/2")
    machine.thread(1, 560, 510)
    machine.thread(3, 20, 10)
    assert wait_share(before, thread_times(machine.root)) == 20 / 100
    assert wait_share(before, before) is None, "nothing ran"
    assert wait_share(None, before) is None


def test_a_rival_for_the_only_cpu_shows():
    before = os.sched_getaffinity(0)
    rival = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        for process in (0, rival.pid):
            os.sched_setaffinity(process, {min(before)})
        start = thread_times()
        busy_until = time.thread_time() + 0.3
        while time.thread_time() < busy_until:
            pass
        waited = wait_share(start, thread_times())
    finally:
        os.sched_setaffinity(0, before)
        rival.kill()
        rival.wait()
    assert waited > 0.2


def test_several_spans_have_the_means_of_what_is_known():
    hot = Conditions(cpu_steal_share=0.5, gpu_clock_hz=1e9, gpu_throttle_reasons=("hot", "cap"))
    assert mean_conditions([hot, Conditions(cpu_steal_share=0.0)]) == Conditions(
        cpu_steal_share=0.25, gpu_clock_hz=1e9, gpu_throttle_reasons=("cap", "hot")
    )


def test_frequency_is_the_mean_over_the_cpus(machine):
    machine.clock(3_000, 1_000)
    monitor = Monitor("cpu", root=machine.root)
    assert monitor.now().cpu_frequency_hz == 2e9
    machine.now += 1
    machine.clock(2_000, 2_000)
    monitor.now()
    assert monitor.during(machine.now - 1, machine.now).cpu_frequency_hz == 2e9


@pytest.mark.parametrize(
    ("device", "megahertz", "marked"),
    [
        ("cpu", (2_300, 2_300), False),
        ("cpu", (3_500, 800), False),
        ("cpu", (1_700, 800), True),
        ("cuda", (1_700, 800), False),
    ],
)
def test_half_the_clock_seen_before_is_slow_where_the_cpu_computes(
    machine, device, megahertz, marked
):
    machine.clock(3_500, 3_500)
    monitor = Monitor(device, root=machine.root)
    machine.now += 1
    machine.clock(*megahertz)
    monitor.now()
    assert monitor.throttled(machine.now - 0.01, machine.now + 0.01) is marked


def gpu_monitor(machine, card):
    with installed(Nvml(GPU_aa=card, GPU_bb=Card(reasons=HOT)), "aa", "bb"):
        return Monitor("cuda", nvml.visible_gpus()[0], machine.root)


def test_a_gpus_state_at_a_moment_over_a_span_and_once_it_is_lost(machine):
    card = Card()
    monitor = gpu_monitor(machine, card)
    assert monitor.now() == Conditions(
        gpu_clock_hz=1.71e9,
        gpu_memory_clock_hz=6.251e9,
        gpu_temperature_celsius=41,
        gpu_power_watts=150,
    )
    machine.now += 1
    card.celsius, card.milliwatts, card.reasons = 43, 250_000, POWER_CAP | IDLE
    monitor.now()
    during = monitor.during(machine.now - 1, machine.now)
    assert during.gpu_temperature_celsius == pytest.approx((41 + 41 + 43) / 3)
    assert during.gpu_power_watts == pytest.approx((150 + 150 + 250) / 3)
    assert during.gpu_throttle_reasons == ("sw_power_cap",)
    card.sm_megahertz, card.error = None, pynvml.NVML_ERROR_GPU_IS_LOST
    machine.now += 1
    assert monitor.now() == Conditions()


def test_a_gpu_slowdown_marks_the_spans_at_its_readings(machine):
    """A power cap doesn't: the measured code itself reaches it."""
    card = Card(reasons=IDLE | POWER_CAP)
    monitor = gpu_monitor(machine, card)
    for at, reasons in ((101, IDLE | POWER_CAP), (102, HOT | POWER_CAP), (103, 0)):
        machine.now, card.reasons = at, reasons
        monitor.now()
    marked = [monitor.throttled(at, at + 0.2) for at in (100.9, 101.2, 101.6, 102.2, 102.7, 104)]
    assert marked == [False, False, True, True, False, False]
    assert monitor.throttled(100.5, 103.5), "a long span is marked by one reading in it"


def test_the_thread_reads_until_stopped_and_may_start_again(machine, monkeypatch):
    monkeypatch.setattr(conditions, "PERIOD_SECONDS", 0.001)
    monkeypatch.setattr(conditions, "CPU_BUDGET", 1.0)
    read = threading.Semaphore(0)

    class Watched(Card):
        def answer(self, value):
            read.release()
            return super().answer(value)

    monitor = gpu_monitor(machine, Watched())
    for _ in range(2):
        monitor.start()
        assert all(read.acquire(timeout=PATIENCE_SECONDS) for _ in range(50))
        monitor.stop()
        assert not monitor._thread.is_alive()
    monitor.stop()


def test_dear_readings_make_the_thread_wait(machine, monkeypatch):
    waits = []
    costs = iter((0.0, 0.00005, 1.0, 1.002))

    class Stopping(threading.Event):
        def wait(self, timeout=None):
            waits.append(timeout or 0)
            return len(waits) == 3

    monkeypatch.setattr(conditions.time, "thread_time", lambda: next(costs))
    Monitor("cpu", root=machine.root)._run(Stopping())
    assert waits == pytest.approx([0.1, 0.1, 2.0])
