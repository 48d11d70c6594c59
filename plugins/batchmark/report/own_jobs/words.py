"""Puts names and figures of users' own jobs into words, for both the page and the terminal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from batchmark.analysis.own_jobs.records import JobFigure, JobSide, OwnJobStudy, Place
from batchmark.analysis.owners_checks import OUTPUTS_DIFFER
from batchmark.core import formatting
from batchmark.core.formatting import Figure, Others
from batchmark.core.intervals import Estimate
from batchmark.core.own_jobs import SHORT_SECONDS, JobSize
from batchmark.core.row_values import ToldMetric
from batchmark.report.blocks import grouped
from batchmark.report.own_jobs.standings import main_places, metrics
from batchmark.report.words import extent, measured_target
from batchmark_job.result.own_job import BadLine

CHECKS = {"exit_code": "exit code", "command": "a check command", "checksum": "checksum"}
SOURCES = {"log": "of the log", "file": "of the file"}
LEAST_USD = 0.01  # smaller amounts are hard to read
MANY = ((1.0, ""), (1e3, "thousand "), (1e6, "million "), (1e9, "billion "), (1e12, "trillion "))


def names(study: OwnJobStudy) -> dict[str, str]:
    """Map each side's target to its display name."""
    return {side.target.target: measured_target(side.target) for side in study.sides}


def on_instances(place: Place) -> str:
    return f"on {place.start} instances" if place.start else ""


def at(study: OwnJobStudy, sizes: Iterable[JobSize | None]) -> str:
    """Name sizes with their axis, such as "size 64, 256"; empty if there are none."""
    known = [formatting.size(size) for size in sizes if size is not None]
    return f"{study.axis} {', '.join(known)}" if known else ""


def sizes(study: OwnJobStudy) -> list[JobSize | None]:
    """List the jobs' sizes, smallest first; a single None if there is no axis."""
    found = {figure.place.size for _, figure in figures(study)}
    return sorted(found, key=lambda size: size or 0.0)


def short_sizes(study: OwnJobStudy) -> list[JobSize | None]:
    """List the sizes at which some side's command takes no longer than a container's start-up."""
    short = set()
    for _, figure in figures(study):
        whole = figure.seconds.value if figure.seconds else None
        taken = whole if figure.command_seconds is None else figure.command_seconds
        if taken is not None and taken < SHORT_SECONDS:
            short.add(figure.place.size)
    return [size for size in sizes(study) if size in short]


def metric_names(study: OwnJobStudy) -> dict[ToldMetric, str]:
    """Map metrics to their names, with the unit added if two metrics share a name."""
    told = metrics(study)
    often = Counter(metric.name for metric in told)
    with_unit = {metric: f"{metric.name} ({metric.unit or 'no unit'})" for metric in told}
    return {metric: with_unit[metric] if often[metric.name] > 1 else metric.name for metric in told}


def usd_per_unit(usd: Estimate, rate: str, least: float, beside: Others = ()) -> Figure:
    """Format the cost of enough units to make even the smallest amount readable.

    Args:
        usd: dollars per unit.
        rate: the metric's unit, which ends in /s.
        least: the lowest dollars per unit on any side.
        beside: the other sides' dollars per unit, which the result is rounded to match.
    """
    unit = rate.removesuffix("/s")
    factor, many = next((step for step in MANY if least * step[0] >= LEAST_USD), MANY[-1])
    others = [one.scaled(factor) for one in beside if one]
    amount = formatting.usd_figure(usd.scaled(factor), others)
    return Figure(f"{amount.value} per {many}{unit if many else _singular(unit)}", amount.interval)


def _singular(unit: str) -> str:
    return unit[:-1] if len(unit) > 2 and unit.endswith("s") and not unit.endswith("ss") else unit


def prices(study: OwnJobStudy) -> str:
    """Describe each side's hourly price; sides without a price are left out."""
    parts = []
    for side in study.sides:
        if side.price.usd_per_hour is not None:
            name, kind = side.target.target, side.price.instance_type
            on_type = name if kind in name else f"{name} ({kind})"
            price = f"{on_type}: {side.price.usd_per_hour:g} USD per hour, On-Demand"
            spot = side.price.spot_usd_per_hour
            on_spot = f" ({spot:g} on Spot)" if spot is not None else ""
            bought = ", bought on Spot" if options(side) == {"spot"} else ""
            parts.append(f"{price}{on_spot}{bought}")
    return "; ".join(parts)


def options(side: JobSide) -> set[str]:
    """Return how the instances for a side's jobs were bought, where known."""
    return {job.purchase_option for job in side.target.jobs if job.purchase_option}


def bought_otherwise(study: OwnJobStudy) -> str | None:
    """Say that dollars are at On-Demand prices; None if all sides bought their instances alike."""
    priced = [side for side in study.sides if side.price.usd_per_hour]
    if len({frozenset(options(side)) for side in priced}) < 2:
        return None
    on_spot = [side for side in priced if "spot" in options(side)]
    shares = [
        f"{measured_target(side.target)} is {formatting.multiple(spot / hourly)} that"
        for side in on_spot
        if (spot := side.price.spot_usd_per_hour) and (hourly := side.price.usd_per_hour)
    ]
    told = f"; on Spot, {formatting.shortened_list(shares)}" if shares else ""
    return (
        f"Dollars are at On-Demand prices for all sides, however their instances were bought{told}."
    )


def idle_gpus(study: OwnJobStudy) -> Iterator[str]:
    """Yield a sentence for each side that pays for a GPU but seems not to use it."""
    for side in study.sides:
        if samples := side.idle_gpu_samples:
            yield (
                f"The GPU of {measured_target(side.target)} was at 0 % in all {samples} "
                "utilization samples: check whether the image and command use it."
            )


def images(study: OwnJobStudy) -> list[str]:
    """List the distinct images that the jobs ran, where known."""
    known = [one for side in study.sides if (one := side.target.environment)]
    return list(dict.fromkeys(one.image for one in known if one.image))


def image(study: OwnJobStudy) -> str:
    """Name the images, and say if their jobs are known to have run without them; may be empty."""
    names = ", ".join(images(study))
    known = [one for side in study.sides if (one := side.target.environment)]
    # Off EC2, only a Docker engine tells a digest.
    as_process = not any(one.instance_type or one.image_digest for one in known)
    without = ", which was not used here: its command ran as a process" if as_process else ""
    return f"Image: {names}{without}" if names else ""


def versions(study: OwnJobStudy) -> str:
    """Name the sides' versions if they differ, other than by image; otherwise empty."""
    told = {
        side.target.target: str(side.target.version.model_copy(update={"image_digest": None}))
        for side in study.sides
    }
    if len(set(told.values())) < 2:
        return ""
    return "; ".join(f"{name}: {version or 'version not known'}" for name, version in told.items())


def in_a_registry(study: OwnJobStudy) -> bool:
    """Return whether the images' names are known to begin with a registry's address."""
    found = images(study)
    return bool(found) and all("." in image.rpartition("/")[0].partition("/")[0] for image in found)


def checks(studies: Sequence[OwnJobStudy]) -> str:
    """Say in a sentence how results were checked, listing the sides if they differ."""
    counting = [
        (side, [figure for figure in side.figures if figure.seconds])
        for study in studies
        for side in study.sides
    ]
    sides = grouped(
        (
            tuple(dict.fromkeys(kind for figure in counted for kind in figure.checked_by)),
            measured_target(side.target),
        )
        for side, counted in counting
        if counted
    )
    if not any(sides):
        failed = any(figure.checked_by for study in studies for _, figure in figures(study))
        whys = (OUTPUTS_DIFFER if outputs_differ(one) else "each check failed" for one in studies)
        why = " or ".join(dict.fromkeys(whys))
        return f"No result counts: {why}." if failed else "There is no result to check."
    if len(sides) == 1:
        return f"All results that count were checked {_by_kinds(next(iter(sides)))}."
    told = (
        f"{_by_kinds(kinds)} on {formatting.shortened_list(list(dict.fromkeys(names)))}"
        for kinds, names in sides.items()
    )
    return f"Results that count were checked {', '.join(told)}."


def _by_kinds(kinds: Sequence[str]) -> str:
    if not kinds:
        return "by nothing"
    alone = " alone" if list(kinds) == ["exit_code"] else ""
    return f"by {' and '.join(CHECKS.get(kind, kind) for kind in kinds)}{alone}"


def remarks(study: OwnJobStudy) -> Iterator[str]:
    """Give reasons for missing figures, then any cautions, each only once."""
    for side in study.sides:
        if side.refused:
            yield f"Not compared: {measured_target(side.target)}: {side.refused}"
    problems = [(one.problem, (side, one)) for side, one in figures(study) if one.problem]
    for problem, of in grouped(problems).items():
        yield f"Not compared: {'; '.join(where(study, of))}: {problem}"
    doubts = (
        (warning, (side, one))
        for side, one in figures(study)
        for warning in (*(() if one.problem else one.warnings), *one.doubts)
    )
    for warning, of in grouped(doubts).items():
        yield f"Caution: {'; '.join(where(study, of))}: {warning}"
    priced = any(figure.usd_per_job for _, figure in figures(study))
    if study.existing and priced:
        yield (
            "Caution: other users' jobs may run on the same instances and slow these down. "
            "Dollars are still for the whole instance."
        )
    yield from idle_gpus(study)
    if priced and (otherwise := bought_otherwise(study)):
        yield otherwise
    for side in study.sides:
        if side.metrics_left_out:
            yield (
                f"{measured_target(side.target)}: "
                f"{formatting.count(side.metrics_left_out, 'line')} of metrics omitted, as a job "
                "reported more than Batchmark keeps."
            )


def outputs_differ(study: OwnJobStudy) -> bool:
    """Return whether figures are missing for no other reason than this."""
    problems = [figure.problem for _, figure in figures(study) if figure.problem]
    return bool(problems) and all(text.startswith(OUTPUTS_DIFFER) for text in problems)


def without_figure(study: OwnJobStudy) -> list[str]:
    """List the sides and places that couldn't be compared."""
    refused = [measured_target(side.target) for side in study.sides if side.refused]
    lacking = [(side, figure) for side, figure in figures(study) if figure.problem]
    return refused + where(study, lacking)


def figures(study: OwnJobStudy) -> Iterator[tuple[JobSide, JobFigure]]:
    return ((side, figure) for side in study.sides for figure in side.figures)


def has_intervals(study: OwnJobStudy) -> bool:
    """Return whether any time has an interval."""
    return any(figure.seconds and figure.seconds.interval for _, figure in figures(study))


def lacks_intervals(study: OwnJobStudy) -> bool:
    """Return whether any time lacks an interval."""
    return any(figure.seconds and not figure.seconds.interval for _, figure in figures(study))


def where(study: OwnJobStudy, found: Iterable[tuple[JobSide, JobFigure]]) -> list[str]:
    """Name the sides with their places, such as "a at size 64, 256 on warm instances"."""
    sizes_of = grouped(
        ((measured_target(side.target), on_instances(figure.place)), figure.place.size)
        for side, figure in found
    )
    return [
        " ".join(filter(None, (name, f"at {place}" if (place := at(study, of)) else "", start)))
        for (name, start), of in sizes_of.items()
    ]


def charted(study: OwnJobStudy) -> str:
    """Say which jobs the charts and answer cover, such as "on cold instances"; empty if unknown."""
    return next(map(on_instances, main_places(study)), "")


def job_places(study: OwnJobStudy) -> dict[str, str]:
    """Map each job's id to the size that it measured."""
    return {
        job.job_id: at(study, [figure.place.size])
        for _, figure in figures(study)
        for job in figure.provenance
    }


def bad_lines(side: JobSide) -> str | None:
    """Say how many lines had no readable metric, in total and per job; None if there were none."""
    by_job, name = side.bad_lines_by_job, measured_target(side.target)
    number = sum(by_job) or len(side.bad_lines) + side.bad_lines_left_out
    if not number:
        return None
    lines = f"{formatting.count(number, 'line')} from {name} contained no metric"
    if not by_job:  # of a release that did not count them by job
        return lines
    each = f", {extent(by_job, str)} in each" if len(by_job) > 1 else ""
    return f"{lines}, in {formatting.count(len(by_job), 'job')}{each}"


def place_of(line: BadLine) -> str:
    """Say where a line is in a job's log or file, or among marked lines if the log is too long."""
    if line.source == "log" and line.log_line is None:
        return f"Marked line {line.number} of the log"
    return f"Line {line.log_line or line.number} {SOURCES[line.source]}"
