"""Builds the what-if page, which predicts how training would scale to more nodes."""

from __future__ import annotations

from collections.abc import Iterator

from batchmark.analysis.scaling.prediction import MOST_RANKS, Prediction
from batchmark.analysis.scaling.studies import ScalingStudy, Training
from batchmark.core import formatting
from batchmark.report import blocks
from batchmark.report.model import Report
from batchmark.report.scaling import answer, words
from batchmark.report.scaling.charts import prediction_chart
from batchmark.report.scaling.sections import check_table, prediction_table
from batchmark_job.result.confidence import CONFIDENCE_TEXT

FILE = "scaling.html"
NOTICE = (
    "Predicted by a model fitted to measurements. Nothing on this page was measured unless stated."
)
VERDICTS = {
    "holds": "The model holds",
    "wrong": "The model is wrong",
    "too_noisy": "Too noisy to tell",
    "not_checked": "Not checked",
    "not_known": "Not known",
}
ASSUMPTIONS = (
    "The batch of each device stays the same (weak scaling), and computing and waiting for data "
    "take the same time on any number of nodes: the file system keeps up, and no node is slower.",
    "All gradients are summed in one go over a ring of all ranks, which takes 2(n-1) consecutive "
    "hops and sends 2(n-1)/n of the bytes over each link. NCCL may choose trees or hierarchical "
    "rings, which take fewer hops.",
    "Hops take as long, and links are as fast, as in the measurements: no switch further up is "
    "slower or used by others.",
    "As much of the exchange stays hidden behind computing as on the most nodes measured. If all "
    "of it was hidden there, even more could be, so the predicted efficiency is a lower bound.",
    "Intervals come from the samples, and are widened by how far off the model was where it was "
    f"checked. How wrong it is beyond that, towards {MOST_RANKS} devices, is unknown.",
)


def beside(report: Report) -> blocks.Beside | None:
    """Build the what-if page; None if nothing can be predicted."""
    studies = report.of(ScalingStudy)
    if not any(one.prediction.points for study in studies for one in study.trainings):
        return None
    trainings = [(study, one) for study in studies for one in words.trainings(study)]
    page = blocks.Page(
        "What if there were more nodes?",
        f"Run {report.run_id}, {report.when}.",
        notices=[NOTICE],
        sections=[
            *(
                blocks.Section(
                    f"prediction-{number}",
                    words.training_name(study, training),
                    list(_blocks(study, training)),
                )
                for number, (study, training) in enumerate(trainings, start=1)
            ),
            blocks.Section("assumptions", "What it assumes", [blocks.Remarks([], ASSUMPTIONS)]),
        ],
        moment=report.when,
    )
    return blocks.Beside(answer.WHAT_IF_SECTION, FILE, page)


def _blocks(study: ScalingStudy, training: Training) -> Iterator[blocks.Block]:
    prediction, verdict = training.prediction, VERDICTS[training.prediction.outcome]
    if not prediction.points:
        yield blocks.Verdict(
            verdict, blocks.capitalized(f"{prediction.reason}. {answer.MORE_NODES}")
        )
        return
    yield blocks.Verdict(verdict, blocks.capitalized(answer.prediction_line(study, training)))
    few = [answer.FEW_JOBS] if answer.few_jobs(training) else []
    cautions = [*answer.disclaimers(study), *few]
    yield from (blocks.Text(text, "warning") for text in cautions)
    yield blocks.Charts(
        f"The dashed line is the model's, with its {CONFIDENCE_TEXT} interval as a band; points "
        "are measured.",
        [prediction_chart(study, training.weak[0], prediction)],
    )
    if check := check_table(prediction):
        yield check
    yield prediction_table(study, prediction)
    yield blocks.Facts("What it is fitted to", list(_parameters(prediction)))


def _parameters(prediction: Prediction) -> Iterator[tuple[str, str]]:
    """Yield the name and value of each of the model's parameters, in words."""
    source = "all-reduces by themselves" if prediction.by_all_reduce else "what they add to steps"
    if prediction.local_seconds:
        yield "Compute and data", f"{formatting.time(prediction.local_seconds)} of each step."
    if prediction.latency_seconds:
        latency = prediction.latency_seconds
        hop = str(formatting.time(latency)) if latency.value > 0 else "too short to measure"
        yield "A hop between ranks", f"{hop}, by {source}."
    if prediction.bytes_per_second:
        bandwidth = formatting.rate(prediction.bytes_per_second, "B")
        yield "A link's bandwidth", f"{bandwidth}, by {source}."
    if prediction.gradient_bytes:
        size = formatting.memory(prediction.gradient_bytes)
        yield "Gradients", f"{size} from each device at each step."
    if prediction.by_all_reduce and prediction.hidden_seconds:
        hidden = prediction.hidden_seconds
        if hidden.value >= 0:
            least = answer.least(prediction)
            yield "Hidden behind computing", f"{least}{formatting.time(hidden)} of each exchange."
        else:
            more = formatting.seconds(-hidden.value)
            yield (
                "Hidden behind computing",
                f"nothing: in training, the exchange takes {more} more than by itself, for example "
                "because it waits for slower ranks.",
            )
