"""The first screen of a run's page: the answers in words, and the questions beside them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from batchmark.core import formatting
from batchmark.report import words
from batchmark.report.blocks import FirstScreen, Line, Story, StudyAnswer
from batchmark.report.change_records import ChangesSection
from batchmark.report.changes import words as change_words
from batchmark.report.model import Report
from batchmark.report.studies import stories

OUTSIDE_EC2 = "No dollars: the jobs ran on a machine outside EC2."


def first_screen(report: Report) -> FirstScreen:
    told = [*_each_caution_once(stories(report))]
    return FirstScreen(told, list(_lines(report, told)))


def _each_caution_once(told: Sequence[Story]) -> Iterator[Story]:
    said = set[str]()
    for story in told:
        answers = [
            replace(one, cautions=[text for text in one.cautions if text not in said])
            for one in story.answers
        ]
        said.update(text for one in answers for text in one.cautions)
        yield story._replace(answers=answers)


def _lines(report: Report, told: Sequence[Story]) -> Iterator[Line]:
    section = "changes" if report.tells_of_changes else None
    yield Line("Has it changed?", _changed(report.changes), section)
    for story in told:
        yield from story.lines
    trust = " ".join(story.trust for story in told if story.trust)
    yield Line("Can it be trusted?", trust, "trust" if report.pairs else None)
    anything = report.pairs or report.studied
    yield Line("What did it cost?", cost(report, told), "cost" if anything else None)


def _changed(found: ChangesSection | None) -> str:
    if found is None:
        return "Not known: this run was not held against earlier ones."
    return change_words.summary(found)


def cost(report: Report, told: Sequence[Story]) -> str:
    """What a run cost, in words; `told` are its stories."""
    if report.cost.usd is not None:
        not_paid = [f"not included: {story.not_paid[0]}" for story in told if story.not_paid]
        left_out = "; ".join(filter(None, (report.cost.reason, *not_paid)))
        left_out = f" ({left_out})" if left_out else ""
        return f"{formatting.usd(report.cost.usd)}, {words.JOB_COSTS}{left_out}."
    if words.outside_ec2(report.pairs, report.studied):
        return OUTSIDE_EC2
    return report.cost.reason or "Not known."


def answer_lines(screen: FirstScreen) -> Iterator[str]:
    """What the first screen says, for a terminal: the answers, then the questions beside them."""
    for story in screen.stories:
        for answer in story.answers:
            text = answer.text(between="\n")
            yield f"{answer.question} {answer.verdict}. {text}"
            yield from answer.cautions
    yield from (f"{line.question} {line.answer}" for line in screen.lines)


def in_short(told: Sequence[Story]) -> tuple[str, str]:
    """A run's verdict in a word or two, and its sentence: of what it asked first."""
    answers = told[0].answers
    return _of_all([one for one in answers if one.is_known] or answers)


def _of_all(answers: Sequence[StudyAnswer]) -> tuple[str, str]:
    """An answer in a few words and a sentence: of each study if there are several."""
    if len({one.verdict for one in answers}) == 1:
        return answers[0].verdict, " ".join(one.text() for one in answers)
    return "It depends", " ".join(f"{one.verdict}: {one.text()}" for one in answers)
