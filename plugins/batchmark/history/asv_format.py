"""What reading and writing airspeed velocity's results have in common."""

from __future__ import annotations

RESULTS_VERSION = 2
# asv's columns of figures, and ours; all in seconds.
RESULT = "result"
QUARTILES = {"stats_q_25": "p25_seconds", "stats_q_75": "p75_seconds"}
