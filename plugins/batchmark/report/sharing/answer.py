"""Says how many of a run's tasks can share a device, in words and figures."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from batchmark.analysis.sharing.advice import Choice
from batchmark.analysis.sharing.curves import STEPS
from batchmark.analysis.sharing.knee import WORTH
from batchmark.analysis.sharing.studies import SharedTask
from batchmark.core import formatting
from batchmark.core.intervals import MINIMUM_SAMPLES, Estimate, overlap
from batchmark.report.blocks import Line, Story, StudyAnswer, grouped
from batchmark.report.model import Report
from batchmark.report.sharing import words
from batchmark.report.words import (
    AGAIN,
    NOT_KNOWN,
    is_simulated,
    measured_target,
    suites_and_targets,
)
from batchmark_job.result.confidence import CONFIDENCE_TEXT
from batchmark_job.result.document import Device
from batchmark_job.result.sharing import SharingMode

QUESTION = "How many of these tasks can share the device?"
MEANING = (
    f"A curve's knee is the smallest number of replicas that reaches {formatting.percent(WORTH)} "
    f"of the best throughput. It is known if {CONFIDENCE_TEXT} of the curves resampled from the "
    "samples have their knee there.",
    "Fairness is Jain's index of the replicas' step counts: 1 if all made the same number, 1/n if "
    "one of n made them all. A replica starves if it makes less than half the mean number of "
    "steps, or if any of its steps takes longer than 10 times its own median.",
    "After one replica is made to fail, the others suffered if one of them ended early, if none "
    "made another step, or if together they clearly made less than "
    f"{formatting.percent(WORTH)} of the steps they make undisturbed.",
)


def story(report: Report) -> Story | None:
    found = report.of(SharedTask)
    if not found:
        return None
    cheapest = _cheapest(found)
    return Story(
        "sharing",
        suites_and_targets(one for task in found for one in task.studied),
        [_answer(task) for task in found],
        _trust(found),
        MEANING,
        lines=[Line("Where is it cheapest?", cheapest, None)] if cheapest else [],
    )


def _answer(task: SharedTask) -> StudyAnswer:
    advice, name = task.advice, words.task_name(task)
    if task.refused:
        return StudyAnswer.unknown(QUESTION, f"{name}: {task.refused}", AGAIN)
    if choice := advice.choice:
        how = words.mode_name(task, advice.mode or SharingMode.TIME_SLICING, advice.form)
        verdict = f"{'At least' if choice.at_least else 'Up to'} {choice.replicas} replicas"
        text = f"{_gains(choice)}: {name}, with {how}. {_slowest(choice)}"
    else:
        verdict, text = "Sharing does not pay", f"{name}: {advice.reason}."
    cautions = [*_limits(task), *_dollars(task), *_disclaimers(task)]
    if advice.verdict == "not_known":
        remedy = "More repeats or other replica counts would settle this."
        return StudyAnswer.unknown(QUESTION, f"{name}: {advice.reason}", remedy, cautions)
    return StudyAnswer(QUESTION, verdict, text.strip(), cautions)


def _gains(choice: Choice) -> str:
    text = (
        f"{formatting.factor(choice.gain)} the throughput of one replica alone, at "
        f"{formatting.number(choice.price)} times the price per step"
    )
    if choice.usd_per_1000_steps and choice.usd_alone:
        both = (choice.usd_per_1000_steps, choice.usd_alone)
        shared, alone = (formatting.usd_figure(one, both).value for one in both)
        text += f" ({shared} for {STEPS:,} steps, against {alone})"
    return text


def _slowest(choice: Choice) -> str:
    if choice.p95_seconds is None or choice.p95_alone is None:
        return ""
    return (
        f"95 of 100 steps of the slowest replica then take {formatting.seconds(choice.p95_seconds)}"
        f" or less, compared with {formatting.seconds(choice.p95_alone)} alone."
    )


def _limits(task: SharedTask) -> Iterator[str]:
    """Yield caveats about the advice, such as equally good modes or replicas that starve."""
    advice, choice = task.advice, task.advice.choice
    advised = [one for one in task.curves if (one.mode, one.form) == (advice.mode, advice.form)]
    if not choice or not advised:
        return
    curve = advised[0]
    if curve.knee and curve.knee.outcome == "still_rising":
        text = "The curve is still rising at the largest replica count measured"
        larger = any(one.replicas > choice.replicas for one in curve.unmeasured)
        yield f"{text}." if larger else f"{text}: measure more replicas."
    elif curve.knee and curve.knee.outcome == "not_known":
        yield f"The knee is {NOT_KNOWN}: {curve.knee.reason}. More repeats would narrow it down."
    yield from (f"{one.replicas} replicas: {one.reason}." for one in curve.unmeasured)
    if advice.equals:
        names = [words.mode_name(task, mode, advice.form) for mode in advice.equals]
        yield f"Equally good, judging by the intervals: {formatting.shortened_list(names)}."
    if point := curve.point(choice.replicas):
        if (devices := point.figures.devices) > 1:
            yield f"They ran on {devices} GPUs: the gain includes what the extra GPUs add."
        yield from (f"At {point.replicas} replicas, {text}." for text in words.starving(point))


def _dollars(task: SharedTask) -> Iterator[str]:
    """Explain why an EC2 instance has no price, or that its price includes unused GPUs."""
    environment, price = task.target.environment, task.price
    name = measured_target(task.target)
    if price.note and environment and environment.instance_type:
        yield price.note
    points = [point for curve in task.curves for point in curve.points]
    used = max((point.figures.devices for point in points), default=1)
    idle = price.idle_gpus + 1 - used
    if price.usd_per_hour and idle > 0:
        yield (
            f"{name} has {price.gpus} GPUs, and dollars are for all of them: {idle} did nothing."
        )


def _disclaimers(task: SharedTask) -> Iterator[str]:
    """Warn if figures come from CPUs, simulated GPUs or part of a GPU."""
    name, threads = measured_target(task.target), task.threads
    if task.target.actual_device is Device.CPU:
        each = f", {formatting.count(threads, 'thread')} each" if threads else ""
        yield (
            f"{name}: the replicas were processes that share CPU cores{each}. None of the figures "
            "comes from a GPU."
        )
    elif is_simulated(task.target):
        yield f"{name}: its GPU was simulated. None of the figures comes from a real GPU."
    if task.mig_enabled:
        yield f"{name}: the GPU is partitioned by MIG. Figures are for one of its partitions."


def _cheapest(tasks: Sequence[SharedTask]) -> str | None:
    """Say where 1,000 steps cost the least; None unless two priced targets ran the same task."""
    offers = []
    for task in tasks:
        found = [
            (point.usd_per_1000_steps, curve, point)
            for curve in task.curves
            for point in curve.points
            if point.usd_per_1000_steps
        ]
        if found:
            usd, curve, point = min(found, key=lambda one: one[0].value)
            replicas = formatting.count(point.replicas, "replica")
            where = (
                f"{measured_target(task.target)} with {replicas}, {words.curve_name(task, curve)}"
            )
            offers.append((f"{task.workload} {words.own_parameters(task)}", (usd, where)))
    texts = [_least(name, found) for name, found in grouped(offers).items() if len(found) > 1]
    return " ".join(texts) or None


def _least(name: str, offers: Sequence[tuple[Estimate, str]]) -> str:
    ranked = sorted(offers, key=lambda offer: offer[0].value)
    least, where = ranked[0]
    equals = [other for usd, other in ranked[1:] if overlap(usd, least)]
    text = f"{name}: {where}, {formatting.usd_figure(least)} for {STEPS:,} steps"
    return (
        f"{text}; equally cheap, by the intervals: {formatting.shortened_list(equals)}."
        if equals
        else f"{text}."
    )


def _trust(tasks: Sequence[SharedTask]) -> str:
    """Say in a sentence or two how far the curves can be trusted."""
    points = [point for task in tasks for curve in task.curves for point in curve.points]
    if not points:
        return "Nothing was measured."
    fewest = min(point.jobs for point in points)
    doubtful = sum(bool(point.warnings) for point in points)
    text = (
        f"The task's result was checked at {formatting.count(len(points), 'point')} of the curves"
    )
    text += f"; {doubtful} to read with care." if doubtful else "."
    if fewest < MINIMUM_SAMPLES:
        jobs = formatting.count(fewest, "job")
        text += f" With {jobs} per point, intervals don't cover differences between jobs."
    return text
