"""Says in short sentences which side is fastest or cheapest, and which sides meet a deadline."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from batchmark.analysis.own_jobs.records import DeadlineStep, OwnJobStudy, Place
from batchmark.analysis.pairs.pair import Pair
from batchmark.core import formatting
from batchmark.core.own_jobs import JobSize
from batchmark.report.blocks import grouped
from batchmark.report.own_jobs import words
from batchmark.report.own_jobs.standings import Win, best_at, measured, priced_at
from batchmark.report.words import NO_DIFFERENCE, NOT_KNOWN, extent, measured_target
from batchmark_job.result.own_job import START

MOST_SIZES = 6  # named in a sentence
FASTEST, CHEAPEST = "Fastest", "Cheapest"
BETTER = {FASTEST: "faster", CHEAPEST: "cheaper"}


def ahead(
    study: OwnJobStudy,
    found: Sequence[Place],
    wins: Sequence[Win],
    what: str,
    pairs: Sequence[Pair] = (),
) -> str:
    """Name the fastest or cheapest side and its lead, by size if the winner varies."""
    text = _winners(study, wins, what, _crossing(pairs, found[0], wins))
    lone = _lone(study, found) if what == FASTEST else ""
    return f"{text}; {lone}" if lone else text


def _winners(study: OwnJobStudy, wins: Sequence[Win], what: str, crossing: float | None) -> str:
    names = words.names(study)
    unpriced = what == CHEAPEST and _unpriced(study, [win.place for win in wins])
    title = f"{what} of those with a price" if unpriced else what
    if not any(win.decided for win in wins):
        return f"{title}: {NOT_KNOWN}{_guess(wins, names)}"
    known = [win for win in wins if win.winner]
    winners = {win.place.size: called(win, names) for win in wins}
    if len(set(winners.values())) == 1:
        every = f" at every {study.axis}" if len(wins) > 1 else ""
        where = every if everywhere(study, wins) else f" at {at(study, [*winners])}"
        if not known:
            return f"{title}: {NO_DIFFERENCE}{where}"
        rivals = {win.next for win in known}
        rival = names[rivals.pop()] if len(rivals) == 1 else "the next"
        by = f"{ratios(known)} {BETTER[what]} than {rival}"
        return f"{title}: {names[known[0].leader]}{where} ({_costs(known)}{by})"
    of = {win.leader: [one for one in known if one.leader == win.leader] for win in known}
    shared = len(of) > 1
    notes = {
        names[name]: f" ({'' if shared else _costs(its)}by {ratios(its, interval=not shared)})"
        for name, its in of.items()
    }
    paid = [win.usd_per_job.value for win in known if win.usd_per_job]
    costs = f", {usd_range(paid)} a job" if paid and shared else ""
    return f"{title}: {spread(study, winners, notes, crossing)}{costs}"


def called(win: Win, names: Mapping[str, str]) -> str:
    """Name the winner, or say that there is none."""
    if win.winner:
        return names[win.winner]
    return NO_DIFFERENCE if win.alike else NOT_KNOWN


def _unpriced(study: OwnJobStudy, of: Sequence[Place]) -> bool:
    """Return whether any measured side lacks a price."""
    return any(best.unpriced for place in of if (best := best_at(study, place)))


def everywhere(study: OwnJobStudy, wins: Sequence[Win]) -> bool:
    """Return whether the result is known at every size of the study."""
    return {win.place.size for win in wins if win.decided} == set(words.sizes(study))


def at(study: OwnJobStudy, sizes: Sequence[JobSize | None]) -> str:
    """Name the first few sizes as `words.at` does, and say how many more there are."""
    more = f" and {len(sizes) - MOST_SIZES} more" if len(sizes) > MOST_SIZES else ""
    return f"{words.at(study, sizes[:MOST_SIZES])}{more}"


def spread(
    study: OwnJobStudy,
    winners: Mapping[JobSize | None, str],
    notes: Mapping[str, str] | None = None,
    crossing: float | None = None,
) -> str:
    """List winners by size, such as "a up to size 64, b from size 256".

    Args:
        winners: what `called` returns, by size.
        notes: text to append to each winner's sizes, by name.
        crossing: the size at which the second of two winners takes over, if known.
    """
    ordered = sorted(winners, key=lambda size: size or 0.0)
    of = grouped((winners[size], size) for size in ordered)
    without = [(word, of.pop(word)) for word in (NO_DIFFERENCE, NOT_KNOWN) if word in of]
    if _in_turn(words.sizes(study), [*of.values()]):
        (_, low), *middle, (_, high) = of.items()
        places = [f"up to {at(study, low[-1:])}"]
        places += [f"at {at(study, sizes)}" for _, sizes in middle]
        places.append(f"from {at(study, high[:1])}")
        if crossing and len(of) == 2 and (low[-1] or 0) <= crossing <= (high[0] or 0):
            places = [
                f"up to about {study.axis} {formatting.two_digits(crossing)}",
                "from there on",
            ]
    else:
        places = [f"at {where}" if (where := at(study, sizes)) else "" for sizes in of.values()]
    parts = [
        " ".join(filter(None, (name, place))) + (notes or {}).get(name, "")
        for name, place in zip(of, places, strict=True)
    ]
    parts += [f"{word} at {at(study, sizes)}" for word, sizes in without]
    return ", ".join(parts)


def _in_turn(
    sizes: Sequence[JobSize | None], of_winners: Sequence[Sequence[JobSize | None]]
) -> bool:
    """Return whether several winners take turns, each leading one unbroken range of sizes.

    The first range must begin at the smallest size, and the last must end at the largest.
    """
    places = [[sizes.index(size) for size in of] for of in of_winners]
    if len(places) < 2 or places[0][0] != 0 or places[-1][-1] != len(sizes) - 1:
        return False
    return all(after == before + 1 for of in places for before, after in pairwise(of))


def ratios(wins: Sequence[Win], *, interval: bool = True) -> str:
    """Format the wins' ratios as a range, from smallest to largest."""
    if len(wins) == 1 and interval:
        return str(formatting.factor(wins[0].ratio))
    ordered = sorted((win.ratio for win in wins), key=lambda ratio: ratio.value)
    ends = (ordered[0], ordered[-1])
    return " to ".join(dict.fromkeys(formatting.factor(one, ends).value for one in ends))


def _costs(wins: Sequence[Win]) -> str:
    paid = [win.usd_per_job for win in wins if win.usd_per_job]
    if len(paid) == 1:
        return f"{formatting.usd_figure(paid[0])} a job, "
    return f"{usd_range([one.value for one in paid])} a job, " if paid else ""


def usd_range(amounts: Sequence[float]) -> str:
    return extent(amounts, formatting.usd)


def _guess(wins: Sequence[Win], names: Mapping[str, str]) -> str:
    """Say which side leads, judging by the figures alone; empty if there are several places."""
    if len(wins) > 1:
        return ""
    leader, rival = names[wins[0].leader], names[wins[0].next]
    ratio = formatting.factor(wins[0].ratio)
    return f"; {leader} leads {rival} by {ratio}, which is inconclusive"


def _lone(study: OwnJobStudy, found: Sequence[Place]) -> str:
    """Name each side that is the only one with a figure at some sizes."""
    there = [(place.size, measured(study, place)) for place in found]
    lone = grouped((measured_target(of[0][0].target), size) for size, of in there if len(of) == 1)
    return ", ".join(
        f"at {at(study, sizes)} only {name} has a figure" for name, sizes in lone.items()
    )


def _crossing(pairs: Sequence[Pair], place: Place, wins: Sequence[Win]) -> float | None:
    """Find the size from which the winner at the largest size beats the one at the smallest."""
    passed = [*_passed(pairs, place, in_dollars=bool(wins[0].usd_per_job))]
    ordered = sorted(wins, key=lambda win: win.place.size or 0.0)
    sides = (ordered[-1].winner, ordered[0].winner)
    return next((size for *of, size in passed if tuple(of) == sides), None)


def _passed(
    pairs: Sequence[Pair], place: Place, *, in_dollars: bool
) -> Iterator[tuple[str, str, float]]:
    """Yield each crossover: the target ahead above it, the target ahead below it, and its size."""
    crossovers = [(pair, one) for pair in pairs for one in pair.crossovers]
    for pair, one in crossovers:
        found = one.warm_usd if in_dollars else one.warm_seconds
        crosses = found and found.outcome == "crossover" and found.size is not None
        if found and crosses and one.parameters.get(START) == place.start:
            sides = (pair.gpu.target, pair.cpu.target)
            above, below = sides if found.ahead_above == "gpu" else sides[::-1]
            yield above, below, found.size or 0.0


def deadline(study: OwnJobStudy, found: Sequence[Place]) -> str:
    """Name the side to choose for the deadline, if any; empty if no deadline was set."""
    if study.deadline_seconds is None:
        return ""
    limit = f"Within {formatting.size(study.deadline_seconds)} s"
    if not any(priced_at(study, place) for place in found):
        return _kept_by_time(study, found, limit)
    steps = {place.size: best.within for place in found if (best := best_at(study, place))}
    kept = {size: step for size, step in steps.items() if step}
    late = [size for size, step in steps.items() if not step]
    parts = [_steps(study, kept)] if kept else []
    if late:
        of = " with a price" if _unpriced(study, found) else ""
        parts.append(f"none{of} at {at(study, late)}" if kept else f"no side{of} met the deadline")
    by = _all_jobs([step.jobs for step in kept.values()])
    return f"{limit}{by}: {'; '.join(parts)}"


def _all_jobs(numbers: Sequence[int]) -> str:
    """Say that all jobs met the deadline; empty unless there were several."""
    if not numbers:
        return ""
    few, many = min(numbers), max(numbers)
    jobs = few if few == many else f"{few} to {many}"
    return f" (all {jobs} jobs met it)" if many > 1 else ""


def _steps(study: OwnJobStudy, kept: Mapping[JobSize | None, DeadlineStep]) -> str:
    who = {size: step_names(study, step) for size, step in kept.items()}
    paid = usd_range([step.usd_per_job for step in kept.values()])
    if len({*who.values()}) == 1 and {*kept} == {*words.sizes(study)}:
        return f"{next(iter(who.values()))}, {paid} a job"
    return f"{spread(study, who)}, {paid} a job"


def step_names(study: OwnJobStudy, step: DeadlineStep) -> str:
    """Name the cheapest side that meets a deadline, and any that might be just as cheap."""
    names = words.names(study)
    return " or ".join(names[name] for name in (step.target, *step.rivals))


def _kept_by_time(study: OwnJobStudy, found: Sequence[Place], limit: str) -> str:
    """Say which sides meet the deadline when costs are unknown."""
    keeping = [
        (measured_target(side.target), figure)
        for place in found
        for side, figure in measured(study, place)
        if figure.kept_seconds and figure.kept_seconds <= (study.deadline_seconds or 0.0)
    ]
    parts = []
    for name, kept in grouped(keeping).items():
        every = len(kept) == len(found)
        where = f"every {study.axis}" if every else at(study, [one.place.size for one in kept])
        parts.append(f"{name} at {where}" if len(found) > 1 else name)
    by = _all_jobs([figure.jobs for _, figure in keeping])
    return f"{limit}{by}: {', '.join(parts) or 'no side met the deadline'}"
