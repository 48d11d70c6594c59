"""The real job as an image of its own: it measures few rows, each for a moment."""

from pathlib import Path

__path__.append(str(Path(__file__).parents[4] / "job_container" / "batchmark_job"))
