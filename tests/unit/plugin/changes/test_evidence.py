"""How far a window's own runs are allowed to speak for a shift that they don't have."""

import numpy as np
import pytest

from batchmark.changes.evidence import LEAST_POWER, _power


def log_ratios(logs, shift):
    """Of standard normal noise with this shift and without."""
    return shift * logs - shift**2 / 2


def test_evidence_of_noise_that_the_density_knows_is_left_as_it_is():
    noise = np.random.default_rng(1).standard_normal(100_000)

    assert _power(log_ratios(noise, 1.0)) == pytest.approx(1, abs=0.02)


def test_evidence_of_wider_noise_counts_less():
    """Twice as wide, the ratios' averages are exp(2 e (e - 1 / 4)) at the power e."""
    noise = 2 * np.random.default_rng(1).standard_normal(100_000)

    assert _power(log_ratios(noise, 1.0)) == pytest.approx(1 / 4, abs=0.01)


def test_evidence_that_the_window_has_itself_counts_hardly():
    assert _power(np.full(20, 0.1)) == LEAST_POWER
