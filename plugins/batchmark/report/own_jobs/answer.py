"""Says where a user's own job runs best, in words and figures."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from batchmark.analysis.judging.advice import undecided
from batchmark.analysis.judging.noise import SMALL_CHANGE
from batchmark.analysis.own_jobs.records import JobFigure, OwnJobStudy, Place
from batchmark.analysis.owners_checks import OUTPUTS_DIFFER
from batchmark.analysis.pairs.notes import few_whole_jobs_note
from batchmark.analysis.pairs.pair import Pair
from batchmark.core import formatting
from batchmark.core.intervals import MINIMUM_SAMPLES
from batchmark.core.own_jobs import SHORT_SECONDS
from batchmark.report.blocks import Line, Story, StudyAnswer, capitalized
from batchmark.report.model import Report
from batchmark.report.own_jobs import sentences, standings, words
from batchmark.report.own_jobs.standings import Win
from batchmark.report.words import (
    AGAIN,
    NO_DIFFERENCE,
    NOT_COMPARABLE,
    NOT_KNOWN,
    extent,
    measured_target,
    outside_ec2,
)

UNKNOWN = "Not known yet"
ALONE = "Nothing to compare"
MAY_DIFFER = "If they may, leave out output, and let a check judge them."
METRICS = "What do the metrics show?"
STARTS = "Cold or warm?"
SECTION = "own-job-1"
MEANING = (
    "Batch times your own job from its container's start to its stop: one figure per job. Waiting "
    "for an instance is reported separately and is not part of any time or price.",
    "A side is called the fastest or the cheapest only if it beats every other side beyond noise. "
    "Two sides have no difference if their jobs would have shown one above "
    f"{formatting.percent(SMALL_CHANGE)}. "
    "Jobs on cold instances, which were started for them, are never pooled with jobs on warm ones, "
    "which were already running.",
    "A side meets a deadline if all its jobs met it, and the upper end of its interval (if any) "
    "does too; the next job may still miss it. The owner decides whether a result is right: by "
    "exit code, check command or checksum.",
)
MOST_METRICS = 3  # on the first screen


def question(study: OwnJobStudy) -> str:
    of = "side" if study.existing else "target"
    where = words.charted(study)
    return f"Which {of} runs {study.name} best{f' {where}' if where else ''}?"


def story(report: Report) -> Story | None:
    """Build the first screen's part about users' own jobs; None if the run has none."""
    found = report.of(OwnJobStudy)
    if not found:
        return None
    answers = [
        answer(study, [pair for pair in report.pairs if pair.suite == study.suite])
        for study in found
    ]
    targets = dict.fromkeys(measured_target(one.target) for study in found for one in study.studied)
    jobs = formatting.shortened_list([study.name for study in found], most=1)
    return Story(
        "own-jobs",
        f"{jobs} on {formatting.shortened_list(list(targets))}",
        answers,
        trust(found),
        MEANING,
        lines=list(_lines(found)),
    )


def answer(study: OwnJobStudy, pairs: Sequence[Pair] = ()) -> StudyAnswer:
    """Say which side runs a user's own job best; `pairs` show from which size a GPU is ahead."""
    found, asked = standings.main_places(study), question(study)
    time, dollars = list(standings.by_time(study, found)), list(standings.by_dollars(study, found))
    cautions = list(_cautions(study, time, dollars))
    if not any(standings.measured(study, place) for place in found):
        if words.outputs_differ(study):
            nothing = f"No result of {study.name} counts: {OUTPUTS_DIFFER}"
            return StudyAnswer.unknown(asked, nothing, MAY_DIFFER, cautions)
        nothing = f"No job of {study.name} produced a figure; the reasons are below"
        return StudyAnswer.unknown(asked, nothing, AGAIN, cautions)
    if not time:
        more = [f"{text}."] if (text := sentences.deadline(study, found)) else []
        return StudyAnswer(asked, ALONE, _alone(study, found), cautions, more)
    if why := _why_barred(study, time):
        return StudyAnswer(asked, capitalized(NOT_COMPARABLE), f"{capitalized(why)}.", cautions)
    more = [
        sentences.ahead(study, found, dollars, sentences.CHEAPEST, pairs)
        if dollars
        else _cost(study, found)
    ]
    more += [text] if (text := sentences.deadline(study, found)) else []
    return StudyAnswer(
        asked,
        _verdict(study, time, dollars),
        f"{sentences.ahead(study, found, time, sentences.FASTEST, pairs)}.",
        cautions,
        more=[f"{text}." for text in more if text],
    )


def _cost(study: OwnJobStudy, found: Sequence[Place]) -> str:
    """Say what a job costs if no two sides can be compared in dollars; empty outside EC2."""
    priced = [one for place in found for one in standings.priced_at(study, place)]
    names = dict.fromkeys(measured_target(side.target) for side, _ in priced)
    if len(names) != 1:
        is_elsewhere = outside_ec2([side.target for side in study.sides])
        return "" if is_elsewhere else "What that costs is not known"
    paid = sentences.usd_range([usd.value for _, usd in priced])
    return f"Only {next(iter(names))} has a price: {paid} a job"


def _verdict(study: OwnJobStudy, time: Sequence[Win], dollars: Sequence[Win]) -> str:
    """Name the fastest and cheapest sides, or say what the answer depends on."""
    names = words.names(study)
    found = [
        {sentences.called(win, names) for win in wins} - {NOT_KNOWN} for wins in (time, dollars)
    ]
    leading = [of - {NO_DIFFERENCE} or of for of in found]
    if not any(leading):
        return UNKNOWN
    if max(map(len, leading)) > 1:
        return f"It depends on the {study.axis}"
    by_time, by_usd = (next(iter(of), "") for of in leading)
    open_still = not all(sentences.everywhere(study, of) for of in (time, dollars) if of)
    where = "where that is known" if open_still else ""
    if max(map(len, found)) > 1:
        where = f"where they {'are known to ' if open_still else ''}differ"
    if by_time == by_usd or (by_time == NO_DIFFERENCE and not dollars):
        told = ", ".join(filter(None, (by_time, where)))
    else:
        sides = ((by_time, "in time"), (by_usd, "in dollars"))
        told = ", ".join(f"{side} {measure}" for side, measure in sides if side)
        told = f"{told} {where}".rstrip()
    return capitalized(told) if told.startswith(NO_DIFFERENCE) else told


def _alone(study: OwnJobStudy, found: Sequence[Place]) -> str:
    """Say what is known when no two sides can be compared."""
    there = [(side, figure) for place in found for side, figure in standings.measured(study, place)]
    names = dict.fromkeys(measured_target(side.target) for side, _ in there)
    if len(names) > 1:
        texts = [f"{words.where(study, [one])[0]}: {_amounts(one[1])}" for one in there]
        return (
            "No two sides have figures for the same size and start: "
            f"{formatting.shortened_list(texts)}."
        )
    texts = [
        ": ".join(filter(None, (words.at(study, [figure.place.size]), _amounts(figure))))
        for _, figure in there
    ]
    has = "was measured" if len(study.sides) == 1 else "has a figure"
    return f"Only {next(iter(names))} {has}: {'; '.join(texts[: sentences.MOST_SIZES])}."


def _amounts(figure: JobFigure) -> str:
    time = str(formatting.time(figure.seconds)) if figure.seconds else ""
    paid = f"{formatting.usd_figure(figure.usd_per_job)} a job" if figure.usd_per_job else ""
    return ", ".join(filter(None, (time, paid)))


def _cautions(study: OwnJobStudy, time: Sequence[Win], dollars: Sequence[Win]) -> Iterator[str]:
    """Yield each caution about the answer once."""
    if lacking := words.without_figure(study):
        yield (
            f"No figure for {formatting.shortened_list(lacking, most=2)}; see below for the "
            "reasons."
        )
    yield from words.idle_gpus(study)
    if short := words.short_sizes(study):
        where = f" at {text}" if (text := sentences.at(study, short)) else ""
        yield (
            f"The command took less than {SHORT_SECONDS:g} s{where}: on AWS, "
            "jobs this short mostly measure the container's start. Give each more work."
        )
    unknown = [win for win in (*time, *dollars) if not win.decided]
    if unknown and not _why_barred(study, unknown):
        yield _why_undecided(study, unknown)
    if dollars and (otherwise := words.bought_otherwise(study)):
        yield otherwise
    yield from dict.fromkeys(
        side.price.note
        for side in study.sides
        if side.price.note and any(job.instance_type for job in side.target.jobs)
    )


def _why_barred(study: OwnJobStudy, wins: Sequence[Win]) -> str | None:
    """Say why more repeats can't settle the comparison; None if they might."""
    duels = [standings.duel_of(study, win.place, win.leader, win.next, win.metric) for win in wins]
    notes = {duel.noise.note for duel in duels if duel and standings.barred(duel)}
    if not all(duel and standings.barred(duel) for duel in duels):
        return None
    return next((note.partition(": ")[2] for note in notes if note), None)


def _why_undecided(study: OwnJobStudy, wins: Sequence[Win]) -> str:
    """Say why the sides are undecided (too few jobs, or noise) and what would help."""
    fewest, of = min(
        (figure.jobs, side.jobs_at(win.place.size))
        for win in wins
        for side, figure in standings.measured(study, win.place)
    )
    if fewest < MINIMUM_SAMPLES:
        return few_whole_jobs_note(fewest, of=of, start=wins[0].place.start)
    duels = [standings.duel_of(study, win.place, win.leader, win.next) for win in wins]
    noises = [duel.noise for duel in duels if duel]
    return undecided(noises, fewest, short=bool(words.short_sizes(study)))


def _lines(studies: Sequence[OwnJobStudy]) -> Iterator[Line]:
    """Yield each secondary question, its answer, and the section that gives details."""
    for asked, told in ((METRICS, _of_metrics), (STARTS, _other_start)):
        found = [(study.name, text) for study in studies if (text := told(study))]
        texts = [f"{name}: {text}" if len(studies) > 1 else text for name, text in found]
        if texts:
            yield Line(asked, " ".join(texts), SECTION)


def _of_metrics(study: OwnJobStudy) -> str:
    names, found = words.names(study), standings.main_places(study)
    texts = []
    for told, metric in words.metric_names(study).items():
        wins = list(standings.by_metric(study, found, told))
        if not wins or _why_barred(study, wins):
            continue
        if not any(win.decided for win in wins):
            texts.append(f"{metric}: {NOT_KNOWN}, more repeats would tell")
            continue
        known = [win for win in wins if win.winner]
        winners = {win.place.size: sentences.called(win, names) for win in wins}
        alone = len({*winners.values()}) == 1 and sentences.everywhere(study, wins)
        who = next(iter(winners.values())) if alone else sentences.spread(study, winners)
        best = f"best on {who} ({sentences.ratios(known)} the next)" if known else who
        texts.append(f"{metric}: {best}")
    left = len(texts) - MOST_METRICS
    more = f" and {formatting.count(left, 'more metric')}" if left > 0 else ""
    return f"{'; '.join(texts[:MOST_METRICS])}{more}." if texts else ""


def _other_start(study: OwnJobStudy) -> str:
    """Compare the sides for each kind of start but the most common; empty if there is no other."""
    main = standings.main_places(study)
    others = [place for place in standings.places(study) if main and place.start != main[0].start]
    told = [place for place in others if standings.measured(study, place)]
    texts = []
    for start in dict.fromkeys(place.start for place in told):
        own = [place for place in told if place.start == start]
        jobs = sum(figure.jobs for place in own for _, figure in standings.measured(study, place))
        where = words.on_instances(own[0]) or "on instances whose start is not known"
        wins = list(standings.by_time(study, own))
        text = (
            sentences.ahead(study, own, wins, sentences.FASTEST)
            if wins
            else "No two sides can be compared"
        )
        ran = f"{formatting.count(jobs, 'job')} ran {where} (compared separately from the others)"
        more = "" if all(win.decided for win in wins) else " Each run adds to their trend."
        texts.append(f"{ran}. {text}.{more}")
    return " ".join(texts)


def trust(studies: Sequence[OwnJobStudy]) -> str:
    """Say how far the figures can be trusted, in a sentence or two."""
    times = [(study, duel) for study in studies for duel in study.duels if duel.metric is None]
    duels = [duel for _, duel in times if not standings.barred(duel)]
    barred = [(study, duel) for study, duel in times if standings.barred(duel)]
    text = words.checks(studies)
    if duels:
        decided = sum(duel.better is not None for duel in duels)
        text += (
            f" Times differ beyond the noise in {decided} of "
            f"{formatting.count(len(duels), 'comparison')}; of equal sides about 1 in 100 would."
        )
    if barred:
        jobs = [
            figure.jobs
            for study, duel in barred
            for _, figure in standings.measured(study, duel.place)
        ]
        most = formatting.difference_text(max(duel.noise.critical_change for _, duel in barred))
        text += (
            f" With {extent(jobs, str)} {'job' if max(jobs) == 1 else 'jobs'} a side, identical "
            f"jobs may differ by up to {most}."
        )
    return text
