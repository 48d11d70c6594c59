"""Nodes that measure together, as words, curves and tables, and what more of them would do."""

from batchmark.report.scaling.answer import story
from batchmark.report.scaling.sections import sections
from batchmark.report.scaling.what_if import beside

__all__ = ["beside", "sections", "story"]
