"""Says how far a report can be trusted and what the run cost, in a few lines each."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from statistics import median

from batchmark.analysis.cold_start import ColdStart
from batchmark.analysis.judging.significance import change_detected_by
from batchmark.analysis.own_jobs.records import OwnJobStudy
from batchmark.analysis.pairs.compared_rows import Row, UncomparedRow
from batchmark.analysis.pooling import TargetRecord
from batchmark.analysis.samples import ABOVE_CEILING, TOO_FAST
from batchmark.analysis.study import Study
from batchmark.core import formatting
from batchmark.core.intervals import MINIMUM_SAMPLES
from batchmark.report import words
from batchmark.report.answer import cost
from batchmark.report.blocks import Story, capitalized, grouped
from batchmark.report.changes import words as change_words
from batchmark.report.model import Report
from batchmark.report.own_jobs import words as own_job_words
from batchmark_job.result.document import MeasurementStatus

MACHINE = {
    "instance_type": "",
    "cpu_model": "",
    "gpu_model": "",
    "driver_version": "driver ",
    "cuda_version": "CUDA ",
}
Fact = tuple[str, str]


def trust(report: Report) -> list[Fact]:
    """Say how far the figures can be trusted, with one fact per aspect."""
    rows = [row for pair in report.pairs for row in pair.rows]
    calls = [row for pair in report.pairs if not words.is_own_job(pair) for row in pair.rows]
    return [
        *(_noise(rows) if rows else ()),
        *(_of_calls(calls) if calls else ()),
        *_of_run(report),
    ]


def _noise(rows: Sequence[Row]) -> Iterator[Fact]:
    sources = Counter(row.noise.source for row in rows)
    floors = _span([row.noise.floor for row in rows])
    if list(sources) == ["assumed"]:
        yield "Noise from job to job", f"{floors}, assumed (no calibration)."
    else:
        known = ", ".join(f"{name} for {count}" for name, count in sources.items())
        over = formatting.count(len(rows), "row")
        yield "Noise from job to job", f"{floors} over {over}: {known}."
    yield "Smallest change that shows", " ".join(_smallest_change(rows))


def _smallest_change(rows: Sequence[Row]) -> Iterator[str]:
    """Yield sentences: how noise and repeats limit what shows, and what more repeats would show."""
    known = [row for row in rows if row.noise.smallest_detectable_change < 1]
    told = known or rows
    repeats = [min(row.gpu.jobs, row.cpu.jobs) for row in told]
    noisiest = max(told, key=lambda row: row.noise.critical_change)
    differ = formatting.difference_text(noisiest.noise.critical_change)
    alike = len({row.noise.critical_change for row in told}) == 1
    which = "" if alike else f" ({words.row_label(noisiest)})"
    why = (
        f"with {words.extent(repeats, str)} {'repeat' if max(repeats) == 1 else 'repeats'}, "
        f"identical jobs may differ by up to {differ}{which}"
    )
    shown = [row.noise.smallest_detectable_change for row in known]
    if known:
        missing = len(rows) - len(known)
        lack = f"; not known for {missing} of {len(rows)} rows" if missing else ""
        yield f"{_span(shown)}, found in 95 of 100 cases: {why}{lack}."
    else:
        yield f"Not known: {why}."
    floors = [row.noise.floor for row in told if row.noise.source != "assumed"]
    if min(repeats) < MINIMUM_SAMPLES:  # which foretell too little of what more would show
        if not floors:
            yield f"Use at least {MINIMUM_SAMPLES} repeats."
        return
    more = 2 * max(repeats)
    would = change_detected_by(more, max(floors)) if floors else 1.0
    if would < max(shown, default=1.0):
        yield f"{more} repeats would show about {formatting.percent(would)}."
    elif not known:
        yield "Use more repeats, or a quieter machine."


def _of_calls(rows: Sequence[Row]) -> Iterator[Fact]:
    """Yield facts about samples of individual calls."""
    sides = [side for row in rows for side in (row.gpu, row.cpu)]
    throttled = sum(side.throttled_samples for side in sides)
    left_out = sum(side.throttled_left_out for side in sides)
    disturbed = sum(
        any(one.kind == "disturbed" for side in (row.gpu, row.cpu) for one in side.disturbances())
        for row in rows
    )
    yield (
        "Disturbed samples",
        f"{throttled} taken while a device was slowed down, {left_out} of them left out; other "
        f"work took CPU time from {disturbed} of {formatting.count(len(rows), 'row')}.",
    )
    shares = [side.roofline.share for side in sides if side.roofline and side.roofline.share]
    if shares:
        yield (
            "Share of what the machines can do",
            f"{formatting.percent(min(shares))} to {formatting.percent(max(shares))}, with a "
            f"median of {formatting.percent(median(shares))}{_above(rows)}.",
        )


def _above(rows: Iterable[Row]) -> str:
    """Say why some rates exceed their ceilings, based on the rows' warnings."""
    above = [
        row
        for row in rows
        if any(
            side.roofline and (side.roofline.share or 0) > ABOVE_CEILING
            for side in (row.gpu, row.cpu)
        )
    ]
    wrong = sum(any(TOO_FAST in text for text in row.warnings) for row in above)
    reasons = {
        "whose data fit in a cache": len(above) - wrong,
        "in which a rate or its ceiling is wrong": wrong,
    }
    told = [f"{formatting.count(rows, 'row')} {why}" for why, rows in reasons.items() if rows]
    return f"; above 100 %: {', '.join(told)}" if told else ""


def _span(shares: Sequence[float]) -> str:
    """Format the known shares as a range; a share of 1 or more counts as unknown."""
    known = [share for share in shares if share < 1]
    return words.extent(known, formatting.percent) if known else formatting.noise(max(shares))


def _of_run(report: Report) -> Iterator[Fact]:
    measured = sum(len(pair.rows) for pair in report.pairs)
    missing = [row for pair in report.pairs for row in pair.uncompared]
    compared = formatting.count(measured, "compared row")
    own = all(words.is_own_job(pair) for pair in report.pairs)
    text = "No row was compared."
    if measured and own:
        text = f"{compared}. {own_job_words.checks(report.of(OwnJobStudy))}"
    elif measured:
        text = f"{compared}, checked against a reference on both sides."
    if missing:
        text += f" {formatting.count(len(missing), 'row')} not compared{_why(missing)}."
    yield "Correctness", text if measured or missing else "No row was measured."
    if lost := [one for one in report.lost if not one.not_run]:
        told = [f"{one.planned.target}, {one.planned.measures}: {one.why}" for one in lost]
        yield "Lost jobs", f"{len(lost)}: {formatting.shortened_list(told)}."
    machines = dict.fromkeys(filter(None, map(_machine, report.targets)))
    if machines:
        yield "Machines", f"{'; '.join(machines)}."
    if (board := report.alerts) and (board.lines or board.precision is not None):
        yield "The detector", change_words.precision(board.precision)


def _why(missing: Sequence[UncomparedRow]) -> str:
    """Give the most common reason or, if all rows are unsettled, a reason that fits them all."""
    kinds = {kind for row in missing for kind in MeasurementStatus if f"{kind}: " in row.reason}
    if kinds == {MeasurementStatus.UNSETTLED}:
        return ", all unsettled: their times still drift or jump; run again on a quieter machine"
    ((reason, _),) = Counter(row.reason for row in missing).most_common(1)
    return f"; mostly {reason}"


def _machine(target: TargetRecord) -> str:
    if not target.environment:
        return ""
    found = ((name, getattr(target.environment, field)) for field, name in MACHINE.items())
    return f"{target.target}: {', '.join(f'{name}{one}' for name, one in found if one)}"


def costs(report: Report, told: Sequence[Story]) -> list[Fact]:
    """Say what the run cost in total and by target, what Spot saved, and what cold starts took."""
    left_out = ["Instances are also billed while they start and stop."]
    left_out += [story.not_paid[1] for story in told if story.not_paid]
    of_pairs = [start for pair in report.pairs for start in pair.cold_starts]
    return [
        ("This run", cost(report, told)),
        *([("Not included", " ".join(left_out))] if report.cost.usd else []),
        *_by_target(report),
        *_spot(report),
        *_cold_starts([*of_pairs, *(one for of in report.of(Study) for one in of.cold_starts)]),
    ]


def _by_target(report: Report) -> Iterator[Fact]:
    for target, jobs in grouped((job.target, job) for job in report.cost.jobs).items():
        known = [job.usd for job in jobs if job.usd is not None]
        if known:
            unknown = f", {len(jobs) - len(known)} of them not known" * (len(known) < len(jobs))
            nodes = sum(job.nodes for job in jobs)
            on = f" on {nodes} nodes" if nodes > len(jobs) else ""
            paid = f"{formatting.usd(sum(known))} for {formatting.count(len(jobs), 'job')}"
            yield target, f"{paid}{on}{unknown}."


def _spot(report: Report) -> Iterator[Fact]:
    """Say what Spot saved over On-Demand, for targets with a known On-Demand price."""
    prices = [basis for pair in report.pairs for basis in (pair.gpu_price, pair.cpu_price)]
    prices += [study.price for study in report.studied]
    bases = {basis.instance_type: basis.usd_per_hour for basis in prices}
    instance_types = {side.target: side.instance_type for side in report.targets}
    paid = full = 0.0
    for job in report.cost.jobs:
        hourly = bases.get(instance_types.get(job.target, ""))
        if job.purchase_option == "spot" and None not in (job.usd, job.seconds, hourly):
            paid += job.usd or 0.0
            full += (job.seconds or 0.0) / 3600 * (hourly or 0.0)
    if full > paid > 0:
        saved = formatting.percent(1 - paid / full)
        yield "Spot", f"{formatting.usd(full - paid)} less than On-Demand, {saved} of it."


def _cold_starts(starts: Iterable[ColdStart]) -> Iterator[Fact]:
    seen: dict[str, dict[str, str]] = defaultdict(dict)
    for start in starts:
        usd = f", at least {formatting.usd(start.usd)}" if start.usd is not None else ""
        text = f"a job on {start.target} took {formatting.seconds(start.seconds)} to start{usd}"
        if len(start.steps) > 1:
            longest = max(start.steps, key=lambda step: step.seconds)
            text += f", {formatting.seconds(longest.seconds)} of it for {longest.name}"
        seen[words.cold_start_span(start)][start.target] = text
    for span, texts in seen.items():
        text = capitalized("; ".join(texts.values()))
        yield f"Cold start, {span}", f"{text}. All steps are listed with its jobs."
