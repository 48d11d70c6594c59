"""How far a run's trainings scale, in words with their figures."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from batchmark.analysis.scaling.curves import Curve
from batchmark.analysis.scaling.points import TrainingPoint
from batchmark.analysis.scaling.prediction import MOST_RANKS, Prediction
from batchmark.analysis.scaling.reach import POOR, WELL, Limit
from batchmark.analysis.scaling.studies import ScalingStudy, Training
from batchmark.core import formatting
from batchmark.core.intervals import MINIMUM_SAMPLES
from batchmark.report.scaling import words
from batchmark.report.words import StudyAnswer

QUESTION = "How far does the training scale?"
EPOCH = "What does an epoch cost?"
WHAT_IF = "What if there were more?"
WHAT_IF_SECTION = "what-if"
LIMITS: dict[Limit, str] = {
    "communication": "exchanging gradients",
    "data": "waiting for data",
    "compute": "computing, which a smaller batch or another machine makes dearer,",
}


def answers(studies: Sequence[ScalingStudy]) -> list[StudyAnswer]:
    """One for each training; a caution that holds for several is said with the first."""
    found: list[StudyAnswer] = []
    said: set[str] = set()
    for study in studies:
        for one in _of_study(study):
            new = [text for text in one.cautions if text not in said]
            said.update(new)
            found.append(StudyAnswer(one.verdict, one.sentence, new))
    return found


def _of_study(study: ScalingStudy) -> Iterator[StudyAnswer]:
    if study.refused or not study.trainings:
        reason = study.refused or "it has no row that trains"
        yield StudyAnswer("Not known", f"{words.where(study)}: {reason}.", [])
    else:
        for training in study.trainings:
            yield _answer(study, training)


def _answer(study: ScalingStudy, training: Training) -> StudyAnswer:
    reach, name = training.reach, words.training_name(study, training)
    if reach.verdict == "scales" and reach.nodes:
        verdict = f"Well to {'at least ' if reach.open_ended else ''}{reach.nodes} nodes"
    else:
        verdict = "Not well" if reach.verdict == "falls_short" else "Not known"
    if reach.reason:
        figures = f"{reach.reason[:1].upper()}{reach.reason[1:]}"
        if reach.efficiency:
            figures += f", {formatting.number(reach.efficiency)}"
    else:
        figures = _efficiencies(training)
    text = f"{figures}: {name}."
    return StudyAnswer(
        verdict,
        " ".join(filter(None, (text, _limit(training)))),
        [*_cautions(study, training), *_dollars(study), *whose(study)],
    )


def main_curve(training: Training) -> Curve | None:
    """What its reach is of."""
    return next(iter((*training.weak, *training.strong)), None)


def _efficiencies(training: Training) -> str:
    """Where it still scales well, and at the most nodes."""
    curve, reach = main_curve(training), training.reach
    assert curve is not None  # noqa: S101 - it has a verdict
    shown = dict.fromkeys((reach.nodes, curve.points[-1].nodes))
    points = [point for nodes in shown if nodes and (point := curve.point(nodes))]
    texts = [
        f"{formatting.number(point.efficiency)} on {words.nodes(point.nodes)}" for point in points
    ]
    return f"Efficiency {' and '.join(texts)}, against {words.nodes(curve.base_nodes)}"


def _limit(training: Training) -> str | None:
    """What takes the time that a step loses; said once, where it surely loses some."""
    reach = training.reach
    if reach.limit_nodes is None:
        return None
    at = f"On {words.nodes(reach.limit_nodes)}"
    if reach.limit is None or reach.limit_share is None:
        return f"{at} it is not known what takes the rest: no part of a step explains half of it."
    share = formatting.percent(reach.limit_share)
    return f"{at} {LIMITS[reach.limit]} explains {share} of what a step loses."


def _cautions(study: ScalingStudy, training: Training) -> Iterator[str]:
    curve, reach = main_curve(training), training.reach
    if curve and curve.base_nodes > 1:
        yield (
            f"1 node was not measured: efficiencies are against {words.nodes(curve.base_nodes)}, "
            "and what going from one to those costs is in none of them."
        )
    if curve and curve.kind == "strong":
        yield "It is strong scaling: no two numbers of nodes had the same batch for each device."
    if reach.poor_from:
        yield f"From {words.nodes(reach.poor_from)} on the efficiency is surely below {POOR}."
    if reach.waits_for_data and curve:
        share = formatting.percent(reach.waits_for_data)
        yield (
            f"On {words.nodes(curve.base_nodes)} already {share} of a step waits for data: an "
            "efficiency near 1 then says that reading grows with the nodes, and not that the "
            "devices are busy."
        )
    jobs = min((point.jobs for point in training.points), default=0)
    if 0 < jobs < MINIMUM_SAMPLES:
        number = formatting.count(jobs, "job")
        yield f"With {number} a point, intervals leave out how much jobs differ: repeat them."
    if study.unmeasured:
        names = formatting.some([one.name for one in study.unmeasured], most=2)
        yield f"Not measured: {names}; why is told below."


def _dollars(study: ScalingStudy) -> Iterator[str]:
    """Why there are none, on machines that somebody rents."""
    environment = study.target.environment
    if study.price.note and environment and environment.instance_type:
        yield study.price.note


def whose(study: ScalingStudy) -> Iterator[str]:
    """That figures are not a GPU's, or not a network's."""
    environment, name = study.target.environment, words.target_name(study)
    if words.on_cpu(study):
        backend = f", which exchange by {words.backend(study)}"
        yield f"{name}: its devices were processes on CPUs{backend}. No figure is a GPU's."
    elif environment and (environment.gpu_model or "").startswith(words.SIMULATED):
        yield f"{name}: its GPUs were simulated. No figure is a GPU's."
    if study.loopback:
        yield (
            f"{name}: all nodes were on one machine, where they share cores and no network lies "
            "between them. No efficiency is a cluster's."
        )
    elif environment and environment.instance_type is None:
        yield f"{name}: its nodes were no EC2 instances. No efficiency is EC2's."


def epoch_cost(studies: Sequence[ScalingStudy]) -> str | None:
    """Of each training on the fewest and on the most nodes; None without a price."""
    texts = []
    for _, training, label in words.labelled(studies):
        priced = {
            point.nodes: point.usd_per_epoch
            for point in _of_main_curve(training)
            if point.usd_per_epoch
        }
        if priced:
            costs = [
                f"{formatting.usd_figure(priced[nodes])} on {words.nodes(nodes)}"
                for nodes in dict.fromkeys((min(priced), max(priced)))
            ]
            texts.append(_with_label(label, f"{', '.join(costs)}."))
    return " ".join(texts) or None


def _with_label(label: str, text: str) -> str:
    return f"{label[:1].upper()}{label[1:]}: {text}" if label else f"{text[:1].upper()}{text[1:]}"


def _of_main_curve(training: Training) -> list[TrainingPoint]:
    curve = main_curve(training)
    if curve is None:
        return list(training.points)
    batches = {(point.nodes, point.batch) for point in curve.points}
    return [point for point in training.points if (point.nodes, point.batch) in batches]


def what_if(studies: Sequence[ScalingStudy]) -> str | None:
    """What is predicted at the most devices, and whether the model holds; None without any."""
    texts = [
        _with_label(label, prediction_line(study, training.prediction))
        for study, training, label in words.labelled(studies)
        if training.prediction.points
    ]
    return " ".join(texts) or None


def prediction_line(study: ScalingStudy, prediction: Prediction) -> str:
    last = prediction.points[-1]
    if prediction.outcome == "wrong":
        return f"not known: {held(prediction)}"
    efficiency = formatting.number(last.efficiency)
    text = f"predicted, not measured: efficiency {efficiency} on {words.devices(study, last.ranks)}"
    return f"{text}; {held(prediction)}"


def held(prediction: Prediction) -> str:
    """Whether the model holds where it was not fitted, with its figures."""
    if prediction.outcome == "not_checked":
        return f"the model is not checked, as {prediction.reason}."
    at = " and ".join(
        f"{words.nodes(point.nodes)}, where it says {formatting.number(point.predicted).value} and "
        f"{formatting.number(point.measured).value} was measured"
        for point in prediction.checked
    )
    holds = "holds" if prediction.outcome == "holds" else "does not hold"
    return f"the model {holds} on {at}, without having been fitted to it."


def lines(studies: Sequence[ScalingStudy]) -> Iterator[tuple[str, str, str | None]]:
    """Questions beside the main one, their answers, and the section that has more."""
    if cost := epoch_cost(studies):
        yield EPOCH, cost, None
    if found := what_if(studies):
        yield WHAT_IF, found, WHAT_IF_SECTION


def trust(studies: Sequence[ScalingStudy]) -> str:
    """How far the curves can be trusted, in a sentence."""
    points = [point for study in studies for one in study.trainings for point in one.points]
    if not points:
        return "Nothing that trains was measured."
    doubtful = sum(bool(point.warnings) for point in points)
    text = f"The training was checked at {formatting.count(len(points), 'point')}"
    return f"{text}; {doubtful} to read with care." if doubtful else f"{text}."


def meaning() -> list[str]:
    """How to read the figures."""
    return [
        "Efficiency is images per second on N nodes over N times those of one node, or of the "
        "fewest that were measured. Weak scaling keeps the batch of each device, strong scaling "
        "that of all together.",
        f"Training scales well where the whole interval of its efficiency is {WELL} or more.",
        "Communication is what exchanging gradients adds to a step, without what computing hides. "
        "Data, computing and communication are measured each by itself, so they need not add up.",
        "Bus bandwidth is 2(n-1)/n of a tensor's bytes per second on n ranks: what each link "
        f"carries, whatever the number of ranks. A prediction goes to {MOST_RANKS} devices.",
    ]
