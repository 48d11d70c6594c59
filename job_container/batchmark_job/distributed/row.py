"""One row of the `scaling` suite, measured in one or more launches by all ranks on all nodes."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from batchmark_job.distributed.nodes import Nodes
from batchmark_job.distributed.point import AllReducePoint, Measured, ScalingPoint
from batchmark_job.distributed.task import Answer, Ranks
from batchmark_job.errors import say
from batchmark_job.formatting import count
from batchmark_job.measuring.limits import PATIENCE
from batchmark_job.measuring.measured_row import Bench, MeasuredRow
from batchmark_job.measuring.processes.workers import StepError
from batchmark_job.measuring.samples.sample_statistics import spread_too_far
from batchmark_job.result.document import Measurement, MeasurementStatus
from batchmark_job.result.scaling import Scaling, StepSplit

STARTING_SECONDS = 600.0  # time limit for processes, libraries and first call of all ranks
STARTING = "starting {} and loading their libraries (takes 10 to 60 s)"
NOTHING_TO_REDUCE = "all-reduce needs more than one device"
LEAST_SAMPLES = 6  # with fewer samples a median has no interval


@dataclass
class ScalingRow(MeasuredRow):
    """A row measured in launches: each turn starts fresh processes on all nodes."""

    workload: Measured
    point: ScalingPoint = field(kw_only=True)
    nodes: Nodes = field(kw_only=True)
    launched: list[Answer] = field(default_factory=list, kw_only=True)
    _throttled: list[bool] = field(default_factory=list, kw_only=True)  # by sample

    backends: ClassVar[Mapping[str, str]] = {"cpu": "gloo", "cuda": "nccl"}

    @classmethod
    def of(cls, point: ScalingPoint, dtype: str, nodes: Nodes) -> ScalingRow:
        return cls(point.measured, point.parameters(), dtype, point=point, nodes=nodes)

    @property
    def turns(self) -> list[Answer]:
        return self.launched

    def take_turn(self, bench: Bench) -> None:
        self.begun = True
        launches = self.workload.launches
        self.limits = replace(bench.limits, processes=launches, turns=1)
        if isinstance(self.workload, AllReducePoint) and self.point.nodes * self.point.devices == 1:
            self.give_up(MeasurementStatus.SKIPPED, NOTHING_TO_REDUCE)
            return
        share = bench.limits.max_seconds / launches
        ranks = Ranks(
            device="cuda" if bench.device == "cuda" else "cpu",
            dtype=self.dtype,
            threads=max(1, bench.thread_counts[0] // self.point.devices),
            samples=math.ceil(bench.limits.samples / launches),
            max_seconds=share,
        )
        patience = STARTING_SECONDS + (self.workload.seconds or PATIENCE * share)
        number = f"launch {len(self.launched) + 1} of {launches}"
        what = count(self.point.nodes * self.point.devices, "rank")
        say(f"{self.workload.name}, {number}: {STARTING.format(what)}")
        try:
            answer = self.nodes.run(self.workload.task(ranks), self.point.devices, patience)
        except StepError as error:
            self.give_up_after(error)
            return
        self._take(bench, answer)

    def _take(self, bench: Bench, answer: Answer) -> None:
        self.found.setdefault("cold_seconds", answer.cold_seconds)
        self._keep_the_worst(answer.correctness)
        self.found.update(
            implementation=answer.implementation,
            items=answer.items,
            bytes_moved=answer.bytes_moved,
        )
        self.launched.append(answer)
        spans = list(zip(answer.starts, answer.starts[1:], strict=False))
        if spans:
            self._throttled += self.conditions_of(bench.monitor, spans)
        self.spent_seconds += answer.starts[-1] - answer.starts[0] if answer.starts else 0.0
        if answer.wrong or not answer.correctness.passed:
            reason = f"wrong result: {answer.wrong or 'the error exceeds the tolerance'}"
            self.give_up(MeasurementStatus.FAILED, reason)
        elif self._is_over():
            self._finish()

    def _finish(self) -> None:
        if apart := spread_too_far(self.samples):
            self.end(MeasurementStatus.UNSETTLED, apart)
            return
        remarks = [answer.remark for answer in self.launched if answer.remark]
        if len(self.samples) < LEAST_SAMPLES:
            remarks.append(f"only {len(self.samples)} samples, too few for a confidence interval")
        self.end(MeasurementStatus.MEASURED, "; ".join(dict.fromkeys(remarks)) or None)

    def _as_measured(self, status: MeasurementStatus, reason: str | None) -> Measurement:
        found: dict[str, Any] = dict(self.found)
        if answers := self.launched:
            enough = len(self.samples) >= self.limits.samples
            found.update(
                self._sampled(
                    [len(each.samples_seconds) for each in answers],
                    self._throttled,
                    "max_samples" if enough else "max_seconds",
                ),
                timer="monotonic",
                warmup_calls=sum(each.warmup_calls for each in answers),
                peak_memory_bytes=max(each.peak_memory_bytes or 0 for each in answers) or None,
            )
        found["scaling"] = self._scaling()
        return self._named(status, reason, **found)

    def _scaling(self) -> Scaling:
        answers = self.launched
        busy = [answer.busy_share for answer in answers if answer.busy_share is not None]
        trained = answers and answers[0].split is not None
        return Scaling(
            nodes=self.nodes.records(self.point.devices),
            backend=self.backends[self.nodes.device],
            settings=getattr(self.workload, "settings", None),
            split=_middle([each.split for each in answers if each.split]) if trained else None,
            losses=answers[0].losses if answers else (),
            gradient_bytes=answers[0].gradient_bytes if answers else None,
            gpu_busy_share=statistics.fmean(busy) if busy else None,
        )


def _middle(splits: list[StepSplit]) -> StepSplit:
    """Return the median of each part of a step over the launches."""
    parts = {
        name: statistics.median(getattr(each, name) for each in splits)
        for name in StepSplit.model_fields
    }
    return StepSplit(**parts)
