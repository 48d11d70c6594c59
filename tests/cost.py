"""What the tests cost: processor seconds of the dearest files; with `--cost` of all, by program.

A plugin of pytest. Each process that runs tests tells with each report what it used, and what its
children had used when it had waited for them. With `--cost` all that the tests started is
looked at twice a second, too, so that what outlives its parent is counted as well; what ends
between two looks counts for its parent alone.
"""

import os
import re
import threading
from collections import Counter
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

import psutil
import pytest

MARKER = "BATCHMARK_TESTS"  # in the environment of what a run of pytest starts: its process id
EVERY_SECONDS = 0.5
DEAREST = 10
IMPORTS = "(imports and collection)"
SHARED = "(the end of what files share)"
# What a command line is, by the first of these that it matches.
PROGRAMS = {
    "tests": r"(bin/|-m )pytest|pytest-xdist|execnet|tests\.warm_imports",
    "browser": r"chrom|playwright",
    "Terraform": r"terraform",
    "engine": r"dockerd|docker |containerd|buildkit|\brunc\b",
    "local cloud": r"local_cloud|tests\.browser\.unguarded",
    "jobs": r"batchmark[-_]job|torchrun",
    "Airflow": r"airflow",
}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--cost", action="store_true", help="processor seconds of all files, by program"
    )


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        os.environ[MARKER] = str(os.getpid())
        config.pluginmanager.register(Bill(Watch() if config.getoption("cost") else None))
    if hasattr(config, "workerinput") or not config.getoption("numprocesses", None):
        config.pluginmanager.register(Meter())


class Meter:
    """Of a process that runs tests: the last report of each file takes along what the file used."""

    def __init__(self) -> None:
        self._told = (0.0, 0.0)
        self._imports: tuple[float, float] | None = None
        self._next: pytest.Item | None = None

    def _used(self) -> tuple[float, float]:
        """Processor seconds since the last call: of this process, of children it waited for."""
        now, told = os.times(), self._told
        self._told = now.user + now.system, now.children_user + now.children_system
        return self._told[0] - told[0], self._told[1] - told[1]

    def pytest_collection_finish(self) -> None:
        self._imports = self._used()

    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> None:
        self._next = nextitem

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, Any, Any]:
        report = yield
        is_end = call.when == "teardown"
        # The very last test's end is the end of Airflow and its like, which others have used.
        if self._next is None or (is_end and self._next.path != item.path):
            file = SHARED if self._next is None and is_end else report.nodeid.partition("::")[0]
            report.processor_seconds = [(file, self._used())]
            if self._imports:
                report.processor_seconds.append((IMPORTS, self._imports))
                self._imports = None
        return report


@dataclass
class Process:
    file: str
    program: str
    seconds: float  # when it was last seen


class Watch(threading.Thread):
    """Looks at the processes that tests start."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self._seen: dict[tuple[int, float], Process] = {}
        self._over = threading.Event()

    def run(self) -> None:
        while not self._over.wait(EVERY_SECONDS):
            self.look()

    def look(self) -> None:
        files = {pid: process.file for (pid, _), process in self._seen.items()}
        for found in psutil.process_iter():
            try:
                key = (found.pid, found.create_time())
                known = self._seen.get(key)
                if file := known.file if known else file_of(found) or files.get(found.ppid()):
                    times, files[found.pid] = found.cpu_times(), file
                    seconds = times.user + times.system
                    # One that is just ending has no command line any more.
                    program = program_of(found.cmdline()) or (known.program if known else "")
                    self._seen[key] = Process(file, program, seconds)
            except (psutil.Error, OSError):  # it has just ended
                continue

    def stop(self) -> Counter[tuple[str, str]]:
        """The seconds of each file and program."""
        self._over.set()
        self.join()
        used: Counter[tuple[str, str]] = Counter()
        for process in self._seen.values():
            used[process.file, process.program] += process.seconds
        return used


def file_of(process: psutil.Process) -> str | None:
    """The file whose test started a process; None for what is no business of this run."""
    env = process.environ()
    if env.get(MARKER) != str(os.getpid()):
        return None
    return env.get("PYTEST_CURRENT_TEST", IMPORTS).partition("::")[0]


def program_of(command: list[str]) -> str:
    """Of the table, or the name of its file."""
    line = " ".join(command)
    named = (name for name, words in PROGRAMS.items() if re.search(words, line))
    return next(named, os.path.basename(command[0]) if command else "")


class Bill:
    """Of the controller: adds up what the reports tell."""

    def __init__(self, watch: Watch | None) -> None:
        self._own: Counter[str] = Counter()
        self._children: Counter[str] = Counter()
        self._watch = watch
        if watch:
            watch.start()

    def pytest_runtest_logreport(self, report: Any) -> None:
        for file, (own, children) in getattr(report, "processor_seconds", ()):
            self._own[file] += own
            self._children[file] += children

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        used, write = self._own + self._children, terminalreporter.write_line
        if not used:
            return
        terminalreporter.section("processor seconds: all, of the tests, of children that ended")
        write(
            f"{sum(used.values()):8.0f} {sum(self._own.values()):8.0f} "
            f"{sum(self._children.values()):8.0f}  all files"
        )
        for file, seconds in used.most_common(None if self._watch else DEAREST):
            write(f"{seconds:8.1f} {self._own[file]:8.1f} {self._children[file]:8.1f}  {file}")
        if self._watch:
            self._write_programs(self._watch.stop(), terminalreporter)

    def _write_programs(self, used: Counter[tuple[str, str]], terminalreporter: Any) -> None:
        terminalreporter.section("processor seconds: by program, also of what outlived its parent")
        programs: Counter[str] = Counter()
        for (_, program), seconds in used.items():
            programs[program] += seconds
        for program, seconds in programs.most_common():
            terminalreporter.write_line(f"{seconds:8.0f}  {program}")
        for (file, program), seconds in used.most_common():
            if seconds >= 0.1:
                terminalreporter.write_line(f"{seconds:8.1f}  {program:14}  {file}")
