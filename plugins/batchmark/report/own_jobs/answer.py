"""Where an own job runs best, in words with their figures."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from batchmark.analysis.comparison import Pair
from batchmark.analysis.notes import few_whole_jobs
from batchmark.analysis.own_jobs.records import DeadlineStep, OwnJobStudy, Place
from batchmark.core import formatting
from batchmark.core.intervals import MINIMUM_SAMPLES, Estimate
from batchmark.core.own_jobs import JobSize
from batchmark.report.own_jobs import words
from batchmark.report.own_jobs.standings import (
    Win,
    barred,
    best_at,
    by_dollars,
    by_metric,
    by_time,
    duel_of,
    main_places,
    measured,
    metrics,
    places,
)
from batchmark.report.study_parts import capitalized
from batchmark.report.words import NOT_COMPARABLE, NOT_KNOWN, StudyAnswer
from batchmark_job.result_own_job import START, Start

UNKNOWN = "Not known yet"
ALONE = "Nothing to compare"
METRICS = "What do its metrics say?"
STARTS = "Cold or warm?"
SECTION = "own-job-1"
MOST_METRICS = 3  # on the first screen


def question(study: OwnJobStudy) -> str:
    return f"Which of its targets runs {study.name} best?"


def answers(studies: Sequence[OwnJobStudy], pairs: Sequence[Pair]) -> list[tuple[str, StudyAnswer]]:
    """A question and its answer for each; the pairs know from which size a GPU is ahead."""
    return [
        (question(study), answer(study, [pair for pair in pairs if pair.suite == study.suite]))
        for study in studies
    ]


def answer(study: OwnJobStudy, pairs: Sequence[Pair] = ()) -> StudyAnswer:
    found = main_places(study)
    time, dollars = list(by_time(study, found)), list(by_dollars(study, found))
    cautions = list(_cautions(study, time, dollars))
    if not any(measured(study, place) for place in found):
        return StudyAnswer(UNKNOWN, f"No job of {study.name} left a figure.", cautions)
    if not time:
        return StudyAnswer(ALONE, _alone(study, found), cautions)
    if why := _why_barred(study, time):
        return StudyAnswer(capitalized(NOT_COMPARABLE), f"{capitalized(why)}.", cautions)
    names = words.names(study)
    parts = [
        _sentence(study, time, "fastest", names),
        _sentence(study, dollars, "cheapest", names) if dollars else "What that costs is not known",
        _crossings(pairs, found[0].start),
        _deadline(study, found, names),
    ]
    where = words.on_instances(found[0])
    text = " ".join(f"{part}." for part in parts if part)
    text += f" All of this {where}." if where else ""
    return StudyAnswer(_verdict(study, time, dollars, names), text, cautions)


def _verdict(
    study: OwnJobStudy, time: Sequence[Win], dollars: Sequence[Win], names: Mapping[str, str]
) -> str:
    """The side that is both the fastest and the cheapest, or what it depends on."""
    fastest, cheapest = (list(dict.fromkeys(win.winner for win in of)) for of in (time, dollars))
    known = [[name for name in of if name] for of in (fastest, cheapest)]
    if not any(known):
        return UNKNOWN
    if max(map(len, known)) > 1:
        return f"It depends on the {study.axis}"
    (by_time_alone, by_usd) = (names[of[0]] if of else None for of in known)
    everywhere = None not in (*fastest, *cheapest)
    if by_time_alone == by_usd:
        return str(by_time_alone) if everywhere else f"{by_time_alone}, where that is known"
    parts = [f"{by_time_alone} in time"] if by_time_alone else []
    parts += [f"{by_usd} in dollars"] if by_usd else []
    return f"{', '.join(parts)}{'' if everywhere or not by_usd else ' where that is known'}"


def _sentence(
    study: OwnJobStudy, wins: Sequence[Win], superlative: str, names: Mapping[str, str]
) -> str:
    """Which side is the fastest, or the cheapest, and by how much; by size where that changes."""
    known = [win for win in wins if win.winner]
    if not known:
        return f"The {superlative} is {NOT_KNOWN}{_guess(wins, names)}"
    winners = list(dict.fromkeys(win.winner for win in known))
    by_size = {win.place.size: names[win.winner] if win.winner else None for win in wins}
    where = words.spread(study, by_size)
    if len(winners) > 1:
        details = "; ".join(
            f"{names[name]} {_by([win for win in known if win.winner == name], names)}"
            for name in winners
            if name
        )
        return f"The {superlative} is {where} ({details})"
    name = names[str(winners[0])]
    if where:
        return f"The {superlative} is {where} ({_by(known, names)})"
    everywhere = f" at every {study.axis}" if len(wins) > 1 else ""
    return f"{name} is the {superlative}{everywhere} ({_by(known, names)})"


def _by(wins: Sequence[Win], names: Mapping[str, str]) -> str:
    """What it costs, and how many times better it is than the next."""
    paid = _range([win.usd_per_job for win in wins if win.usd_per_job])
    rivals = list(dict.fromkeys(win.next for win in wins))
    rival = names[rivals[0]] if len(rivals) == 1 else "the next"
    if len(wins) == 1:
        ratio = str(formatting.factor(wins[0].ratio))
    else:
        ratio = " to ".join(dict.fromkeys(map(_times, _ends([win.ratio for win in wins]))))
    better = f"{ratio} {'cheaper' if paid else 'faster'} than {rival}"
    return ", ".join(filter(None, (f"{paid} a job" if paid else "", better)))


def _guess(wins: Sequence[Win], names: Mapping[str, str]) -> str:
    """Who leads by the figures alone, if there is one place."""
    if len(wins) > 1:
        return ""
    leader, rival = names[wins[0].leader], names[wins[0].next]
    ratio = formatting.factor(wins[0].ratio)
    return f": {leader} leads {rival} by {ratio}, which is not enough to tell"


def _crossings(pairs: Sequence[Pair], start: Start | None) -> str:
    """From which size on a GPU or a CPU is ahead; of several rivals the one it passes last."""
    last: dict[tuple[str, str], tuple[float, str]] = {}
    for ahead, behind, word, axis, size in _passed(pairs, start):
        text = f"{ahead} is {word} than {behind} from about {axis} {formatting.about(size)} on"
        last[ahead, word] = max(last.get((ahead, word), (0.0, "")), (size, text))
    return ", ".join(text for _, text in last.values())


def _passed(
    pairs: Sequence[Pair], start: Start | None
) -> Iterator[tuple[str, str, str, str, float]]:
    """Who passes whom, in what, along which axis, at which size."""
    crossovers = [(pair, one) for pair in pairs for one in pair.crossovers]
    for pair, one in crossovers:
        sides = (pair.gpu.target, pair.cpu.target)
        for word, found in (("faster", one.warm_seconds), ("cheaper", one.warm_usd)):
            crosses = found and found.outcome == "crossover" and found.size is not None
            if found and crosses and one.parameters.get(START) == start:
                ahead, behind = sides if found.ahead_above == "gpu" else sides[::-1]
                yield ahead, behind, word, one.axis, found.size or 0.0


def _range(amounts: Sequence[Estimate]) -> str:
    if not amounts:
        return ""
    if len(amounts) == 1:
        return str(formatting.usd_figure(amounts[0]))
    return " to ".join(dict.fromkeys(formatting.usd(one.value) for one in _ends(amounts)))


def _ends(amounts: Sequence[Estimate]) -> tuple[Estimate, Estimate]:
    ordered = sorted(amounts, key=lambda one: one.value)
    return ordered[0], ordered[-1]


def _times(ratio: Estimate) -> str:
    return formatting.factor(ratio).value


def _deadline(study: OwnJobStudy, found: Sequence[Place], names: Mapping[str, str]) -> str:
    """Which side to take to be done in time; empty if no deadline was asked for."""
    if study.deadline_seconds is None:
        return ""
    limit = f"Within {formatting.size(study.deadline_seconds)} s"
    priced = [place for place in found if (best := best_at(study, place)) and best.deadlines]
    if not priced:
        return _kept_by_time(study, found, names)
    steps = {place.size: best.within for place in priced if (best := best_at(study, place))}
    kept = {size: step for size, step in steps.items() if step}
    late = [size for size, step in steps.items() if not step]
    parts = []
    if kept:
        parts.append(_steps(study, kept, names))
    if late:
        where = words.at(study, late)
        parts.append(f"no side with a price keeps it{f' at {where}' if where and kept else ''}")
    return f"{limit}: {'; '.join(parts)}"


def _steps(
    study: OwnJobStudy, kept: Mapping[JobSize | None, DeadlineStep], names: Mapping[str, str]
) -> str:
    where = words.spread(study, {size: names[step.target] for size, step in kept.items()})
    costs = sorted(step.usd_per_job for step in kept.values())
    paid = " to ".join(dict.fromkeys(map(formatting.usd, (costs[0], costs[-1]))))
    who = where or names[next(iter(kept.values())).target]
    return f"{who}, {paid} a job"


def _kept_by_time(study: OwnJobStudy, found: Sequence[Place], names: Mapping[str, str]) -> str:
    """Who keeps a deadline, where dollars are not known."""
    limit = study.deadline_seconds or 0.0
    keeping: dict[str, list[Place]] = {}
    for place in found:
        for side, figure in measured(study, place):
            ends = figure.seconds and figure.seconds.interval
            longest = ends.high if ends else figure.longest_seconds
            if longest is not None and longest <= limit:
                keeping.setdefault(names[side.target.target], []).append(place)
    parts = []
    for name, kept in keeping.items():
        where = words.at(study, [place.size for place in kept]) if len(kept) < len(found) else ""
        parts.append(f"{name} at {where}" if where else name)
    told = f"kept by {', '.join(parts)}" if parts else "no side keeps it"
    return f"Within {formatting.size(limit)} s: {told}"


def _alone(study: OwnJobStudy, found: Sequence[Place]) -> str:
    """What is known where no two sides have a figure at the same place."""
    texts = []
    for place in found:
        for side, figure in measured(study, place):
            if figure.seconds:
                usd = figure.usd_per_job
                paid = f", {formatting.usd_figure(usd)} a job" if usd else ""
                at = words.where(study, side, figure)
                texts.append(f"{at}: {formatting.time(figure.seconds)}{paid}")
    return f"No two sides have a figure at the same place: {formatting.some(texts)}."


def _cautions(study: OwnJobStudy, time: Sequence[Win], dollars: Sequence[Win]) -> Iterator[str]:
    """What keeps an answer from being known, with the remedy, each once."""
    if lacking := words.without_figure(study):
        yield f"Without a figure: {formatting.some(lacking, most=2)}; why is told below."
    wins = (*time, *(win for win in dollars if _all_priced(study, win.place)))
    undecided = [win for win in wins if not win.winner]
    if undecided and not _why_barred(study, undecided):
        yield _why_undecided(study, undecided)
    yield from dict.fromkeys(
        side.price.note
        for side in study.sides
        if side.price.note and any(job.instance_type for job in side.target.jobs)
    )


def _why_barred(study: OwnJobStudy, wins: Sequence[Win]) -> str | None:
    """Why no number of repeats would tell; None if one might, at some place."""
    duels = [duel_of(study, win.place, win.leader, win.next, win.metric) for win in wins]
    notes = {duel.noise.note for duel in duels if duel and barred(duel)}
    if not all(duel and barred(duel) for duel in duels):
        return None
    return next((note.partition(": ")[2] for note in notes if note), None)


def _all_priced(study: OwnJobStudy, place: Place) -> bool:
    return all(figure.usd_per_job for _, figure in measured(study, place))


def _why_undecided(study: OwnJobStudy, wins: Sequence[Win]) -> str:
    """Why sides can't be told apart, and what would help; of the noisiest, if jobs are enough."""
    fewest, of = min(
        (figure.jobs, side.jobs_at(win.place.size))
        for win in wins
        for side, figure in measured(study, win.place)
    )
    if fewest < MINIMUM_SAMPLES:
        return few_whole_jobs(fewest, of=of, start=wins[0].place.start)
    duels = [duel_of(study, win.place, win.leader, win.next) for win in wins]
    most = max((duel.noise.critical_change for duel in duels if duel), default=0.0)
    return (
        f"Where it is {NOT_KNOWN}, equal jobs may differ by up to {formatting.apart(most)}: more "
        "repeats would tell."
    )


def lines(studies: Sequence[OwnJobStudy]) -> Iterator[tuple[str, str, str | None]]:
    """Questions beside the main one, their answers, and the section that has more."""
    for asked, told in ((METRICS, _of_metrics), (STARTS, _other_start)):
        found = [(study.name, text) for study in studies if (text := told(study))]
        texts = [f"{name}: {text}" if len(studies) > 1 else text for name, text in found]
        if texts:
            yield asked, " ".join(texts), SECTION


def _of_metrics(study: OwnJobStudy) -> str:
    names, found = words.names(study), main_places(study)
    texts = []
    for metric in metrics(study):
        wins = list(by_metric(study, found, metric))
        known = [win for win in wins if win.winner]
        if not wins or _why_barred(study, wins):
            continue
        if not known:
            texts.append(f"{metric}: {NOT_KNOWN}")
            continue
        where = words.spread(
            study, {win.place.size: names[win.winner] if win.winner else None for win in wins}
        )
        ratio = " to ".join(dict.fromkeys(map(_times, _ends([win.ratio for win in known]))))
        ratio = str(formatting.factor(known[0].ratio)) if len(known) == 1 else ratio
        who = where or names[str(known[0].winner)]
        texts.append(f"{metric}: best on {who} ({ratio} the next)")
    return f"{formatting.some(texts, MOST_METRICS)}." if texts else ""


def _other_start(study: OwnJobStudy) -> str:
    """How the jobs of the other kind of start compare; empty where all had the same."""
    main = main_places(study)
    others = [place for place in places(study) if main and place.start != main[0].start]
    told = [place for place in others if measured(study, place)]
    texts = []
    for start in dict.fromkeys(place.start for place in told):
        own = [place for place in told if place.start == start]
        jobs = sum(figure.jobs for place in own for _, figure in measured(study, place))
        where = words.on_instances(own[0]) or "on instances of which that is not known"
        wins = list(by_time(study, own))
        names = words.names(study)
        text = _sentence(study, wins, "fastest", names) if wins else "No two sides compare"
        texts.append(f"{formatting.count(jobs, 'job')} ran {where}, apart from the others. {text}.")
    return " ".join(texts)


def trust(studies: Sequence[OwnJobStudy]) -> str:
    """How far the figures can be trusted, in a sentence or two."""
    duels = [duel for study in studies for duel in study.duels if duel.metric is None]
    text = words.checks(studies)
    if duels:
        decided = sum(duel.better is not None for duel in duels)
        text += (
            f" {decided} of {formatting.count(len(duels), 'comparison')} of times stand above "
            "the noise from job to job."
        )
    return text


def meaning() -> list[str]:
    """How to read the figures."""
    return [
        "An own job is timed as Batch has it, from its container's start to its stop, one figure a "
        "job. Waiting for an instance is told apart and is in no time and no price.",
        "A side is the fastest or the cheapest only if that is decided against each other side. "
        "Jobs on cold instances, which had to start for them, are never pooled with those on warm "
        "ones, which were there already.",
        "A side keeps a deadline if the upper end of its interval does, or where it has none, its "
        "longest job. Whether a result is right is its owner's word: an exit code, a check "
        "command, a checksum.",
    ]
