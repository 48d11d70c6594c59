"""What more nodes would do, as one self-contained HTML page beside the report."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from batchmark.analysis.scaling.prediction import MOST_RANKS, Prediction
from batchmark.analysis.scaling.studies import ScalingStudy, Training
from batchmark.core import formatting
from batchmark.report.page import page_templates
from batchmark.report.scaling import answer, words
from batchmark.report.scaling.charts import prediction_chart
from batchmark.report.scaling.tables import check_table, prediction_table
from batchmark.report.study_parts import StudyChart, StudyTable

if TYPE_CHECKING:
    from batchmark.report.model import Report

VERDICTS = {
    "holds": "The model holds",
    "wrong": "The model is wrong",
    "too_noisy": "Too noisy to tell",
    "not_checked": "Not checked",
    "not_known": "Not known",
}
ASSUMPTIONS = (
    "The batch of each device stays the same (weak scaling), and computing and waiting for data "
    "take as long on any number of nodes: the file system keeps up, and no node is slower.",
    "The gradients are summed at once over a ring of all ranks: 2(n-1) hops, one after the other, "
    "and 2(n-1)/n of the bytes on each link. NCCL may choose trees or levels of rings, which take "
    "fewer hops.",
    "Each hop takes as long and each link is as fast as where it was measured: no "
    "switch further up is narrower, and nobody else uses it.",
    "As much of the exchange stays hidden behind computing as on the most nodes measured. Where "
    "all of it was hidden, more might be, so the efficiency is then at least what is predicted.",
    "Intervals come from the samples, and are widened by how far off the model was where it was "
    f"checked. How wrong it is further out, towards {MOST_RANKS} devices, nobody has measured.",
)


class PredictionView(NamedTuple):
    name: str
    verdict: str
    sentence: str
    cautions: list[str]
    charts: list[StudyChart]
    tables: list[StudyTable]
    parameters: list[tuple[str, str]]

    @classmethod
    def of(cls, study: ScalingStudy, training: Training, cautions: Sequence[str]) -> PredictionView:
        prediction, name = training.prediction, words.training_name(study, training)
        verdict = VERDICTS[prediction.outcome]
        if not prediction.points:
            return cls(name, verdict, f"{prediction.reason}.", [], [], [], [])
        check = check_table(prediction)
        return cls(
            name,
            verdict,
            answer.prediction_line(study, training),
            [*cautions, *([answer.FEW_JOBS] if answer.few_jobs(training) else [])],
            [prediction_chart(study, training.weak[0], prediction)],
            [*([check] if check else []), prediction_table(study, prediction)],
            list(_parameters(prediction)),
        )


def render_html(report: Report) -> str | None:
    """None where nothing can be predicted."""
    if not any(one.prediction.points for study in report.scaling for one in study.trainings):
        return None
    page = page_templates().get_template("what_if.html.jinja")
    return page.render(report=report, views=list(_views(report)), assumptions=ASSUMPTIONS)


def _views(report: Report) -> Iterator[PredictionView]:
    for study in report.scaling:
        cautions = list(answer.whose(study))
        for training in words.trainings(study):
            yield PredictionView.of(study, training, cautions)


def _parameters(prediction: Prediction) -> Iterator[tuple[str, str]]:
    """The model's figures, and what each was measured by."""
    source = "all-reduces by themselves" if prediction.by_all_reduce else "what they add to steps"
    if prediction.local_seconds:
        yield "Compute and data", f"{formatting.time(prediction.local_seconds)} of each step."
    if prediction.latency_seconds:
        latency = prediction.latency_seconds
        hop = str(formatting.time(latency)) if latency.value > 0 else "none that shows"
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
                f"nothing: in training the exchange takes {more} more than by itself, as where it "
                "waits for slower ranks.",
            )
