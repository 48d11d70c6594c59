"""Says how far a run's training scales, in words and figures."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from operator import attrgetter

from batchmark.analysis.judging.significance import ENOUGH_REPEATS
from batchmark.analysis.scaling.curves import Curve
from batchmark.analysis.scaling.points import TrainingPoint
from batchmark.analysis.scaling.prediction import MOST_RANKS, Prediction
from batchmark.analysis.scaling.reach import ABOVE_ONE, POOR, WELL, Limit
from batchmark.analysis.scaling.studies import ScalingStudy, Training
from batchmark.core import formatting
from batchmark.report.blocks import Line, Story, StudyAnswer, capitalized, grouped
from batchmark.report.model import Report
from batchmark.report.scaling import words
from batchmark.report.words import (
    AGAIN,
    is_simulated,
    measured_target,
    suites_and_targets,
    target_and_gpu,
)

QUESTION = "How far does the training scale?"
STRONG = "How much faster is a step?"
EPOCH = "What does an epoch cost?"
WHAT_IF = "What if there were more nodes?"
WHAT_IF_SECTION = "what-if"
NOT_KNOWN = "Not known"
LIMITS: dict[Limit, str] = {
    "communication": "exchanging gradients (including waiting for the slowest rank)",
    "data": "waiting for data",
    "compute": "slower computing",
}
MORE = "More repeats at two or more node counts would settle this."
MORE_NODES = "More node counts, with each node on a machine of its own, would settle this."
FEW_JOBS = (
    "Intervals don't cover differences between jobs: to include them, "
    f"run each job at least {ENOUGH_REPEATS} times."
)
MEANING = (
    "Efficiency is the images per second on N nodes divided by N times those on one node, or by "
    "the same for the fewest nodes measured. Weak scaling keeps the batch of each device, strong "
    "scaling the total batch.",
    f"Training scales well where the whole interval of its efficiency is {WELL} or more. With "
    f"fewer than {ENOUGH_REPEATS} jobs per point, intervals don't cover differences between jobs.",
    "Communication is the time that exchanging gradients adds to a step. It excludes what "
    "computing hides, and includes waiting for the slowest rank. The parts of a step are measured "
    "separately, so they need not add up.",
    "Bus bandwidth is 2(n-1)/n of a tensor's bytes per second on n ranks: what each link "
    f"carries, whatever the number of ranks. Predictions go up to {MOST_RANKS} devices.",
)
ALL = 0.995  # of the lost time
HOLDS = {"holds": "holds", "wrong": "does not hold", "too_noisy": "can't be told from noise"}


def story(report: Report) -> Story | None:
    found = report.of(ScalingStudy)
    if not found:
        return None
    return Story(
        "scaling",
        suites_and_targets(one for study in found for one in study.studied),
        _answers(found),
        _trust(found),
        MEANING,
        lines=list(_lines(found)),
        not_paid=_not_paid(found),
    )


def _not_paid(studies: Sequence[ScalingStudy]) -> tuple[str, str] | None:
    """Say that the cost excludes the file system, if any job read from it."""
    reading = [study for study in studies if study.reads_files]
    if not reading:
        return None
    hourly = reading[0].file_system_usd_per_hour
    price = f"at {formatting.usd_per_hour(hourly)}, " if hourly else ""
    until = f"The file system is billed, {price}from its creation until its deletion."
    return "the file system", until


def _answers(studies: Sequence[ScalingStudy]) -> list[StudyAnswer]:
    """Build one answer per training, known ones first, with all cautions attached to the last.

    A study that was refused or has no training gets an answer that says why.
    """
    found = [
        StudyAnswer.unknown(QUESTION, f"{target_and_gpu(study.target)}: {reason}", AGAIN)
        for study in studies
        if (reason := study.refused or ("" if study.trainings else "it has no training row"))
    ]
    trainings = list(words.labelled(studies))
    found += [_answer(study, one, label) for study, one, label in trainings]
    found.sort(key=lambda one: one.verdict == NOT_KNOWN)
    told = [(text, label) for _, one, label in trainings for text in _cautions(one)]
    cautions = _once(told, len(trainings))
    for study in studies:
        cautions += [*_of_study(study), *disclaimers(study)] if study.trainings else []
    if found:
        found[-1] = found[-1]._replace(cautions=list(dict.fromkeys(cautions)))
    return found


def _once(told: Sequence[tuple[str, str]], trainings: int) -> list[str]:
    """Return each text once, prefixed with the labels it applies to (unless it applies to all)."""
    return [
        words.with_label("; ".join(labels) if len(labels) < trainings else "", text)
        for text, labels in grouped(told).items()
    ]


def _answer(study: ScalingStudy, training: Training, label: str) -> StudyAnswer:
    reach, few = training.reach, few_jobs(training)
    if reach.verdict == "scales" and reach.nodes:
        about, more = "about " if few else "", " or more" if reach.open_ended else ""
        verdict = f"Well to {about}{reach.nodes} nodes{more}"
    else:
        verdict = "Not well" if reach.verdict == "falls_short" else NOT_KNOWN
    figures = _efficiencies(training) if reach.nodes else None
    text = capitalized(": ".join(filter(None, (figures, reach.reason))))
    name = label or f"{training.workload} on {target_and_gpu(study.target)}"
    remedy = MORE if verdict == NOT_KNOWN else ""
    parts = (f"{text} ({name}).", _limit(study, training), remedy)
    return StudyAnswer(QUESTION, verdict, " ".join(filter(None, parts)), [])


def few_jobs(training: Training) -> int | None:
    """Return the fewest jobs per point if too few to show how much jobs differ, else None."""
    if main_curve(training) is None:
        return None
    fewest = min(point.jobs for point in _of_main_curve(training))
    return fewest if fewest < ENOUGH_REPEATS else None


def main_curve(training: Training) -> Curve | None:
    """Return the curve that the answer is about: the first weak one, else the first strong one."""
    return next(iter((*training.weak, *training.strong)), None)


def _efficiencies(training: Training) -> str:
    """State the efficiency on the most nodes where training scales well, and the worst beyond."""
    curve, reach, few = main_curve(training), training.reach, few_jobs(training)
    assert curve is not None  # noqa: S101 - it has a verdict
    points = [point for point in curve.points if point.nodes == reach.nodes]
    beyond = [point for point in curve.points if point.nodes > (reach.nodes or 0)]
    if beyond and not reach.reason:
        points.append(min(beyond, key=lambda one: one.efficiency.value))
    beside = [point.efficiency for point in points]
    texts = [
        f"{formatting.number(point.efficiency, beside)} on {words.nodes(point.nodes)}"
        for point in points
    ]
    by = f", with {formatting.count(few, 'job')} per point" if few else ""
    return f"Efficiency {' and '.join(texts)}, relative to {words.nodes(curve.base_nodes)}{by}"


def _limit(study: ScalingStudy, training: Training) -> str | None:
    """Say why steps lose time; None unless they clearly do."""
    reach, curve = training.reach, main_curve(training)
    if reach.limit_nodes is None or curve is None:
        return None
    at = f"On {words.nodes(reach.limit_nodes)}"
    if reach.limit is None or reach.limit_share is None:
        return f"{at}, the cause of the lost time is not known: {reach.limit_reason}."
    share = "all" if reach.limit_share > ALL else formatting.percent(reach.limit_share)
    text = f"{at}, {LIMITS[reach.limit]} accounts for {share} of the lost time"
    hidden = training.prediction.hidden_seconds
    if reach.limit == "compute" and study.loopback:
        text += ": the nodes share cores"
    elif reach.limit == "compute" and curve.kind == "strong":
        text += ": smaller batches are less efficient"
    elif reach.limit == "communication" and hidden and hidden.interval and hidden.interval.high < 0:
        more = formatting.seconds(-hidden.value)
        text += f": {more} more than the all-reduce by itself, as stragglers cause"
    return f"{text}."


def _cautions(training: Training) -> Iterator[str]:
    curve, reach, few = main_curve(training), training.reach, few_jobs(training)
    if curve and curve.base_nodes > 1:
        yield (
            "A single node was not measured: efficiencies are relative to "
            f"{words.nodes(curve.base_nodes)} and don't include losses up to that point."
        )
    if curve and curve.kind == "strong":
        yield "This is strong scaling: no two node counts had the same batch per device."
    if reach.poor_from:
        surely = "" if few else "clearly "
        yield f"From {words.nodes(reach.poor_from)} upward, the efficiency is {surely}below {POOR}."
    if reach.above_one and curve:
        yield (
            f"On {words.nodes(reach.above_one)}, the efficiency is above {ABOVE_ONE}, which is "
            f"impossible: the figure measured on {words.nodes(curve.base_nodes)} may be too slow."
        )
    if reach.waits_for_data and curve:
        share = formatting.percent(reach.waits_for_data)
        yield (
            f"On {words.nodes(curve.base_nodes)}, a step already spends {share} of its time "
            "waiting for data: an efficiency near 1 then means that reading scales with the "
            "nodes, not that the devices are busy."
        )
    if few:
        yield FEW_JOBS


def _of_study(study: ScalingStudy) -> Iterator[str]:
    """Say what was not measured, and why EC2 instances have no price."""
    if study.unmeasured:
        names = formatting.shortened_list([one.name for one in study.unmeasured], most=2)
        yield f"Not measured: {names}; see below for the reasons."
    environment = study.target.environment
    if study.price.note and environment and environment.instance_type:
        yield study.price.note


def disclaimers(study: ScalingStudy) -> Iterator[str]:
    """Warn if figures come from CPUs, simulated GPUs, a single machine, or machines outside EC2."""
    environment, name = study.target.environment, measured_target(study.target)
    if words.on_cpu(study):
        backend = f", which communicate through {words.backend(study)}"
        yield f"{name}: its devices were processes on CPUs{backend}. No figure comes from a GPU."
    elif is_simulated(study.target):
        yield f"{name}: its GPUs were simulated. No figure comes from a real GPU."
    if study.loopback:
        yield (
            f"{name}: all nodes were on one machine, where they share cores and are not connected "
            "by a network. The efficiencies are not those of a cluster."
        )
    elif environment and environment.instance_type is None:
        yield (
            f"{name}: its nodes were not EC2 instances and may share a machine. The efficiencies "
            "are not those of EC2."
        )


def _strong_scaling(training: Training) -> str | None:
    """State the strong-scaling speedup on the most nodes; None unless weak scaling ran, too."""
    if not (training.weak and training.strong):
        return None
    curve = training.strong[0]
    last = curve.points[-1]
    return (
        f"{formatting.factor(last.speedup)} on {words.nodes(last.nodes)}, relative to "
        f"{words.nodes(curve.base_nodes)}, with {curve.images} images in all."
    )


def _epoch_cost(training: Training) -> str | None:
    """State an epoch's cost on the fewest and most nodes; None if it is unknown."""
    priced = [point for point in _of_main_curve(training) if point.usd_per_epoch]
    if not priced or not training.settings:
        return None
    shown = (*priced[:1], *priced[1:][-1:])
    batches = [f", batch {point.batch}" for point in shown]
    apart = len(set(batches)) > 1
    beside = [point.usd_per_epoch for point in shown]
    costs = [
        f"{formatting.usd_figure(point.usd_per_epoch, beside)} on {words.nodes(point.nodes)}"
        f"{batch if apart else ''}"
        for point, batch in zip(shown, batches, strict=True)
        if point.usd_per_epoch
    ]
    of = f"{training.settings.images_per_epoch:,} images{'' if apart else batches[0]}"
    return f"{', '.join(costs)}, for {of}."


def _of_main_curve(training: Training) -> list[TrainingPoint]:
    curve = main_curve(training)
    if curve is None:
        return list(training.points)
    return [point for point in training.points if words.on_curve(curve, point)]


def what_if(studies: Sequence[ScalingStudy]) -> str | None:
    """State the prediction for the most devices and whether the model held, or why there's none.

    Return None without weak scaling, on which predictions are based.
    """
    trainings = list(words.labelled(studies))
    told = [
        (prediction_line(study, training), label)
        for study, training, label in trainings
        if training.weak
    ]
    return " ".join(_once(told, len(trainings))) or None


def prediction_line(study: ScalingStudy, training: Training) -> str:
    prediction, most = training.prediction, training.weak[0].points[-1]
    if not prediction.points:
        return f"not known: {prediction.reason}. {MORE_NODES}"
    if prediction.outcome == "wrong":
        return f"not known: {held(prediction)}"
    last = prediction.points[-1]
    if last.nodes <= most.nodes:
        return (
            f"{words.devices(study, last.ranks)} were measured, with an efficiency of "
            f"{formatting.number(most.efficiency)}; {held(prediction)}"
        )
    efficiency = f"{least(prediction)}{formatting.number(last.efficiency)}"
    return (
        f"predicted, not measured: efficiency {efficiency} on {words.devices(study, last.ranks)}, "
        f"{last.nodes / most.nodes:.3g} times as many as were measured; {held(prediction)}"
    )


def least(prediction: Prediction) -> str:
    return "at least " if prediction.at_least else ""


def held(prediction: Prediction) -> str:
    """Say, with figures, whether the model holds beyond the points it was fitted to."""
    if prediction.outcome not in HOLDS:
        return f"the model was not checked: {prediction.reason}."
    known = [one for one in prediction.fitted_nodes if one < prediction.checked[0].nodes]
    further = prediction.checked[-1].nodes / known[-1]
    shown = str if prediction.outcome == "too_noisy" else attrgetter("value")
    at = " and ".join(
        f"{words.nodes(point.nodes)} ({least(prediction)}"
        f"{shown(formatting.number(point.predicted, [point.measured]))} predicted, "
        f"{shown(formatting.number(point.measured, [point.predicted]))} measured)"
        for point in prediction.checked
    )
    return (
        f"the model {HOLDS[prediction.outcome]} on {at}, {further:.3g} times as many "
        "as it was fitted to."
    )


def _lines(studies: Sequence[ScalingStudy]) -> Iterator[Line]:
    """Yield each secondary question, its answer, and any section that gives details."""
    for asked, told in ((STRONG, _strong_scaling), (EPOCH, _epoch_cost)):
        texts = [
            words.with_label(label, text)
            for _, training, label in words.labelled(studies)
            if (text := told(training))
        ]
        if texts:
            yield Line(asked, " ".join(texts), None)
    if found := what_if(studies):
        yield Line(WHAT_IF, found, WHAT_IF_SECTION)


def _trust(studies: Sequence[ScalingStudy]) -> str:
    """Say in a sentence how far the curves can be trusted."""
    trainings = [one for study in studies for one in study.trainings if one.points]
    points = [point for one in trainings for point in one.points]
    if not points:
        return "No training was measured."
    doubtful = sum(bool(point.warnings) for point in points)
    text = (
        f"The result was checked at {formatting.count(len(points), 'point')} of "
        f"{formatting.count(len(trainings), 'training')}"
    )
    return f"{text}; {doubtful} to read with care." if doubtful else f"{text}."
