"""The confidence level used for all intervals."""

from __future__ import annotations

CONFIDENCE = 0.95  # probability that an interval covers the true value, here and in reports
CONFIDENCE_TEXT = f"{100 * CONFIDENCE:g} %"
