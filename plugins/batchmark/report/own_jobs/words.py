"""Names and figures of own jobs, the same on the page and on the terminal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby

from batchmark.analysis.own_jobs.records import JobFigure, JobSide, MetricFigure, OwnJobStudy, Place
from batchmark.core import formatting
from batchmark.core.formatting import Figure
from batchmark.core.own_jobs import JobSize
from batchmark.report.own_jobs.standings import main_places
from batchmark.report.study_parts import by_text
from batchmark.report.words import NOT_KNOWN, measured_target
from batchmark_job.result_own_job import BadLine

CHECKS = {"exit_code": "exit code", "command": "a check command", "checksum": "checksum"}
SOURCES = {"log": "of the log", "file": "of the file"}
LEAST_USD = 0.01  # of an amount that is easily read
MANY = ((1.0, ""), (1e3, "thousand "), (1e6, "million "), (1e9, "billion "), (1e12, "trillion "))


def names(study: OwnJobStudy) -> dict[str, str]:
    """What each side is called, by its target."""
    return {side.target.target: measured_target(side.target) for side in study.sides}


def heading(study: OwnJobStudy) -> str:
    return f"{study.name} on {formatting.some(list(names(study).values()))}"


def on_instances(place: Place) -> str:
    return f"on {place.start} instances" if place.start else ""


def at(study: OwnJobStudy, sizes: Iterable[JobSize | None]) -> str:
    """Where, by the axis, such as "size 64, 256"; empty where there is none."""
    known = [formatting.size(size) for size in sizes if size is not None]
    return f"{study.axis} {', '.join(known)}" if known else ""


def spread(study: OwnJobStudy, winners: Mapping[JobSize | None, str | None]) -> str:
    """Who is where, from the smallest size to the largest, such as "a up to size 64, b from 256".

    Empty if it is the same one everywhere.
    """
    unknown = [size for size, winner in winners.items() if winner is None]
    known = [(winner, size) for size, winner in winners.items() if winner]
    runs = [
        (winner, [size for _, size in group])
        for winner, group in groupby(known, key=lambda one: one[0])
    ]
    if len(runs) == 1 and not unknown:
        return ""
    if len(dict(runs)) == len(runs) > 1:  # each has sizes of its own, without gaps
        (first, low), *middle, (last, high) = runs
        parts = [f"{first} up to {at(study, low[-1:])}"]
        parts += [f"{winner} at {at(study, sizes)}" for winner, sizes in middle]
        parts.append(f"{last} from {at(study, high[:1])}")
    else:
        parts = [f"{winner} at {at(study, sizes)}" for winner, sizes in runs]
    if unknown:
        parts.append(f"{NOT_KNOWN} at {at(study, unknown)}")
    return ", ".join(parts)


def usd_per_unit(found: MetricFigure, least: float) -> Figure | None:
    """Dollars for so many units that `least` dollars are easily read, too; None if not known."""
    usd = found.usd_per_unit
    if usd is None:
        return None
    unit = found.unit.removesuffix("/s")
    factor, many = next((step for step in MANY if least * step[0] >= LEAST_USD), MANY[-1])
    amount = formatting.usd_figure(usd.scaled(factor))
    return Figure(f"{amount.value} per {many}{unit if many else _singular(unit)}", amount.interval)


def _singular(unit: str) -> str:
    return unit[:-1] if len(unit) > 2 and unit.endswith("s") and not unit.endswith("ss") else unit


def prices(study: OwnJobStudy) -> str:
    """What each side's time is charged at; a side without a price is left out."""
    found = {
        side.price.instance_type: f"{side.price.usd_per_hour:g} USD per hour, On-Demand"
        for side in study.sides
        if side.price.usd_per_hour is not None
    }
    return "; ".join(f"{name}: {price}" for name, price in found.items())


def images(study: OwnJobStudy) -> str | None:
    """What its jobs ran, each image once; None where no side tells."""
    found = dict.fromkeys(
        side.target.environment.image
        for side in study.sides
        if side.target.environment and side.target.environment.image
    )
    return ", ".join(image for image in found if image) or None


def checks(studies: Iterable[OwnJobStudy]) -> str:
    """How results were checked, in a sentence."""
    figures = [figure for study in studies for side in study.sides for figure in side.figures]
    kinds = dict.fromkeys(
        kind for figure in figures if figure.seconds for kind in figure.checked_by
    )
    if not kinds:
        return "No result was checked."
    told = " and ".join(CHECKS.get(kind, kind) for kind in kinds)
    alone = " alone" if list(kinds) == ["exit_code"] else ""
    return f"All results that count were checked by {told}{alone}."


def remarks(study: OwnJobStudy) -> Iterator[str]:
    """Why figures are missing, and what to read with care; a reason that several share once."""
    for side in study.sides:
        if side.refused:
            yield f"Not compared: {measured_target(side.target)}: {side.refused}"
    lacking = [(figure.problem, where(study, side, figure)) for side, figure in figures(study)]
    for problem, places in by_text((text, name) for text, name in lacking if text):
        yield f"Not compared: {places}: {problem}"
    doubts = (
        (warning, where(study, side, figure))
        for side, figure in figures(study)
        for warning in (() if figure.problem else figure.warnings)
    )
    for warning, places in by_text(doubts):
        yield f"With care: {places}: {warning}"
    for side in study.sides:
        if side.metrics_left_out:
            yield (
                f"{measured_target(side.target)}: "
                f"{formatting.count(side.metrics_left_out, 'line')} of metrics left out, as a job "
                "told more than are kept."
            )


def without_figure(study: OwnJobStudy) -> list[str]:
    """The sides, or their places, of which nothing is compared."""
    refused = [measured_target(side.target) for side in study.sides if side.refused]
    return refused + [
        where(study, side, figure) for side, figure in figures(study) if figure.problem
    ]


def figures(study: OwnJobStudy) -> Iterator[tuple[JobSide, JobFigure]]:
    return ((side, figure) for side in study.sides for figure in side.figures)


def where(study: OwnJobStudy, side: JobSide, figure: JobFigure) -> str:
    place = figure.place
    of = (measured_target(side.target), at(study, [place.size]), on_instances(place))
    return " ".join(filter(None, (of[0], f"at {of[1]}" if of[1] else "", of[2])))


def charted(study: OwnJobStudy) -> str:
    """Which jobs the charts are of, where not all started alike."""
    found = main_places(study)
    return on_instances(found[0]) if found else ""


def job_places(study: OwnJobStudy) -> dict[str, str]:
    """What size each job had, by its id."""
    return {
        job.job_id: at(study, [figure.place.size])
        for _, figure in figures(study)
        for job in figure.provenance
    }


def bad_lines(side: JobSide) -> str | None:
    """How many lines told no metric; None if all did."""
    number = len(side.bad_lines) + side.bad_lines_left_out
    if not number:
        return None
    lines = formatting.count(number, "line")
    return f"{lines} of {measured_target(side.target)} told no metric"


def bad_line(line: BadLine) -> str:
    """Which line it was, and why it is of no use."""
    return f"Line {line.number} {SOURCES[line.source]}: {line.problem}"
