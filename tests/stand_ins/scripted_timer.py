"""A timer that tells durations from a list, on a clock of its own."""

import time

from batchmark_job.measuring.samples.sampling import Timer


class ScriptedTimer(Timer):
    """The durations move the clock, and each reading moves it by `reading` seconds."""

    name = "monotonic"

    def __init__(self, durations, monkeypatch, *, reading=0.0):
        self._durations = iter(durations)
        self._reading = reading
        self._now = 100.0
        monkeypatch.setattr(time, "perf_counter", self.read)

    def read(self):
        self._now += self._reading
        return self._now

    def seconds(self, call):
        duration = next(self._durations)
        self._now += duration
        return duration, call()
