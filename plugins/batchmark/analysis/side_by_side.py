"""Compares any two targets, from one or two runs, by the rules that apply within a run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal, NamedTuple, Self, TypeVar

from pydantic import Field

from batchmark.analysis.judging.noise import NoiseTable, RowName
from batchmark.analysis.judging.significance import ENOUGH_REPEATS
from batchmark.analysis.owners_checks import check_problems
from batchmark.analysis.pairs.compared_rows import SIGNS, Row, UncomparedRow, compare_row
from batchmark.analysis.pooling import TargetJobs, TargetRecord, fell_back
from batchmark.analysis.samples import RowKey, RowSamples, kept_samples
from batchmark.analysis.sides import PricedTarget, priced_targets
from batchmark.core import formatting
from batchmark.core.errors import CollectError
from batchmark.core.formatting import target_label
from batchmark.core.intervals import MINIMUM_SAMPLES
from batchmark.core.names import run_name, target_order
from batchmark.core.prices import PriceTable
from batchmark.core.record import Record
from batchmark.core.run import CollectedJob, CollectedRun, LostJob
from batchmark.core.suites import is_own_job, suite_names
from batchmark_job.result.document import MeasurementStatus

Job = TypeVar("Job", CollectedJob, LostJob)
Verdict = Literal["faster", "slower", "no difference", "not known yet", "not comparable"]
VERDICTS: dict[int, Verdict] = {1: "faster", -1: "slower"}


@dataclass(frozen=True)
class Chosen:
    """A target chosen from a run, with its prices and calibrations."""

    run: CollectedRun
    target: str
    prices: PriceTable
    calibrations: Sequence[NoiseTable] = ()

    @cached_property
    def label(self) -> str:
        """A unique name made up of the target and the run's ID."""
        return f"{self._target} in {self.run.run_id}"

    @property
    def name(self) -> str:
        """A readable name made up of the target and a description of the run."""
        suites = suite_names(job.planned.suite for job in self.run.jobs)
        when = formatting.moment(began) if (began := self.run.began_at) else ""
        return f"{self._target} in {run_name(self.run.run_id, when, suites) or self.run.run_id}"

    @property
    def _target(self) -> str:
        on_cpu = any(fell_back(job) for job in self.run.jobs if _is_of(job, self))
        return target_label(self.target, fell_back=on_cpu)

    def follows(self, other: Chosen) -> bool:
        """Whether both are the same target and this one was measured later."""
        ours, theirs = ([job.started_at for job in side.run.jobs] for side in (self, other))
        is_later = bool(ours and theirs) and min(ours) > min(theirs)
        return is_later and self.target == other.target

    @cached_property
    def by_suite(self) -> dict[str, PricedTarget]:
        """The target's jobs by suite; the target is renamed to tell two runs of it apart.

        Raises:
            CollectError: the run has no such target or ran it on several instance types.
        """
        jobs = tuple(_renamed(job, self) for job in self.run.jobs if _is_of(job, self))
        lost = tuple(_renamed(job, self) for job in self.run.lost if _is_of(job, self))
        if not jobs and not lost:
            names = {job.planned.target for job in self.run.jobs}
            names |= {lost.planned.target for lost in self.run.lost}
            known = ", ".join(sorted(names, key=target_order))
            raise CollectError(
                f"run {self.run.run_id} has no target {self.target}: choose one of its targets "
                f"({known})"
            )
        run = self.run.model_copy(update={"jobs": jobs, "lost": lost})
        tables = [
            table.model_copy(update={"target": self.label})
            for table in self.calibrations
            if table.target == self.target
        ]
        groups = priced_targets(run, self.prices, tables)
        for group in groups:
            if len(group) > 1:
                types = ", ".join(part.pooled.instance_type for part in group)
                raise CollectError(
                    f"{self.label} ran on several instance types ({types}), so there is no single "
                    "timing to compare; the run's report lists each instance type separately"
                )
        return {target.suite: target for (target,) in groups}


class NoCommonSuiteError(CollectError):
    """Raised if the two targets have no suite in common."""


class SideBySide(Record):
    """A comparison of two targets; in its rows, `gpu` is the first and `cpu` the second."""

    suite: str
    first: TargetRecord
    second: TargetRecord
    refused: str | None = Field(description="why nothing was compared")
    rows: tuple[Row, ...] = Field(
        description="rows; a row's speedup is the second target's time divided by the first's"
    )
    uncompared: tuple[UncomparedRow, ...]


class MissingRow(NamedTuple):
    """A row that only one target measured properly, and why the other's result doesn't count."""

    row: RowName
    reason: str


def side_by_side(first: Chosen, second: Chosen) -> list[SideBySide]:
    """Compare two targets in each suite that both measured.

    Raises:
        CollectError: a run has no such target or ran it on several instance types.
        NoCommonSuiteError: the targets have no suite in common.
    """
    ours, theirs = first.by_suite, second.by_suite
    suites = [suite for suite in ours if suite in theirs]
    if not suites:
        raise NoCommonSuiteError(
            f"{first.label} measured {', '.join(ours)}, and {second.label} measured "
            f"{', '.join(theirs)}: they have no suite in common"
        )
    return [_compared(suite, *_checked(ours[suite], theirs[suite])) for suite in suites]


def missing_rows(first: Chosen, second: Chosen) -> list[MissingRow]:
    """List rows that the second target measured but the first didn't, or measured in too few jobs.

    Raises:
        CollectError: a run has no such target or ran it on several instance types.
    """
    missing = []
    for suite, target in second.by_suite.items():
        ours = first.by_suite.get(suite)
        checked = _checked(ours, target)[0] if ours else None
        missing += [
            MissingRow(RowName.of(samples.row), reason)
            for key, samples in target.pooled.samples.items()
            if samples.measured and not samples.check_problem
            if (reason := _missing(key, checked, target))
        ]
    return missing


def _missing(key: RowKey, first: PricedTarget | None, second: PricedTarget) -> str | None:
    """Return why the first target's result isn't comparable with the second's, or None if it is."""
    if first is None:
        return f"suite {second.suite} was not measured"
    if refused := first.refused or second.refused:
        return refused
    samples = first.pooled.samples.get(key, RowSamples())
    if samples.problem:
        return samples.problem
    ours, theirs = _Extent.of(key, first.pooled), _Extent.of(key, second.pooled)
    if not ours.lacks(theirs):
        return None
    reasons = [f"measured by {ours}, against {theirs}", samples.reasons()]
    if ours.stopped:
        reasons.append(f"{formatting.count(ours.stopped, 'job')} interrupted before this row")
    return "; ".join(filter(None, reasons))


class _Extent(NamedTuple):
    """How thoroughly a target measured a row: numbers of jobs, by outcome, and of samples."""

    measured: int  # jobs
    unsettled: int  # jobs whose times did not settle, which may be chance
    lost: int  # jobs that failed, or did not measure it for another reason
    stopped: int  # of these, jobs that were interrupted before they reached the row
    samples: int

    @classmethod
    def of(cls, key: RowKey, target: TargetJobs) -> Self:
        row = target.samples[key]
        unsettled = sum(one.status is MeasurementStatus.UNSETTLED for _, one in row.unmeasured)
        samples = sum(len(kept_samples(one)) for _, one in row.measured)
        began = {job.job_id for job, _ in (*row.measured, *row.unmeasured)}
        stopped = sum(_stopped(job) and job.job_id not in began for job in target.jobs)
        lost = len(row.unmeasured) - unsettled + stopped
        return cls(len(row.measured), unsettled, lost, stopped, samples)

    def __str__(self) -> str:
        jobs = formatting.count(self.measured, "job")
        return f"{jobs} with {formatting.count(self.samples, 'sample')}"

    def lacks(self, other: Self) -> bool:
        """Check whether this falls too far short of the other extent to be compared with it."""
        ran, others = self.measured + self.unsettled, other.measured + other.unsettled
        return (
            self.measured < min(other.measured, ENOUGH_REPEATS)
            or self.samples < min(other.samples, MINIMUM_SAMPLES)
            or ran < min(others, MINIMUM_SAMPLES)
            or self.lost * others > other.lost * ran
        )


def _stopped(job: CollectedJob) -> bool:
    """Check whether a job was stopped early; users' own jobs, with one size each, don't count."""
    return job.document.status == "interrupted" and job.document.own_job is None


def verdict(row: Row) -> Verdict:
    """Return in words whether the first target is faster."""
    if sign := SIGNS[row.verdict]:
        return VERDICTS[sign]
    if row.same_cpu:
        return "not comparable"
    return "no difference" if row.noise.shows_small_changes else "not known yet"


def _compared(suite: str, first: PricedTarget, second: PricedTarget) -> SideBySide:
    refused = first.refused or second.refused
    keys: Iterable[RowKey] = dict.fromkeys((*first.pooled.samples, *second.pooled.samples))
    if is_own_job(suite):  # whose documents have a size each, in the order of their files
        keys = sorted(keys, key=_numbers)
    found = [] if refused else [compare_row(key, first, second) for key in keys]
    return SideBySide(
        suite=suite,
        first=first.record,
        second=second.record,
        refused=refused,
        rows=tuple(row for row in found if isinstance(row, Row)),
        uncompared=tuple(row for row in found if isinstance(row, UncomparedRow)),
    )


def _checked(*sides: PricedTarget) -> list[PricedTarget]:
    """Bar own jobs' sizes at which the sides' outputs differ, as within a run."""
    problems = check_problems({side.pooled.name: side.pooled.jobs for side in sides})
    return [replace(side, pooled=side.pooled.checked(problems[side.pooled.name])) for side in sides]


def _numbers(key: RowKey) -> list[float]:
    _, parameters, _ = key
    return [value for _, value in parameters if isinstance(value, int | float)]


def _is_of(job: CollectedJob | LostJob, side: Chosen) -> bool:
    return job.planned.target == side.target


def _renamed(job: Job, side: Chosen) -> Job:
    planned = job.planned.model_copy(update={"target": side.label})
    return job.model_copy(update={"planned": planned})
