"""The confidence level of every interval."""

from __future__ import annotations

CONFIDENCE = 0.95  # with which an interval holds the true value, here and in reports
CONFIDENCE_TEXT = f"{100 * CONFIDENCE:g} %"
