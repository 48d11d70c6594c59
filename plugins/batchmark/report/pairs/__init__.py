"""Reports how GPU targets compare with CPU targets, row by row."""

from batchmark.report.pairs.answer import story
from batchmark.report.pairs.sections import sections

__all__ = ["sections", "story"]
