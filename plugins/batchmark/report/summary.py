"""A run in a few words: what the list of all runs shows of each, without reading its report."""

from __future__ import annotations

from pydantic import AwareDatetime, Field

from batchmark.core.record import Record
from batchmark.report.answer import cost, in_short
from batchmark.report.model import Report
from batchmark.report.studies import stories


class RunSummary(Record):
    run_id: str
    created_at: AwareDatetime
    suites: tuple[str, ...]
    gpus: tuple[str, ...]
    cpus: tuple[str, ...]
    verdict: str = Field(description="the answer in a word or two")
    sentence: str
    cost: str = Field(description="what it cost, in words")
    worse: int | None = Field(
        ge=0, description="changes for the worse that it found; null if none was looked for"
    )
    too_early: bool = Field(
        default=False, description="no change could have shown yet: too few runs came before"
    )
    usd: float | None = Field(description="of all its jobs; null where that is not known")


def summarize(report: Report) -> RunSummary:
    told = stories(report)
    verdict, sentence = in_short(told)
    studied = [study.target for study in report.studied]
    found = report.changes.changes if report.changes else ()
    return RunSummary(
        run_id=report.run_id,
        created_at=report.created_at,
        suites=_each_once(
            *(pair.suite for pair in report.pairs), *(study.suite for study in report.studied)
        ),
        gpus=_each_once(
            *(pair.gpu.target for pair in report.pairs),
            *(one.target for one in studied if one.device == "cuda"),
        ),
        cpus=_each_once(
            *(pair.cpu.target for pair in report.pairs),
            *(one.target for one in studied if one.device == "cpu"),
        ),
        verdict=verdict,
        sentence=sentence,
        cost=cost(report, told),
        worse=sum(change.points[0].worse for change in found),
        too_early=bool(report.changes and report.changes.too_early),
        usd=report.cost.usd,
    )


def _each_once(*names: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(names))
