"""Tasks that share a device, as words, curves and tables."""

from batchmark.report.sharing.answer import story
from batchmark.report.sharing.sections import sections

__all__ = ["sections", "story"]
