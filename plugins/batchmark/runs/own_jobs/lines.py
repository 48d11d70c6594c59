"""Parses the marked lines in the log of a user's own job: facts from its wrapper, and metrics.

Jobs can print anything, so invalid facts are ignored, and unusable metric lines are reported. To
keep the command from faking facts, facts about the machine count only before the command starts
(the first wins), and facts about its end only after that (the last wins). The latter count even if
the start of the log is lost. Facts must carry the first key seen, which the wrapper hides from the
job's processes. Facts without a key count only if no line has one, as in earlier releases.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, datetime
from typing import Literal, NamedTuple, TypeVar

from batchmark.aws.job_log import FACT_MARK, FILE_MARK, MARKS, MarkedLine
from batchmark.core.own_jobs import MOST_BAD_LINES
from batchmark_job.result.metric import (
    MOST_LINES,
    PREFIX,
    MetricLine,
    MetricLineError,
    parse_metric_line,
)
from batchmark_job.result.own_job import BadLine
from batchmark_job.result.values import EARLIEST, END, MOST_CHARACTERS_OF_NAME

MOST_GPUS = 64  # judgment: above any instance's; a job may print any number of lines
SHOWN_CHARACTERS = 200  # of a bad line, and of what is wrong with it
KIB = 2**10
MIB = 2**20
MOST_COUNT = 2**31 - 1  # the most that a document holds
MOST_SECONDS = 1e9  # likewise
MACHINE = ("cpu_model", "threads", "memory_bytes", "kernel", "gpus")  # facts about it
# In place of an output's SHA-256, if it is missing, or if there is no program to hash it.
MISSING, UNKNOWN = "missing", "unknown"
# A random UUID, or a hyphen if the machine can't provide one.
KEY = re.compile(r"([0-9a-f-]{36}|-) ")
NOT_THE_WRAPPERS = "not written by the wrapper: its key is missing or wrong"
OUTSIDE = "BATCHMARK_METRICS does not name a file in the job's folder, so another file was used"
ELSEWHERE = f"the line does not begin with {PREFIX.strip()} and a space"

Source = Literal["log", "file"]
_Value = TypeVar("_Value")


class Gpu(NamedTuple):
    """A GPU as described by nvidia-smi; None for missing values."""

    name: str
    driver_version: str | None
    memory_bytes: int | None


class GpuBusy(NamedTuple):
    """A job's GPU utilisation, based on samples from all its GPUs."""

    samples: int
    mean_percent: float
    most_percent: float
    most_memory_bytes: int


@dataclass
class Facts:
    """Facts reported by the wrapper; None if missing or invalid."""

    began: bool = False
    began_at: datetime | None = None
    began_uptime: float | None = None
    cpu_model: str | None = None
    threads: int | None = None
    memory_bytes: int | None = None
    kernel: str | None = None
    gpus: list[Gpu] = field(default_factory=list)
    exit_code: int | None = None
    ended_uptime: float | None = None
    busy_share: float | None = None
    peak_memory_bytes: int | None = None
    gpu_busy: GpuBusy | None = None
    check_exit_code: int | None = None
    output_sha256: str | None = None
    no_sha256: str | None = None  # MISSING or UNKNOWN, where that was told instead
    is_over: bool = False  # whether that was all

    @property
    def command_seconds(self) -> float | None:
        """The command's run time by the host's monotonic clock; None if unknown or impossible."""
        if self.began_uptime is None or self.ended_uptime is None:
            return None
        seconds = self.ended_uptime - self.began_uptime
        return seconds if 0 <= seconds <= MOST_SECONDS else None

    def note(self, key: str, value: str, milliseconds: int) -> None:
        if key == "begin" and not self.began:
            self._forget_the_end()
            self.began = True
            self.began_at = _moment(milliseconds)
            self.began_uptime = _number(value.split(), 1)
            return
        if not self.began:
            self._note_of_the_machine(key, value)
        self._note_of_the_end(key, value)

    def _forget_the_end(self) -> None:
        """Discard facts about the end that came before the beginning: they aren't the wrapper's."""
        for name, nothing in OF_THE_COMMAND.items():
            setattr(self, name, nothing)

    def _note_of_the_machine(self, key: str, value: str) -> None:
        words = value.split()
        match key:
            case "cpu":
                self.cpu_model = self.cpu_model or _name(value)
            case "threads":
                self.threads = self.threads or _whole(words, 0, most=MOST_COUNT)
            case "memory_kib":
                self.memory_bytes = self.memory_bytes or (_whole(words, 0) or 0) * KIB or None
            case "kernel":
                self.kernel = self.kernel or _name(value)
            case "gpu" if len(self.gpus) < MOST_GPUS and (gpu := _gpu(value)):
                self.gpus.append(gpu)

    def _note_of_the_end(self, key: str, value: str) -> None:
        words = value.split()
        match key:
            case "end" if (code := _whole(words, 0, most=255)) is not None:
                self.exit_code, self.ended_uptime = code, _number(words, 1)
            case "busy":
                self.busy_share = _told(_share(words), self.busy_share)
            case "peak_memory":
                self.peak_memory_bytes = _told(_whole(words, 0), self.peak_memory_bytes)
            case "gpu_busy":
                self.gpu_busy = _told(_gpu_busy(words), self.gpu_busy)
            case "check":
                self.check_exit_code = _told(_whole(words, 0, most=255), self.check_exit_code)
            case "sha256":
                said = value.strip().lower()
                self.no_sha256 = said if said in (MISSING, UNKNOWN) else None
                self.output_sha256 = said if re.fullmatch(r"[0-9a-f]{64}", said) else None
            case "over":
                self.is_over = True


OF_THE_COMMAND = {each.name: each.default for each in fields(Facts) if each.name not in MACHINE}


@dataclass
class JobOutput:
    """The content of a job's marked lines, with a limited number of metrics and bad lines."""

    facts: Facts = field(default_factory=Facts)
    metrics: list[MetricLine] = field(default_factory=list)
    metrics_left_out: int = 0
    bad_lines: list[BadLine] = field(default_factory=list)
    bad_lines_left_out: int = 0
    is_known: bool = True  # whether the log could be read
    _key: str = ""  # of all facts, with a blank behind it
    # Facts until there is a key, with their lines' numbers; the first ones.
    _keyless: list[tuple[int | None, str]] = field(default_factory=list)
    _at: int | None = None  # the line's number in the log
    _seen: Counter[Source] = field(default_factory=Counter)
    _higher_is_better: dict[tuple[str, str], bool] = field(default_factory=dict)

    @property
    def by_a_shell(self) -> bool:
        """Whether the wrapper wrote anything: a key, facts about the command, or file metrics."""
        facts = vars(self.facts)
        spoke = any(facts[name] != nothing for name, nothing in OF_THE_COMMAND.items())
        return bool(self._key) or spoke or self._seen["file"] > 0

    def take(self, line: MarkedLine) -> None:
        mark = next((mark for mark in MARKS if line.text.startswith(mark)), "")
        told, self._at = line.text.removeprefix(mark), line.number
        if mark == FACT_MARK:
            self._take_fact(told, line.milliseconds)
        elif mark:
            self._take_metric("file" if mark == FILE_MARK else "log", told)
        else:
            self._take_bad("log", told, ELSEWHERE)

    def _take_fact(self, told: str, milliseconds: int) -> None:
        key = match[0] if (match := KEY.match(told)) else ""
        name, _, value = told.removeprefix(key).partition(" ")
        if key and not self._key:
            self._take_key(key)
        if key != self._key:
            self._take_bad("log", told, NOT_THE_WRAPPERS)
            return
        if not key and len(self._keyless) < MOST_BAD_LINES:
            self._keyless.append((self._at, told))
        if name == "metrics_outside":
            self._take_bad("log", value, OUTSIDE)
        elif name == "metrics_left_out":
            self.metrics_left_out += _whole(value.split(), 0, most=MOST_COUNT) or 0
        else:
            self.facts.note(name, value, milliseconds)

    def _take_key(self, key: str) -> None:
        """Adopt the first key, and report earlier, keyless lines as not written by the wrapper."""
        self._key, self.facts, here = key, Facts(), self._at
        for at, told in self._keyless:
            self._at = at
            self._take_bad("log", told, NOT_THE_WRAPPERS)
        self._at = here

    def _take_metric(self, source: Source, text: str) -> None:
        try:
            metric = parse_metric_line(text)
        except MetricLineError as error:
            self._take_bad(source, text, str(error))
            return
        told = self._higher_is_better.setdefault(
            (metric.metric, metric.unit), metric.higher_is_better
        )
        if metric.higher_is_better != told:
            problem = (
                f"higher_is_better was {str(told).lower()} in the first line of {metric.metric}"
            )
            self._take_bad(source, text, problem)
            return
        self._seen[source] += 1
        if len(self.metrics) < MOST_LINES:
            self.metrics.append(metric)
        else:
            self.metrics_left_out += 1

    def _take_bad(self, source: Source, text: str, problem: str) -> None:
        self._seen[source] += 1
        if len(self.bad_lines) == MOST_BAD_LINES:
            self.bad_lines_left_out += 1
            return
        shown, said = text[:SHOWN_CHARACTERS], problem[:SHOWN_CHARACTERS]
        number, at = self._seen[source], self._at if source == "log" else None
        self.bad_lines.append(
            BadLine(source=source, number=number, log_line=at, text=shown, problem=said)
        )

    def with_log_lines(self, numbered: JobOutput) -> JobOutput:
        """Add line numbers from another reading of the log, or of just its beginning."""
        found = {line.number: line.log_line for line in numbered.bad_lines if line.source == "log"}
        lines = [
            line.model_copy(update={"log_line": found.get(line.number)})
            if line.source == "log"
            else line
            for line in self.bad_lines
        ]
        return replace(self, bad_lines=lines)


NOT_KNOWN = JobOutput(is_known=False)


def read_lines(lines: Iterable[MarkedLine]) -> JobOutput:
    told = JobOutput()
    for line in lines:
        told.take(line)
    return told


def _told(new: _Value | None, before: _Value | None) -> _Value | None:
    return before if new is None else new


def _number(words: list[str], place: int) -> float | None:
    """Parse the word at `place` as a non-negative number; None if it isn't one."""
    if place >= len(words) or not re.fullmatch(r"[0-9]{1,18}(\.[0-9]{1,9})?", words[place]):
        return None
    return float(words[place])


def _whole(words: list[str], place: int, *, most: int = 2**50) -> int | None:
    number = _number(words, place)
    return int(number) if number is not None and number <= most else None


def _share(words: list[str]) -> float | None:
    busy, of_all = _number(words, 0), _number(words, 1)
    return min(1.0, busy / of_all) if busy is not None and of_all else None


def _gpu_busy(words: list[str]) -> GpuBusy | None:
    samples, memory = _whole(words, 0, most=MOST_COUNT), _whole(words, 3, most=2**30)
    mean, most = _number(words, 1), _number(words, 2)
    if not samples or mean is None or most is None or memory is None:
        return None
    return GpuBusy(samples, min(mean, 100.0), min(most, 100.0), memory * MIB)


def _gpu(value: str) -> Gpu | None:
    name, *others = (part.strip() for part in value.split(","))
    if not name:
        return None
    driver = others[0] if others else ""
    memory = _whole(others, 1, most=2**30)
    return Gpu(name[:MOST_CHARACTERS_OF_NAME], _name(driver), memory and memory * MIB)


def _name(value: str) -> str | None:
    return " ".join(value.split())[:MOST_CHARACTERS_OF_NAME] or None


def _moment(milliseconds: int) -> datetime | None:
    if not EARLIEST.timestamp() <= milliseconds / 1000 < END.timestamp():
        return None
    return datetime.fromtimestamp(milliseconds / 1000, tz=UTC)
