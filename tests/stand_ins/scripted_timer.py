"""A clock that tests move, and a timer on it that tells durations from a list."""

import time

from batchmark_job.measuring.samples.sampling import Timer


class Clock:
    """In the place of time.perf_counter; each reading moves it by `reading` seconds."""

    def __init__(self, monkeypatch, *, reading=0.0):
        self.now = 100.0
        self._reading = reading
        monkeypatch.setattr(time, "perf_counter", self.read)

    def read(self):
        self.now += self._reading
        return self.now


class ScriptedTimer(Timer):
    """The durations move the clock."""

    name = "monotonic"

    def __init__(self, durations, monkeypatch, *, reading=0.0):
        self._durations = iter(durations)
        self._clock = Clock(monkeypatch, reading=reading)

    def seconds(self, call):
        duration = next(self._durations)
        self._clock.now += duration
        return duration, call()
