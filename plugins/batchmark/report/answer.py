"""The first screen of a run's page: the answer in words, its matrix, and what stands in the way."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Literal

from batchmark.analysis.answer import Answer, Duel, Measure, Standing, find_answer
from batchmark.analysis.notes import few_jobs
from batchmark.core import formatting
from batchmark.core.intervals import MINIMUM_SAMPLES
from batchmark.report import change_words, words
from batchmark.report.blocks import Line, Story, StudyAnswer
from batchmark.report.studies import stories
from batchmark.report.words import NOT_KNOWN

if TYPE_CHECKING:
    from batchmark.report.changes import ChangesSection
    from batchmark.report.model import Report

QUESTION = "Does the GPU pay off?"
Colour = Literal["gpu", "cpu", "both", "unknown"]
NO_FILE_SYSTEM = "not included: the file system"
OUTSIDE_EC2 = "No dollars: the jobs ran on a machine outside EC2."
AHEAD = {Measure.TIME: ("faster", "slower"), Measure.DOLLARS: ("cheaper", "dearer")}


@dataclass(frozen=True)
class Cell:
    """A GPU target in all rows of a workload: a verdict, its ratios, what qualifies it."""

    word: str
    ratio: str
    note: str
    colour: Colour


@dataclass(frozen=True)
class Matrix:
    """Verdicts by workload, one column for each GPU target."""

    measure: Measure
    caption: str
    gpus: list[str]
    rows: list[tuple[str, list[Cell | None]]]


@dataclass(frozen=True)
class FirstScreen:
    """Verdict and sentence are empty where a run has studies of one target and no pairs."""

    verdict: str
    sentence: str
    obstacles: list[str]
    matrices: list[Matrix]
    lines: list[Line]
    stories: Sequence[Story] = ()


def first_screen(report: Report) -> FirstScreen:
    answers: list[Answer] = [find_answer(report.pairs, name) for name in Measure]
    known = [answer for answer in answers if answer.workloads]
    asks_otherwise = report.studied and not report.pairs
    verdict, sentence = ("", "") if asks_otherwise else headline(report, known)
    told = stories(report)
    said = {caution for story in told for answer in story.answers for caution in answer.cautions}
    return FirstScreen(
        verdict=verdict,
        sentence=sentence,
        obstacles=[text for text in _obstacles(report, known) if text not in said],
        matrices=[_matrix(answer) for answer in known],
        lines=list(_lines(report, told)),
        stories=told,
    )


def headline(report: Report, known: Sequence[Answer]) -> tuple[str, str]:
    """The answer in a word or two, and in a sentence; `known` holds time's, then dollars'."""
    if not known:
        return "Not known", _why_unknown(report)
    counts = [_count(answer, known[0].rows()) for answer in known]
    if len(known) == 1:
        counts.append("what that costs is not known")
    rows = formatting.count(known[0].rows(), "row")
    rivals = " against the best CPU target" if len(_targets(report, "cpu")) > 1 else ""
    return _verdict(known), f"Of {rows}{rivals}, the GPU is {'; '.join(counts)}."


def _verdict(known: Sequence[Answer]) -> str:
    """By dollars where they are known, as that is what has to pay off."""
    last = known[-1]
    rows, ahead, behind = last.rows(), last.rows("gpu"), last.rows("cpu")
    in_time = last.measure == Measure.TIME
    never_in_time = known[0].rows("cpu") == known[0].rows()
    if ahead == rows:
        return "Yes, in time" if in_time else "Yes"
    if behind == rows:
        return "No, not in time" if in_time else "No" if never_in_time else "No, not in dollars"
    if not ahead and not behind:
        return "Not known yet"
    return "It depends"


def _count(answer: Answer, rows: int) -> str:
    ahead, behind = AHEAD[answer.measure]
    parts = [f"{ahead} in {answer.rows('gpu')}", f"{behind} in {answer.rows('cpu')}"]
    if unknown := answer.rows("unknown"):
        parts.append(f"{NOT_KNOWN} in {unknown}")
    text = ", ".join(parts)
    return text if answer.rows() == rows else f"{text} of the {answer.rows()} with prices"


def _why_unknown(report: Report) -> str:
    if not report.pairs:
        return "No GPU target was compared with a CPU target."
    if all(pair.cpu_fallback for pair in report.pairs):
        return "No GPU was measured: all jobs ran on a CPU."
    refused = [pair.refused for pair in report.pairs if pair.refused]
    return (
        f"Nothing was compared: {refused[0]}" if refused else "No row was measured on both sides."
    )


def _targets(report: Report, side: Literal["gpu", "cpu"]) -> set[str]:
    return {getattr(pair, side).target for pair in report.pairs}


def _obstacles(report: Report, known: Sequence[Answer]) -> Iterator[str]:
    """What keeps an answer from being known, with the remedy, each once."""
    if any(answer.rows("unknown") for answer in known):
        compared = [pair for pair in report.pairs if pair.rows and not pair.cpu_fallback]
        of_calls = [pair for pair in compared if not words.is_own_job(pair)]
        jobs = [len(side.jobs) for pair in of_calls for side in (pair.gpu, pair.cpu)]
        if (fewest := min(jobs, default=MINIMUM_SAMPLES)) < MINIMUM_SAMPLES:
            yield few_jobs(fewest)
    if len(known) == 1:
        bases = (basis for pair in report.pairs for basis in (pair.gpu_price, pair.cpu_price))
        yield from dict.fromkeys(basis.note for basis in bases if basis.note)
    if known:
        yield from dict.fromkeys(
            f"{pair.label} is not compared: {pair.refused}" for pair in report.pairs if pair.refused
        )


def _matrix(answer: Answer) -> Matrix:
    dtypes = {workload.dtype for workload in answer.workloads}
    rows = []
    for workload in answer.workloads:
        by_gpu = {standing.gpu: standing for standing in workload.standings}
        name = workload.workload + (f", {workload.dtype}" if len(dtypes) > 1 else "")
        rows.append((name, [_cell(by_gpu.get(gpu), answer.measure) for gpu in answer.gpus]))
    return Matrix(answer.measure, _caption(answer), list(answer.gpus), rows)


def _caption(answer: Answer) -> str:
    cpus = {duel.cpu for one in answer.workloads for of in one.standings for duel in of.duels}
    rival = next(iter(cpus)) if len(cpus) == 1 else "the CPU target that is best at each size"
    amounts = "times" if answer.measure == Measure.TIME else "dollars"
    return (
        f"Each GPU target against {rival}; ratios are of {amounts}, CPU / GPU, over the rows that "
        "are decided, if any is."
    )


def _cell(standing: Standing | None, measure: Measure) -> Cell | None:
    if standing is None:
        return None
    ahead, behind = AHEAD[measure]
    rows, wins, losses = len(standing.duels), standing.rows("gpu"), standing.rows("cpu")
    unknown = rows - wins - losses
    note = f"{unknown} of {rows} {NOT_KNOWN}" if unknown and unknown < rows else ""
    word, colour = _word(standing, ahead, behind, wins, losses)
    return Cell(word, _ratios(standing.duels), note, colour)


def _word(
    standing: Standing, ahead: str, behind: str, wins: int, losses: int
) -> tuple[str, Colour]:
    if not wins and not losses:
        return NOT_KNOWN, "unknown"
    if not losses:
        return ahead, "gpu"
    if not wins:
        return behind, "cpu"
    crossing = standing.crossover
    if crossing and crossing.monotonic:
        gpu_above = crossing.ahead_above == "gpu"
        word, sizes = (ahead, crossing.gpu_ahead) if gpu_above else (behind, crossing.cpu_ahead)
        return f"{word} from {standing.axis} {formatting.size(min(sizes))}", "both"
    return f"{ahead} in {wins} of {len(standing.duels)}", "both"


def _ratios(duels: Sequence[Duel]) -> str:
    """Of the rows that are decided, if any is."""
    decided = [duel for duel in duels if duel.winner != "unknown"]
    ratios = sorted((duel.ratio for duel in decided or duels), key=lambda ratio: ratio.value)
    if len(ratios) == 1:
        return str(formatting.factor(ratios[0]))
    return f"{formatting.factor(ratios[0]).value} to {formatting.factor(ratios[-1]).value}"


def _lines(report: Report, told: Sequence[Story]) -> Iterator[Line]:
    open_alerts = report.alerts and report.alerts.lines
    has_section = open_alerts or (report.changes and report.changes.says_more)
    yield Line("Has it changed?", _changed(report.changes), "changes" if has_section else None)
    for story in told:
        yield from story.lines
    of_calls = any(not words.is_own_job(pair) for pair in report.pairs)
    trust = [story.trust for story in told]
    trust += [_trust(report)] if of_calls or not told else []
    yield Line("Can it be trusted?", " ".join(trust), "trust" if report.pairs else None)
    yield Line("What did it cost?", cost(report), "cost" if report.pairs or told else None)


def _changed(found: ChangesSection | None) -> str:
    if found is None:
        return "Not known: this run was not held against earlier ones."
    return change_words.summary(found)


def _trust(report: Report) -> str:
    rows = [row for pair in report.pairs if not pair.cpu_fallback for row in pair.rows]
    if not rows:
        return "There is no verdict to trust yet."
    decided = sum(row.verdict != "undecided" for row in rows)
    sources = Counter(row.noise.source for row in rows)
    source = ", ".join(f"{name} for {count}" for name, count in sources.items())
    source = next(iter(sources)) if len(sources) == 1 else source
    floor = formatting.noise(median(row.noise.floor for row in rows))
    text = (
        f"{decided} of {formatting.count(len(rows), 'verdict')} on time stand above the noise from "
        f"job to job, whose median over the rows is {floor} ({source})."
    )
    doubtful = sum(bool(row.warnings) for row in rows)
    return f"{text} {formatting.count(doubtful, 'row')} to read with care." if doubtful else text


def cost(report: Report) -> str:
    if report.cost.usd is not None:
        files = NO_FILE_SYSTEM if any(study.reads_files for study in report.scaling) else None
        left_out = "; ".join(filter(None, (report.cost.reason, files)))
        left_out = f" ({left_out})" if left_out else ""
        return f"{formatting.usd(report.cost.usd)}, {words.JOB_COSTS}{left_out}."
    if words.outside_ec2(report.pairs, report.studied):
        return OUTSIDE_EC2
    return report.cost.reason or "Not known."


def answer_lines(report: Report) -> Iterator[str]:
    """The answers in words, and what stands in the way, for a terminal."""
    screen = first_screen(report)
    for story in screen.stories:
        for answer in story.answers:
            text = answer.text(between="\n")
            yield f"{answer.question} {answer.verdict}. {text}"
            yield from answer.cautions
    for story in screen.stories:
        yield from (f"{line.question} {line.answer}" for line in story.lines)
    if screen.verdict:
        yield f"{QUESTION} {screen.verdict}. {screen.sentence}"
        yield from screen.obstacles


def in_short(report: Report) -> tuple[str, str]:
    """A run's verdict in a word or two, and its sentence: of its studies, if it has any."""
    screen = first_screen(report)
    if not screen.stories:
        return screen.verdict, screen.sentence
    answers = screen.stories[0].answers
    return _of_all([one for one in answers if one.is_known] or answers)


def _of_all(answers: Sequence[StudyAnswer]) -> tuple[str, str]:
    """An answer in a few words and a sentence: of each study if there are several."""
    if len({one.verdict for one in answers}) == 1:
        return answers[0].verdict, " ".join(one.text() for one in answers)
    return "It depends", " ".join(f"{one.verdict}: {one.text()}" for one in answers)
