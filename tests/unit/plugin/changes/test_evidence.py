"""How far a window's own runs are allowed to speak for a shift that they don't have."""

import numpy as np
import pytest

from batchmark.changes.evidence import LEAST_POWER, _power


def log_ratios(logs, shift):
    """Of standard normal noise with this shift and without."""
    return shift * logs - shift**2 / 2


def test_evidence_counts_less_the_more_the_window_has_of_it_itself():
    """With noise n times as wide, the ratios' averages are exp(e (n² e - 1) / 2) at the power e."""
    noise = np.random.default_rng(1).standard_normal(100_000)

    assert _power(log_ratios(noise, 1.0)) == pytest.approx(1, abs=0.02)
    assert _power(log_ratios(2 * noise, 1.0)) == pytest.approx(1 / 4, abs=0.01)
    assert _power(np.full(20, 0.1)) == LEAST_POWER
