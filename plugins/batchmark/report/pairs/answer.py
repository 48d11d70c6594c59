"""Says whether the GPU pays off across all target pairs, or what prevents an answer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from statistics import median

from batchmark.analysis.judging.advice import undecided
from batchmark.analysis.pairs.answer import Answer, Measure, Standing, find_answer
from batchmark.analysis.pairs.notes import few_jobs_note
from batchmark.core import formatting
from batchmark.core.formatting import Others
from batchmark.core.intervals import MINIMUM_SAMPLES, Estimate
from batchmark.report import words
from batchmark.report.blocks import Cell, Colour, Matrix, Story, StudyAnswer
from batchmark.report.model import Report
from batchmark.report.words import AHEAD, NOT_KNOWN

QUESTION = "Does the GPU pay off?"
ROWS = (
    "A row is decided only if its whole interval lies on one side of 1 and noise from job to job "
    "doesn't explain it. Beside each speedup: that noise (one standard deviation) with its "
    "source, and the smallest change that this run would find in 95 of 100 cases.",
    "Efficiency is (CPU price × CPU time) / (GPU price × GPU time). Its interval comes from the "
    "times; prices are taken as exact.",
)
CALLS = (
    "First calls are timed separately and never part of a median. Samples taken while the device "
    "was throttled stay in the document, but not in the median if enough others remain.",
    "Each row runs the fastest correct implementation from a short trial on the same inputs.",
    "Shares of what a machine can do refer to rates measured in the same jobs: a large matrix "
    "product, and a large copy or sum, whichever is faster.",
    "Whole jobs include start-up, inputs, first calls and every sample taken, so they say more "
    "about this benchmark than about the workloads.",
)


def story(report: Report) -> Story | None:
    """Build the first screen's part about pairs; None if the run has only other studies."""
    if report.studied and not report.pairs:
        return None
    answers: list[Answer] = [find_answer(report.pairs, name) for name in Measure]
    known = [answer for answer in answers if answer.workloads]
    of_calls = any(not words.is_own_job(pair) for pair in report.pairs)
    return Story(
        "answer",
        _title(report),
        [_headline(report, known)],
        _trust(report) if of_calls or not report.studied else "",
        list(_meaning(report, of_calls=of_calls)),
        matrices=[_matrix(answer) for answer in known],
    )


def _title(report: Report) -> str:
    if not report.pairs:
        return "Batchmark report"
    suites = dict.fromkeys(pair.suite for pair in report.pairs)
    gpus = dict.fromkeys(map(words.gpu_label, report.pairs))
    cpus = dict.fromkeys(pair.cpu.target for pair in report.pairs)
    names = [formatting.shortened_list(list(one), most=1) for one in (suites, gpus, cpus)]
    return f"{names[0]}: {names[1]} against {names[2]}"


def _meaning(report: Report, *, of_calls: bool) -> Iterator[str]:
    if report.pairs:
        yield from ROWS
        yield (
            f"Dollars per {'call' if of_calls else 'job'}, efficiency, which target is cheaper, "
            "crossovers in dollars and cold starts use the On-Demand prices of both targets, "
            "however their instances were bought. Job costs use the price at which each job's "
            "instance was bought."
        )
    yield from CALLS if of_calls else ()


def _headline(report: Report, known: Sequence[Answer]) -> StudyAnswer:
    """Build the overall answer; `known` holds the known answers by measure, time before dollars."""
    obstacles = list(_obstacles(report, known))
    if not known:
        return StudyAnswer.unknown(QUESTION, *_why_unknown(report), obstacles)
    counts = [_count(answer, known[0].rows()) for answer in known]
    if len(known) == 1:
        counts.append("what that costs is not known")
    rows = formatting.count(known[0].rows(), "row")
    cpus = {pair.cpu.target for pair in report.pairs}
    rivals = " against the best CPU target" if len(cpus) > 1 else ""
    sentence = f"Of {rows}{rivals}, the GPU is {'; '.join(counts)}."
    return StudyAnswer(QUESTION, _verdict(known), sentence, obstacles)


def _verdict(known: Sequence[Answer]) -> str:
    """Return the verdict by dollars if known, else by time."""
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


def _why_unknown(report: Report) -> tuple[str, str]:
    """Say why there is no answer, and what to do about it."""
    if not report.pairs:
        both = "Run it on at least one of each."
        return "No GPU target was compared with a CPU target", both
    if all(pair.cpu_fallback for pair in report.pairs):
        remedy = "Run it on a machine with a GPU"
        if all(map(words.is_own_job, report.pairs)):
            remedy += ", which helps only if the command uses it"
        return "No GPU was measured: all jobs ran on a CPU", f"{remedy}."
    refused = [pair.refused for pair in report.pairs if pair.refused]
    if refused:
        return f"Nothing was compared: {refused[0]}", words.AGAIN
    return "No row was measured on both sides; the reasons are below", words.AGAIN


def _obstacles(report: Report, known: Sequence[Answer]) -> Iterator[str]:
    """Yield each obstacle to an answer once, with any remedy."""
    if any(answer.rows("unknown") for answer in known):
        compared = [pair for pair in report.pairs if pair.rows and not pair.cpu_fallback]
        of_calls = [pair for pair in compared if not words.is_own_job(pair)]
        jobs = [len(side.jobs) for pair in of_calls for side in (pair.gpu, pair.cpu)]
        if (fewest := min(jobs, default=MINIMUM_SAMPLES)) < MINIMUM_SAMPLES:
            yield few_jobs_note(fewest)
        elif noises := [
            row.noise
            for pair in of_calls
            for row in pair.rows
            if row.verdict == "undecided" and not row.same_cpu
        ]:
            yield undecided(noises, fewest)
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
        beside = [end for standing in workload.standings for end in _ends(standing)]
        name = workload.workload + (f", {workload.dtype}" if len(dtypes) > 1 else "")
        rows.append((name, [_cell(by_gpu.get(gpu), answer.measure, beside) for gpu in answer.gpus]))
    return Matrix(answer.measure, _caption(answer), list(answer.gpus), rows)


def _caption(answer: Answer) -> str:
    cpus = {duel.cpu for one in answer.workloads for of in one.standings for duel in of.duels}
    rival = next(iter(cpus)) if len(cpus) == 1 else "the CPU target that is best at each size"
    amounts = "times" if answer.measure == Measure.TIME else "dollars"
    return (
        f"Each GPU target against {rival}. Ratios of {amounts} are CPU / GPU over the "
        "decided rows, if any."
    )


def _cell(standing: Standing | None, measure: Measure, beside: Others) -> Cell | None:
    if standing is None:
        return None
    ahead, behind = AHEAD[measure]
    rows, wins, losses = len(standing.duels), standing.rows("gpu"), standing.rows("cpu")
    unknown = rows - wins - losses
    note = f"{unknown} of {rows} {NOT_KNOWN}" if unknown and unknown < rows else ""
    word, colour = _word(standing, ahead, behind, wins, losses)
    ends = [formatting.factor(end, beside) for end in _ends(standing)]
    ratio = " to ".join(end.value for end in ends) if len(ends) > 1 else str(ends[0])
    return Cell(word, ratio, note, colour)


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


def _ends(standing: Standing) -> list[Estimate]:
    """Return the smallest and largest ratios of the decided rows, or of all if none is decided."""
    decided = [duel for duel in standing.duels if duel.winner != "unknown"]
    ratios = sorted(
        (duel.ratio for duel in decided or standing.duels), key=lambda ratio: ratio.value
    )
    return [ratios[0], ratios[-1]] if len(ratios) > 1 else ratios


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
        f"Times differ beyond the noise from job to job in {decided} of "
        f"{formatting.count(len(rows), 'row')}; the median noise over the rows is {floor} "
        f"({source})."
    )
    doubtful = sum(bool(row.warnings) for row in rows)
    return f"{text} {formatting.count(doubtful, 'row')} to read with care." if doubtful else text
