"""Builds the first screen of a run's page, and the run's entry in the list of all runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from pydantic import AwareDatetime, Field

from batchmark.core import formatting
from batchmark.core.record import Record
from batchmark.report import words
from batchmark.report.blocks import FirstScreen, Line, Story
from batchmark.report.changes import words as change_words
from batchmark.report.studies import stories

if TYPE_CHECKING:
    from batchmark.report.model import Report

OUTSIDE_EC2 = "No cost in dollars: the jobs ran on a machine outside EC2."


def first_screen(report: Report) -> FirstScreen:
    told = [*_each_caution_once(stories(report))]
    return FirstScreen(told, list(_lines(report, told)))


def _each_caution_once(told: Sequence[Story]) -> Iterator[Story]:
    said = set[str]()
    for story in told:
        answers = [
            one._replace(cautions=[text for text in one.cautions if text not in said])
            for one in story.answers
        ]
        said.update(text for one in answers for text in one.cautions)
        yield story._replace(answers=answers)


def _lines(report: Report, told: Sequence[Story]) -> Iterator[Line]:
    section = "changes" if report.tells_of_changes else None
    changed = (
        "Not known: this run was not compared with earlier runs. See the log of its task "
        "detect_regressions for the reason."
    )
    if report.changes:
        changed = change_words.summary(report.changes)
    yield Line("Has it changed?", changed, section)
    for story in told:
        yield from story.lines
    trust = " ".join(story.trust for story in told if story.trust)
    yield Line("Can it be trusted?", trust, "trust" if report.pairs else None)
    anything = report.pairs or report.studied
    yield Line("What did it cost?", cost(report, told), "cost" if anything else None)


def cost(report: Report, told: Sequence[Story]) -> str:
    """Say what a run cost; `told` contains a Story for each kind of study in it."""
    if report.cost.usd is not None:
        not_paid = [f"not included: {story.not_paid[0]}" for story in told if story.not_paid]
        left_out = "; ".join(filter(None, (report.cost.reason, *not_paid)))
        left_out = f" ({left_out})" if left_out else ""
        return f"{formatting.usd(report.cost.usd)}, {words.JOB_COSTS}{left_out}."
    if words.outside_ec2(report.targets):
        return OUTSIDE_EC2
    return report.cost.reason or "Nothing: no job ran."


def answer_lines(screen: FirstScreen) -> Iterator[str]:
    """Yield the first screen as terminal lines: main answers, then other questions and answers."""
    for story in screen.stories:
        for answer in story.answers:
            yield from answer.lines
            yield from answer.cautions
    yield from (f"{line.question} {line.answer}" for line in screen.lines)


def _in_short(told: Sequence[Story]) -> tuple[str, str]:
    """Return a short verdict and its explanation for the run's first kind of study."""
    answers = [one for one in told[0].answers if one.is_known] or told[0].answers
    if len({one.verdict for one in answers}) == 1:
        return answers[0].verdict, " ".join(one.text() for one in answers)
    return "It depends", " ".join(f"{one.verdict}: {one.text()}" for one in answers)


class RunSummary(Record):
    """A run's entry in the list of all runs, stored separately from its report."""

    run_id: str
    created_at: AwareDatetime
    suites: tuple[str, ...]
    gpus: tuple[str, ...]
    cpus: tuple[str, ...]
    verdict: str = Field(description="the answer in a few words")
    sentence: str
    cost: str = Field(description="the run's cost, in words")
    worse: int | None = Field(
        ge=0, description="number of changes for the worse; null if the history was not searched"
    )
    worse_since: AwareDatetime | None = Field(
        default=None, description="when the first of these changes began"
    )
    too_early: bool = Field(
        default=False, description="whether there were too few earlier runs to detect a change"
    )
    usd: float | None = Field(description="cost of all its jobs in USD; null if unknown")


def summarize(report: Report) -> RunSummary:
    told = stories(report)
    verdict, sentence = _in_short(told)
    devices = {(one.target, one.device): None for one in report.targets}
    found = report.changes.changes if report.changes else ()
    worse = [change for change in found if change.points[0].worse]
    return RunSummary(
        run_id=report.run_id,
        created_at=report.created_at,
        suites=report.suites,
        gpus=tuple(name for name, device in devices if device == "cuda"),
        cpus=tuple(name for name, device in devices if device == "cpu"),
        verdict=verdict,
        sentence=sentence,
        cost=cost(report, told),
        worse=len(worse) if report.changes else None,
        worse_since=min((point.since for change in worse for point in change.points), default=None),
        too_early=bool(report.changes and report.changes.too_early),
        usd=report.cost.usd,
    )
