"""What is said of a series' newest run."""

import numpy as np
import pytest

from batchmark.changes.detection import DetectorSettings
from batchmark.changes.standing import standings
from tests.builders.changed_series import build_history, build_key


def series(*, newest=1.0, runs=30, workload="matmul"):
    """Runs with 1 % of noise, the newest so many times as slow."""
    values = 0.1 * np.exp(np.random.default_rng(7).normal(0, 0.01, runs))
    return build_history(build_key(workload=workload), [*values[:-1], 0.1 * newest])


@pytest.mark.parametrize(
    ("newest", "runs", "word"),
    [
        (1.01, 30, "within the noise"),
        (1.34, 30, "beyond the noise"),
        (0.7, 30, "beyond the noise"),
        (1.34, 8, "beyond the noise"),
        (1.34, 7, "not known yet"),
        (1.34, 1, "not known yet"),
    ],
)
def test_a_newest_run_is_judged_by_the_noise_of_those_before_it(newest, runs, word):
    one = series(newest=newest, runs=runs)
    assert standings([one]) == {one.key: (word, None)}


def test_a_level_that_changed_is_a_change():
    values = [*series().values, *(1.3 * series(runs=10).values)]
    one = build_history(build_key(), values)
    found = standings([one, series(workload="blur")])
    assert found[one.key].word == "a change"
    assert found[one.key].point.change == pytest.approx(0.3, abs=0.02)
    assert found[build_key(workload="blur")].word == "within the noise"


def test_a_change_needs_the_evidence_that_the_settings_ask_for():
    values = [*series().values, *(1.03 * series(runs=6).values)]
    one = build_history(build_key(), values)

    assert standings([one])[one.key].word == "a change"
    strict = DetectorSettings(false_alerts_a_month=1e-9)
    assert standings([one], strict)[one.key].word != "a change"
