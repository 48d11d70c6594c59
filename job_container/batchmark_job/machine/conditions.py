"""The machine's state while measuring, and whether something slowed it down during a sample.

GPU clocks, power, temperature and event reasons come from NVML, CPU steal from /proc/stat, the wait
for a CPU from each thread's schedstat, and CPU frequency from cpufreq. Many virtual machines lack
cpufreq; the "cpu MHz" in their /proc/cpuinfo is constant and is not used.
"""

from __future__ import annotations

import contextlib
import statistics
import threading
import time
from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import NamedTuple

from batchmark_job.machine import nvml
from batchmark_job.result.document import Conditions

PERIOD_SECONDS = 0.1  # five readings in STEAL_WINDOW_SECONDS
CPU_BUDGET = 0.001  # of one core: a costlier reading makes the next one wait longer
READINGS_KEPT = 8192  # 14 minutes at the shortest period
LAST_READING_SECONDS = 1.0  # a hanging driver must not delay the end of the job

# /proc/stat counts in ticks of 10 ms: half a second of one core is 50 of them, enough to tell 5 %.
STEAL_WINDOW_SECONDS = 0.5
STEAL_LIMIT = 0.05
# Low, because load on all cores and wide vector instructions also lower a healthy CPU's clock.
FREQUENCY_FLOOR = 0.5


@dataclass(frozen=True)
class CpuTicks:
    """The combined time of all CPUs since boot, in ticks."""

    busy: int
    stolen: int

    def stolen_since(self, earlier: CpuTicks) -> tuple[int, int]:
        """Return the ticks stolen by the hypervisor, and those in which CPUs had work to do."""
        stolen = max(0, self.stolen - earlier.stolen)
        return stolen, stolen + max(0, self.busy - earlier.busy)


class ThreadTime(NamedTuple):
    """A thread's time in nanoseconds: running on a CPU, and waiting for one."""

    ran: int
    waited: int

    def since(self, earlier: ThreadTime) -> ThreadTime:
        return ThreadTime(max(0, self.ran - earlier.ran), max(0, self.waited - earlier.waited))


@dataclass(frozen=True)
class Reading:
    """All values read at one moment; `at` is the time from time.perf_counter()."""

    at: float
    ticks: CpuTicks | None
    frequencies_hz: tuple[float, ...]
    gpu: Conditions  # only its GPU fields are set


class Monitor:
    """Samples the machine's state at intervals, and reports on any span of time afterwards.

    Spans are in seconds of time.perf_counter(). No method raises; unreadable values are None.
    """

    def __init__(self, device: str, gpu: nvml.Gpu | None = None, root: Path = Path("/")) -> None:
        self._on_cpu = device == "cpu"
        self._gpu = gpu
        self._stat_file = root / "proc/stat"
        policies = root / "sys/devices/system/cpu/cpufreq"
        self._frequency_files = sorted(policies.glob("policy*/scaling_cur_freq"))
        self._highest_hz = 0.0
        self._readings: deque[Reading] = deque(maxlen=READINGS_KEPT)
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._read()

    def start(self) -> None:
        """Start a thread that reads every PERIOD_SECONDS, or less often to meet CPU_BUDGET."""
        self.stop()
        self._stopping = threading.Event()
        self._thread = threading.Thread(
            target=self._run, args=(self._stopping,), name="conditions", daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        """Stop the thread, if there is one."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join(LAST_READING_SECONDS)

    def now(self) -> Conditions:
        """Take a reading; its steal covers the last STEAL_WINDOW_SECONDS or slightly more."""
        self._read()
        return self.at(time.perf_counter())

    def at(self, moment: float) -> Conditions:
        """Return the reading nearest to a moment, and the steal up to it."""
        return self.during(moment, moment)

    def during(self, start: float, end: float) -> Conditions:
        """Return the means over a span, and every slowdown seen in it."""
        readings = self._kept()
        return _conditions(_near(readings, start, end), _stolen(readings, start, end))

    def throttled(self, start: float, end: float) -> bool:
        """Return whether something other than the measured code slowed the machine during a span.

        A span counts as throttled only if one of these holds.

        - The GPU reported one of nvml.DISTURBANCES in the span, or at the nearest reading if the
          span is too short to have one.
        - The hypervisor took more than STEAL_LIMIT of the time in which CPUs had work, even without
          one tick for rounding. A span shorter than STEAL_WINDOW_SECONDS is extended backwards.
        - On the CPU: the fastest core ran below FREQUENCY_FLOOR of the highest clock seen so far.
        """
        readings = self._kept()
        near = _near(readings, start, end)
        if any(
            nvml.DISTURBANCES.intersection(reading.gpu.gpu_throttle_reasons) for reading in near
        ):
            return True
        stolen = _stolen(readings, start, end)
        if stolen is not None and stolen[0] - 1 > STEAL_LIMIT * stolen[1]:
            return True
        fastest = max((hz for reading in near for hz in reading.frequencies_hz), default=None)
        return self._on_cpu and fastest is not None and fastest < FREQUENCY_FLOOR * self._highest_hz

    def _run(self, stopping: threading.Event) -> None:
        wait = PERIOD_SECONDS
        while not stopping.wait(wait):
            before = time.thread_time()
            self._read()
            wait = max(PERIOD_SECONDS, (time.thread_time() - before) / CPU_BUDGET)

    def _read(self) -> None:
        with self._lock:  # lock the whole reading, so that readings stay in order of time
            reading = Reading(
                at=time.perf_counter(),
                ticks=_cpu_ticks(self._stat_file),
                frequencies_hz=tuple(_frequencies(self._frequency_files)),
                gpu=_gpu_state(self._gpu),
            )
            self._readings.append(reading)
            self._highest_hz = max(self._highest_hz, *reading.frequencies_hz, 0.0)

    def _kept(self) -> list[Reading]:
        with self._lock:
            return list(self._readings)


def _near(readings: Sequence[Reading], start: float, end: float) -> Sequence[Reading]:
    """Return the readings in a span, or the nearest one if there are none."""
    first = bisect_left(readings, start, key=attrgetter("at"))
    last = bisect_right(readings, end, key=attrgetter("at"))
    if first < last:
        return readings[first:last]
    around = readings[max(0, first - 1) : first + 1]
    return [min(around, key=lambda reading: max(start - reading.at, reading.at - end))]


def _stolen(readings: Sequence[Reading], start: float, end: float) -> tuple[int, int] | None:
    """Return CpuTicks.stolen_since for a span, or for the STEAL_WINDOW_SECONDS before its end.

    Whichever is longer is used. Return None if there are no ticks, or if the readings don't go back
    far enough.
    """
    last = min(bisect_left(readings, end, key=attrgetter("at")), len(readings) - 1)
    since = min(start, readings[last].at - STEAL_WINDOW_SECONDS)
    first = bisect_right(readings, since, key=attrgetter("at")) - 1
    if first < 0:
        return None
    earlier, later = readings[first].ticks, readings[last].ticks
    return later.stolen_since(earlier) if earlier and later else None


def wait_share(
    before: Mapping[str, ThreadTime] | None, after: Mapping[str, ThreadTime] | None
) -> float | None:
    """Return the share of the threads' runnable time that they spent waiting for a CPU."""
    if not (before and after):
        return None
    nothing = ThreadTime(0, 0)
    spent = [later.since(before.get(thread, nothing)) for thread, later in after.items()]
    ran, waited = map(sum, zip(*spent, strict=True))
    return waited / (ran + waited) if ran + waited else None


def mean_conditions(spans: Sequence[Conditions]) -> Conditions:
    """Combine several spans' conditions: average the known values, and keep every slowdown."""
    means = {
        name: mean_known(getattr(span, name) for span in spans)
        for name in Conditions.model_fields
        if name != "gpu_throttle_reasons"
    }
    reasons = {reason for span in spans for reason in span.gpu_throttle_reasons}
    return Conditions(gpu_throttle_reasons=tuple(sorted(reasons)), **means)


def _conditions(readings: Sequence[Reading], stolen: tuple[int, int] | None) -> Conditions:
    of_cpu = {
        "cpu_frequency_hz": mean_known(hz for reading in readings for hz in reading.frequencies_hz),
        "cpu_steal_share": stolen[0] / stolen[1] if stolen and stolen[1] else None,
    }
    return mean_conditions([reading.gpu for reading in readings]).model_copy(update=of_cpu)


def mean_known(values: Iterable[float | None]) -> float | None:
    """Return the mean of the values that are not None, or None if there are none."""
    known = [value for value in values if value is not None]
    return statistics.fmean(known) if known else None


def _gpu_state(gpu: nvml.Gpu | None) -> Conditions:
    if gpu is not None:
        with contextlib.suppress(Exception):
            reasons = gpu.event_reasons() or ()
            return Conditions(
                gpu_clock_hz=gpu.clock_hz(),
                gpu_memory_clock_hz=gpu.memory_clock_hz(),
                gpu_temperature_celsius=gpu.temperature_celsius(),
                gpu_power_watts=gpu.power_watts(),
                gpu_throttle_reasons=tuple(r for r in reasons if r in nvml.SLOWDOWNS),
            )
    return Conditions()


def _cpu_ticks(stat_file: Path) -> CpuTicks | None:
    """Read total CPU times from /proc/stat; user and nice already include guest time (proc(5))."""
    with contextlib.suppress(OSError, ValueError), stat_file.open("rb", buffering=0) as stat:
        user, nice, system, _, _, irq, softirq, steal = map(int, stat.read(512).split()[1:9])
        return CpuTicks(busy=user + nice + system + irq + softirq, stolen=steal)
    return None


def thread_times(root: Path = Path("/")) -> dict[str, ThreadTime] | None:
    """Read this process's thread times by id (Linux: Documentation/scheduler/sched-stats)."""
    found = {}
    for file in (root / "proc/self/task").glob("*/schedstat"):
        with contextlib.suppress(OSError, ValueError):  # the thread has ended meanwhile
            ran, waited, _ = map(int, file.read_text().split())
            found[file.parent.name] = ThreadTime(ran, waited)
    return found or None


def _frequencies(files: Iterable[Path]) -> Iterable[float]:
    for file in files:
        with contextlib.suppress(OSError, ValueError):
            yield int(file.read_text()) * 1e3
