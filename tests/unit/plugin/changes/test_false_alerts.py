"""How much evidence changes need, by how many figures are judged a month."""

from dataclasses import replace

import numpy as np
import pytest

from batchmark.changes.evidence import EVIDENCE
from batchmark.changes.false_alerts import DECAY, RATE, evidence_needed, evidence_of, runs_a_month
from batchmark.changes.metric import Metric
from tests.builders.changed_series import build_history, build_key, noisy


def test_a_months_figures_are_those_of_the_busiest_thirty_days():
    daily, short = build_history(build_key(), noisy(50)), build_history(build_key(), noisy(20))
    paused = replace(daily, recorded_at=daily.recorded_at.copy())
    paused.recorded_at[-1] += np.timedelta64(100, "D")

    assert runs_a_month([daily]) == runs_a_month([paused]) == 30
    assert runs_a_month([daily, short]) == 50
    assert runs_a_month([short]) == 20
    assert runs_a_month([build_history(build_key(), [np.nan]), build_history(build_key(), [])]) == 0


def test_few_series_need_the_least_evidence_and_many_need_more():
    promised = len(Metric) * RATE  # a metric's share is what one figure a month alerts

    assert evidence_of(0, promised) == evidence_of(1, promised) == EVIDENCE
    assert evidence_of(100, promised) == pytest.approx(EVIDENCE + np.log(100) / DECAY)
    assert evidence_of(100, 100 * promised) == EVIDENCE
    assert evidence_of(100, 1000 * promised) == EVIDENCE

    many = [build_history(build_key(parameters=f'{{"n":{n}}}'), noisy(40)) for n in range(3)]
    assert evidence_needed(many, 0.01) == evidence_of(90, 0.01)  # judged together
