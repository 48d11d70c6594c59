"""What the tests cost: processor seconds by file, and with `--cost` by what was started for them.

A pytest plugin. Each process tells with each report its own seconds and those of the children that it
waited for. With `--cost` the controller also looks at all processes twice a second: what ends
between two looks counts for its parent alone.
"""

from __future__ import annotations

import os
import re
import threading
from collections import Counter
from collections.abc import Generator, Iterable
from dataclasses import dataclass
from typing import Any

import psutil
import pytest

EVERY_SECONDS = 0.5
DEAREST = 10
IMPORTS = "(imports and collection)"
UNKNOWN = "(no test's)"
# What a command line is, by the first of these that it matches.
KINDS = {
    "tests": r"bin/pytest|execnet",
    "browser": r"chrom|playwright",
    "Terraform": r"terraform",
    "containers": r"docker|containerd|buildkit|\brunc\b",
    "local cloud": r"local_cloud|tests\.browser\.unguarded",
    "jobs": r"batchmark[-_]job|torchrun",
    "Airflow": r"airflow",
}
OTHER = "other programs"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--cost",
        action="store_true",
        help="print the processor seconds of every file, and of what was started for it",
    )


def pytest_configure(config: pytest.Config) -> None:
    if hasattr(config, "workerinput"):
        config.pluginmanager.register(Meter())
    else:
        config.pluginmanager.register(Bill(config.getoption("cost")))
        if not config.getoption("numprocesses", None):
            config.pluginmanager.register(Meter())


def used() -> tuple[float, float]:
    """Processor seconds of this process, and of the children that it waited for."""
    times = os.times()
    return times.user + times.system, times.children_user + times.children_system


class Meter:
    """Of a process that runs tests: each report takes along what was used since the last."""

    def __init__(self) -> None:
        self.before = (0.0, 0.0)
        self.imports: tuple[float, float] | None = None

    def since_before(self) -> tuple[float, float]:
        before, self.before = self.before, used()
        return self.before[0] - before[0], self.before[1] - before[1]

    def pytest_collection_finish(self) -> None:
        self.imports = self.since_before()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self) -> Generator[None, Any, Any]:
        report = yield
        report.processor_seconds = self.since_before()
        report.import_seconds, self.imports = self.imports, None
        return report


@dataclass
class Seen:
    """A process, and what it had used when it was last seen."""

    file: str
    kind: str = OTHER
    seconds: float = 0.0


class Watch(threading.Thread):
    """Looks at the processes that tests start, also at those that outlive their parents."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.seen: dict[tuple[int, float], Seen] = {}
        self._over = threading.Event()

    def run(self) -> None:
        while not self._over.wait(EVERY_SECONDS):
            self.look()

    def stop(self) -> None:
        self._over.set()
        self.join()

    def look(self) -> None:
        files = {pid: seen.file for (pid, _), seen in self.seen.items()}
        for process in psutil.process_iter():
            try:
                key = (process.pid, process.create_time())
                if key not in self.seen:
                    if process.create_time() < psutil.Process().create_time():
                        continue
                    test = process.environ().get("PYTEST_CURRENT_TEST", "")
                    file = test.partition("::")[0] or files.get(process.ppid(), UNKNOWN)
                    self.seen[key] = Seen(file)
                seen, times = self.seen[key], process.cpu_times()
                seen.seconds = times.user + times.system
                seen.kind = kind_of(process.cmdline())
                files[process.pid] = seen.file
            except (psutil.Error, OSError):  # it has just ended
                continue


def kind_of(command: Iterable[str]) -> str:
    line = " ".join(command)
    return next((kind for kind, words in KINDS.items() if re.search(words, line)), OTHER)


class Bill:
    """Of the controller: adds up what the processes that run tests tell."""

    def __init__(self, whole: bool) -> None:
        self.own: Counter[str] = Counter()
        self.children: Counter[str] = Counter()
        self.watch = Watch() if whole else None
        if self.watch:
            self.watch.start()

    def pytest_runtest_logreport(self, report: Any) -> None:
        file = report.nodeid.partition("::")[0]
        for name, seconds in (
            (file, getattr(report, "processor_seconds", None)),
            (IMPORTS, getattr(report, "import_seconds", None)),
        ):
            if seconds:
                self.own[name] += seconds[0]
                self.children[name] += seconds[1]

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        if self.watch:
            self.watch.stop()
        write = terminalreporter.write_line
        total = self.own + self.children
        terminalreporter.section("processor seconds")
        write(
            f"{sum(total.values()):8.0f}  all: {sum(self.own.values()):.0f} of the tests' processes, "
        )
        for file, seconds in total.most_common(None if self.watch else DEAREST):
            write(f"{seconds:8.1f} {self.own[file]:8.1f} {self.children[file]:8.1f}  {file}")
        if self.watch:
            kinds: Counter[str] = Counter()
            each: Counter[tuple[str, str]] = Counter()
            for seen in self.watch.seen.values():
                kinds[seen.kind] += seen.seconds
                each[seen.file, seen.kind] += seen.seconds
            for kind, seconds in kinds.most_common():
                write(f"{seconds:8.0f}  {kind}")
            for (file, kind), seconds in each.most_common():
                if seconds >= 1:
                    write(f"{seconds:8.1f}  {kind:12}  {file}")
